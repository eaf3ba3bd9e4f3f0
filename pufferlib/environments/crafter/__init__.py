"""Crafter: survival in an open world that is drawn in 64 × 64 pixels."""

from typing import TYPE_CHECKING

from pufferlib.environments import lazy_policies
from pufferlib.environments.crafter.environment import EnvConfig, env_creator, make_env

if TYPE_CHECKING:
    from pufferlib.environments.crafter.torch import Policy, Recurrent

__all__ = ["EnvConfig", "Policy", "Recurrent", "env_creator", "make_env"]

__getattr__ = lazy_policies(__name__)
