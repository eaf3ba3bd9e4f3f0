"""Ocean: first-party environments that train in seconds, to check a learning setup."""

from typing import TYPE_CHECKING

from pufferlib.environments import lazy_policies
from pufferlib.environments.ocean.environment import (
    CONFIGS,
    EnvConfig,
    MemoryConfig,
    env_creator,
    make_env,
    make_memory,
    make_squared,
)

if TYPE_CHECKING:
    from pufferlib.environments.ocean.torch import Policy, Recurrent

__all__ = [
    "CONFIGS",
    "EnvConfig",
    "MemoryConfig",
    "Policy",
    "Recurrent",
    "env_creator",
    "make_env",
    "make_memory",
    "make_squared",
]

__getattr__ = lazy_policies(__name__)
