"""Console games of the 1980s and 1990s through stable-retro (`stable_retro`)."""

from typing import TYPE_CHECKING

from pufferlib.environments import lazy_policies
from pufferlib.environments.retro.environment import EnvConfig, env_creator, make_env

if TYPE_CHECKING:
    from pufferlib.environments.retro.torch import Policy, Recurrent

__all__ = ["EnvConfig", "Policy", "Recurrent", "env_creator", "make_env"]

__getattr__ = lazy_policies(__name__)
