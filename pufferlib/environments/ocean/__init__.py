"""Ocean: first-party environments that train in seconds, to check a learning setup."""

from typing import TYPE_CHECKING

from pufferlib.environments import lazy_policies
from pufferlib.environments.ocean.environment import EnvConfig, env_creator, make_env, make_squared

if TYPE_CHECKING:
    from pufferlib.environments.ocean.torch import Policy, Recurrent

__all__ = ["EnvConfig", "Policy", "Recurrent", "env_creator", "make_env", "make_squared"]

__getattr__ = lazy_policies(__name__)
