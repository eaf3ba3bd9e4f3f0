"""MAgent: battles and hunts of many agents on a grid, of the package `magent2`."""

from typing import TYPE_CHECKING

from pufferlib.environments import lazy_policies
from pufferlib.environments.magent.environment import EnvConfig, env_creator, make_env

if TYPE_CHECKING:
    from pufferlib.environments.magent.torch import Policy, Recurrent

__all__ = ["EnvConfig", "Policy", "Recurrent", "env_creator", "make_env"]

__getattr__ = lazy_policies(__name__)
