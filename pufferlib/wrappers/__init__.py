"""Adapters that bring environments of older or other APIs to Gymnasium and parallel PettingZoo."""

from pufferlib.wrappers.conversion import accepts, to_gymnasium_space
from pufferlib.wrappers.gym import GymToGymnasium
from pufferlib.wrappers.pettingzoo import PettingZooTruncatedWrapper, aec_to_parallel

__all__ = [
    "GymToGymnasium",
    "PettingZooTruncatedWrapper",
    "accepts",
    "aec_to_parallel",
    "to_gymnasium_space",
]
