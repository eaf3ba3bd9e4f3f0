"""Procgen's sixteen games of generated levels (`procgen`)."""

from typing import TYPE_CHECKING

from pufferlib.environments import lazy_policies
from pufferlib.environments.procgen.environment import EnvConfig, env_creator, make_env

if TYPE_CHECKING:
    from pufferlib.environments.procgen.torch import Policy, Recurrent

__all__ = ["EnvConfig", "Policy", "Recurrent", "env_creator", "make_env"]

__getattr__ = lazy_policies(__name__)
