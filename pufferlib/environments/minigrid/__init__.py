"""MiniGrid and BabyAI: small worlds of rooms, keys and missions."""

from typing import TYPE_CHECKING

from pufferlib.environments import lazy_policies
from pufferlib.environments.minigrid.environment import EnvConfig, env_creator, make_env

if TYPE_CHECKING:
    from pufferlib.environments.minigrid.torch import Policy, Recurrent

__all__ = ["EnvConfig", "Policy", "Recurrent", "env_creator", "make_env"]

__getattr__ = lazy_policies(__name__)
