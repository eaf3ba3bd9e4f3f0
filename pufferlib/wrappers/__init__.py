"""Adapters that bring environments to Gymnasium and parallel PettingZoo, and agents together.

Environments of older or other APIs become ones of today's; agents with unequal spaces get a common
one, or form teams.
"""

from pufferlib.wrappers.conversion import accepts, to_gymnasium_space
from pufferlib.wrappers.gym import GymToGymnasium
from pufferlib.wrappers.padding import PadAgentSpaces
from pufferlib.wrappers.pettingzoo import PettingZooTruncatedWrapper, aec_to_parallel
from pufferlib.wrappers.rllib import RLlibToPettingZoo
from pufferlib.wrappers.teams import TeamEnv

__all__ = [
    "GymToGymnasium",
    "PadAgentSpaces",
    "PettingZooTruncatedWrapper",
    "RLlibToPettingZoo",
    "TeamEnv",
    "accepts",
    "aec_to_parallel",
    "to_gymnasium_space",
]
