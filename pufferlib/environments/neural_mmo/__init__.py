"""Neural MMO: many agents that forage, fight and trade in one world, of the package `nmmo`."""

from typing import TYPE_CHECKING

from pufferlib.environments import lazy_policies
from pufferlib.environments.neural_mmo.environment import EnvConfig, env_creator, make_env

if TYPE_CHECKING:
    from pufferlib.environments.neural_mmo.torch import Policy, Recurrent

__all__ = ["EnvConfig", "Policy", "Recurrent", "env_creator", "make_env"]

__getattr__ = lazy_policies(__name__)
