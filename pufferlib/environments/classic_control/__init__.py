"""Classic control: Gymnasium's small physics problems."""

from typing import TYPE_CHECKING

from pufferlib.environments import lazy_policies
from pufferlib.environments.classic_control.environment import EnvConfig, env_creator, make_env

if TYPE_CHECKING:
    from pufferlib.environments.classic_control.torch import Policy

__all__ = ["EnvConfig", "Policy", "env_creator", "make_env"]

__getattr__ = lazy_policies(__name__)
