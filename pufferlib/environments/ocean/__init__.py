"""Ocean: first-party environments that train in seconds, to check a learning setup."""

from typing import TYPE_CHECKING

from pufferlib.environments import lazy_policies
from pufferlib.environments.ocean.environment import (
    CONFIGS,
    BanditConfig,
    EnvConfig,
    MemoryConfig,
    MultiagentConfig,
    PasswordConfig,
    SpacesConfig,
    StochasticConfig,
    env_creator,
    make_bandit,
    make_env,
    make_memory,
    make_multiagent,
    make_password,
    make_spaces,
    make_squared,
    make_stochastic,
)

if TYPE_CHECKING:
    from pufferlib.environments.ocean.torch import Policy, Recurrent

__all__ = [
    "CONFIGS",
    "BanditConfig",
    "EnvConfig",
    "MemoryConfig",
    "MultiagentConfig",
    "PasswordConfig",
    "Policy",
    "Recurrent",
    "SpacesConfig",
    "StochasticConfig",
    "env_creator",
    "make_bandit",
    "make_env",
    "make_memory",
    "make_multiagent",
    "make_password",
    "make_spaces",
    "make_squared",
    "make_stochastic",
]

__getattr__ = lazy_policies(__name__)
