"""Adapters that bring environments to Gymnasium and parallel PettingZoo, and agents together.

Environments of older or other APIs become ones of today's; agents with unequal spaces get a common
one, or form teams, or a Gymnasium wrapper each.
"""

from pufferlib.wrappers.conversion import accepts, to_gymnasium_space
from pufferlib.wrappers.gym import GymToGymnasium
from pufferlib.wrappers.images import ResizeObservation
from pufferlib.wrappers.infos import LastInfo, NoInfo
from pufferlib.wrappers.masks import ActionMaskFromInfo
from pufferlib.wrappers.padding import PadAgentSpaces
from pufferlib.wrappers.per_agent import PerAgent
from pufferlib.wrappers.pettingzoo import PettingZooTruncatedWrapper, aec_to_parallel
from pufferlib.wrappers.rllib import RLlibToPettingZoo
from pufferlib.wrappers.teams import TeamEnv
from pufferlib.wrappers.turns import TurnsToParallel

__all__ = [
    "ActionMaskFromInfo",
    "GymToGymnasium",
    "LastInfo",
    "NoInfo",
    "PadAgentSpaces",
    "PerAgent",
    "PettingZooTruncatedWrapper",
    "RLlibToPettingZoo",
    "ResizeObservation",
    "TeamEnv",
    "TurnsToParallel",
    "accepts",
    "aec_to_parallel",
    "to_gymnasium_space",
]
