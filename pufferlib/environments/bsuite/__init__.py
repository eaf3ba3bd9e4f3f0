"""bsuite: small experiments, each about one ability of a learner."""

from typing import TYPE_CHECKING

from pufferlib.environments import lazy_policies
from pufferlib.environments.bsuite.environment import EnvConfig, env_creator, make_env

if TYPE_CHECKING:
    from pufferlib.environments.bsuite.torch import Policy, Recurrent

__all__ = ["EnvConfig", "Policy", "Recurrent", "env_creator", "make_env"]

__getattr__ = lazy_policies(__name__)
