"""Real-time strategy on small maps (`gym_microrts`, on a Java virtual machine)."""

from typing import TYPE_CHECKING

from pufferlib.environments import lazy_policies
from pufferlib.environments.microrts.environment import EnvConfig, env_creator, make_env

if TYPE_CHECKING:
    from pufferlib.environments.microrts.torch import Policy

__all__ = ["EnvConfig", "Policy", "env_creator", "make_env"]

__getattr__ = lazy_policies(__name__)
