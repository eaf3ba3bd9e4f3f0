"""Pokemon Red on an emulated Game Boy (`pyboy`); the cartridge is yours to bring."""

from typing import TYPE_CHECKING

from pufferlib.environments import lazy_policies
from pufferlib.environments.pokemon_red.environment import EnvConfig, env_creator, make_env

if TYPE_CHECKING:
    from pufferlib.environments.pokemon_red.torch import Policy, Recurrent

__all__ = ["EnvConfig", "Policy", "Recurrent", "env_creator", "make_env"]

__getattr__ = lazy_policies(__name__)
