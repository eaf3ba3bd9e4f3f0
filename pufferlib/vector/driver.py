"""What a policy's constructor needs to know of a vectorized environment."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

from pufferlib.vector.group import Description
from pufferlib.vector.order import CLOSED

if TYPE_CHECKING:
    from pufferlib.vector.base import VecEnv


class DriverEnv:
    """What all environments share, and a way to the first one's own attributes.

    Has `single_observation_space`, `single_action_space`, `num_agents`, `emulated` and
    `autoreset_mode`; any other attribute is fetched from environment 0, wherever it lives.
    """

    def __init__(self, description: Description, vecenv: VecEnv) -> None:
        self.single_observation_space = description.observation_space
        self.single_action_space = description.action_space
        self.observation_space = description.observation_space
        self.action_space = description.action_space
        self.num_agents = description.num_agents
        self.emulated = description.emulated
        self.autoreset_mode = description.autoreset_mode
        self._vecenv = weakref.ref(vecenv)

    def __getattr__(self, name: str) -> Any:
        vecenv = None if name.startswith("_") else self._vecenv()
        if vecenv is None or vecenv._state is CLOSED:
            raise AttributeError(f"driver_env has no {name!r}, and its vecenv is gone or closed")
        return vecenv.get_attr(name, indices=[0])[0]

    def __getstate__(self) -> dict[str, Any]:
        # A policy that keeps its driver_env can be pickled and copied; the vecenv stays behind.
        return self.__dict__ | {"_vecenv": _no_vecenv}


def _no_vecenv() -> None:
    """Takes the place of the reference to a vecenv in a copy."""
