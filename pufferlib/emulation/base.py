"""Emulated environments of either API: an environment to its user, rows to vectorization."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from gymnasium.spaces import Space
from gymnasium.vector import AutoresetMode
from numpy.typing import NDArray

from pufferlib import snapshot
from pufferlib.buffers import Buffers
from pufferlib.emulation.common import (
    Check,
    check_mode,
    emulated_by,
    make_env,
    name_of,
    reset_keywords,
)
from pufferlib.environment import Infos
from pufferlib.exceptions import APIUsageError
from pufferlib.flatten import ActionPlan, ObservationPlan
from pufferlib.wrappers import accepts


@dataclass(frozen=True)
class API:
    """What an environment must speak, for messages.

    Attributes:
        name: whose API it is.
        reset_result, step_result: what these calls return.
        adapter: what to wrap an environment of an older API in.
    """

    name: str
    reset_result: str
    step_result: str
    adapter: str

    def misfit(self, call: str, expected: str, got: str) -> APIUsageError:
        """The error for a call that is not of this API."""
        return APIUsageError(
            f"{call}: expected {expected} of {self.name}, got {got}; "
            f"wrap it in pufferlib.wrappers.{self.adapter}"
        )


class EmulatedEnv(ABC):
    """Mixin of an environment that wraps another one and flattens its spaces.

    A subclass says which `api` it wraps, where the structured spaces are, and how to `bind` rows.
    """

    api: ClassVar[API]
    autoreset_mode = AutoresetMode.NEXT_STEP
    num_agents: int

    def __init__(
        self,
        env: Any = None,
        env_creator: Callable[..., Any] | None = None,
        env_args: Sequence[Any] = (),
        env_kwargs: Mapping[str, Any] | None = None,
        check: Check = "first",
    ) -> None:
        self.env = make_env(env, env_creator, env_args, env_kwargs)
        self.check = check_mode(check)
        if not accepts(self.env.reset, "seed"):
            raise self.api.misfit(str(self.env), "reset(seed=…, options=…)", "a reset without seed")
        observation_space, action_space = self._structured_spaces()
        name = name_of(self.env)
        self.observation_plan = ObservationPlan(observation_space, f"{name}: observation")
        self.action_plan = ActionPlan(action_space, f"{name}: action")
        self.single_observation_space = self.observation_plan.row_space
        self.single_action_space = self.action_plan.row_space
        self.emulated = emulated_by(self.observation_plan, self.action_plan)
        self.metadata = getattr(self.env, "metadata", {})
        self._rows: Any = None
        self._phase: Literal["new", "running", "ended"] = "new"

    @abstractmethod
    def _structured_spaces(self) -> tuple[Space[Any], Space[Any]]:
        """The wrapped environment's observation and action space, of one agent."""

    @abstractmethod
    def bind(self, buffers: Buffers) -> Any:
        """What vectorization steps: writes to `buffers`, a row per agent, and resets itself."""

    @property
    def render_mode(self) -> str | None:
        """The wrapped environment's."""
        return getattr(self.env, "render_mode", None)

    @property
    def unwrapped(self) -> Any:
        """The innermost environment."""
        return getattr(self.env, "unwrapped", self.env)

    @property
    def done(self) -> bool:
        """Whether the next call must be `reset`."""
        return self._phase != "running"

    def _begin(self, seed: int | None, options: dict[str, Any] | None) -> Infos:
        """Reset rows of this environment's own, made the first time."""
        if self._rows is None:
            self._rows = self.bind(
                Buffers.allocate(
                    self.single_observation_space, self.single_action_space, self.num_agents
                )
            )
        infos: Infos = self._rows.reset(seed, options)
        self._phase = "running"
        return infos

    def _running_rows(self) -> Any:
        """The rows of an episode that has not ended."""
        if self._phase == "new":
            raise APIUsageError("step() was called before reset(); call reset() first")
        if self._phase == "ended":
            raise APIUsageError("step() was called after the episode ended; call reset() first")
        return self._rows

    def render(self) -> Any:
        """What the wrapped environment's `render` gives."""
        return self.env.render()

    def close(self) -> None:
        """Close the wrapped environment, if it can be closed."""
        if hasattr(self.env, "close"):
            self.env.close()

    def __getstate__(self) -> dict[str, Any]:
        # Rows are views of buffers that stay where they are, so a copy begins with a reset.
        return self.__dict__ | {"_rows": None, "_phase": "new"}


class Rows:
    """The native contract over one emulated environment: rows written in place.

    Attributes:
        ended: whether the next step is a reset.
    """

    def __init__(self, env: Any, buffers: Buffers) -> None:
        self.env = env
        self.buffers = buffers
        self.ended = True
        self._actions = buffers.actions
        self._checking = env.check != "never"
        self._unchecked = True  # until the first step has been checked
        buffers.observations.fill(0)  # absent agents, and a struct's padding
        buffers.masks[:] = True

    def _reset_env(self, seed: int | None, options: dict[str, Any] | None) -> tuple[Any, Any]:
        """The wrapped environment's observations and infos."""
        env, api = self.env.env, self.env.api
        result = env.reset(**reset_keywords(env.reset, seed, options))
        if isinstance(result, tuple) and len(result) == 2 and isinstance(result[1], dict):
            return result
        raise api.misfit(f"{env}.reset()", api.reset_result, type(result).__name__)

    def _reset_checked(self) -> None:
        """Bounds have been checked: a first reset leaves them to the first step as well."""
        self._checking = self._checking and (self._unchecked or self.env.check == "always")

    def _step_checked(self) -> None:
        self._unchecked, self._checking = False, self.env.check == "always"

    def _bad_step(self, result: Any) -> APIUsageError:
        size = f" of {len(result)}" if isinstance(result, tuple) else ""
        env, api = self.env.env, self.env.api
        return api.misfit(f"{env}.step()", api.step_result, f"{type(result).__name__}{size}")

    def get_state(self) -> dict[str, Any]:
        """The environment's state and whether a reset is due, for `set_state`.

        Raises:
            SnapshotError: the environment's state cannot be taken.
        """
        return {"env": snapshot.take(self.env.env), "ended": self.ended}

    def set_state(self, state: dict[str, Any]) -> None:
        """Go on from a state; the rows are restored by whoever owns the buffers."""
        self.env.env = snapshot.put_back(self.env.env, state["env"])
        self.ended = state["ended"]


def copy_of(row: NDArray[Any]) -> NDArray[Any]:
    """A copy of a row as its flat space's own kind of value: a scalar for Discrete."""
    return row.copy()[()]
