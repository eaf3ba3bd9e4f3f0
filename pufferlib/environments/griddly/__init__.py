"""Grid worlds for one player of Griddly (`griddly`)."""

from typing import TYPE_CHECKING

from pufferlib.environments import lazy_policies
from pufferlib.environments.griddly.environment import EnvConfig, env_creator, make_env

if TYPE_CHECKING:
    from pufferlib.environments.griddly.torch import Policy, Recurrent

__all__ = ["EnvConfig", "Policy", "Recurrent", "env_creator", "make_env"]

__getattr__ = lazy_policies(__name__)
