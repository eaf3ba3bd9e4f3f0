"""Emulated environments of either API: an environment to its user, rows to vectorization."""

from __future__ import annotations

import functools
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
)
from pufferlib.emulation.masks import mask_checker
from pufferlib.emulation.output import CapturedOutput
from pufferlib.emulation.ports import Unflattened
from pufferlib.emulation.postprocessing import MakePostprocessor
from pufferlib.environment import Infos
from pufferlib.exceptions import APIUsageError
from pufferlib.flatten import ActionPlan, ObservationPlan
from pufferlib.wrappers.conversion import accepts, reset_keywords


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

    A subclass says which `api` it wraps, where the structured spaces are, and what its rows are.
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
        *,
        postprocessor: MakePostprocessor | None = None,
        flatten_observations: bool = True,
        flatten_actions: bool = True,
        suppress_output: bool = False,
    ) -> None:
        self._output = CapturedOutput() if suppress_output else None
        self.env = self._quietly(make_env)(env, env_creator, env_args, env_kwargs)
        self.check = check_mode(check)
        if not accepts(self.env.reset, "seed"):
            raise self.api.misfit(str(self.env), "reset(seed=…, options=…)", "a reset without seed")
        self.env = self._adapted(self.env, postprocessor)
        observation_space, action_space = self._structured_spaces()
        name = name_of(self.env)
        self.observation_plan: ObservationPlan | Unflattened = (
            ObservationPlan if flatten_observations else Unflattened
        )(observation_space, f"{name}: observation")
        self.action_plan: ActionPlan | Unflattened = (
            ActionPlan if flatten_actions else Unflattened
        )(action_space, f"{name}: action")
        self.emulated = emulated_by(self.observation_plan, self.action_plan)
        self.metadata = getattr(self.env, "metadata", {})
        self._rows: Any = None
        self._phase: Literal["new", "running", "ended"] = "new"

    @abstractmethod
    def _structured_spaces(self) -> tuple[Space[Any], Space[Any]]:
        """The wrapped environment's observation and action space, of one agent."""

    @abstractmethod
    def _adapted(self, env: Any, postprocessor: MakePostprocessor | None) -> Any:
        """`env` as the rest of emulation is to see it."""

    @abstractmethod
    def _rows_in(self, buffers: Buffers) -> Any:
        """What writes to `buffers`, a row per agent, and resets itself."""

    def bind(self, buffers: Buffers) -> Any:
        """What vectorization steps: writes to `buffers`, a row per agent, and resets itself.

        Raises:
            APIUsageError: a feature that rows need is switched off.
        """
        self._require_rows()
        return self._rows_in(buffers)

    @property
    def single_observation_space(self) -> Space[Any]:
        """The flat space of one row of observations."""
        self._require_rows()
        return self.observation_plan.row_space

    @property
    def single_action_space(self) -> Space[Any]:
        """The flat space of one row of actions."""
        self._require_rows()
        return self.action_plan.row_space

    def _switched_off(self) -> list[str]:
        """The switches that are off and without which there are no rows."""
        plans = {
            "flatten_observations": self.observation_plan,
            "flatten_actions": self.action_plan,
        }
        return [name for name, plan in plans.items() if isinstance(plan, Unflattened)]

    def _require_rows(self) -> None:
        off = self._switched_off()
        if off:
            raise APIUsageError(
                f"{name_of(self.env)}: expected flat rows of a constant number of agents, as "
                f"vectorization needs them, got {'=False, '.join(off)}=False; leave "
                f"{'it' if len(off) == 1 else 'them'} on, or step the environment by itself"
            )

    @property
    def printed(self) -> str:
        """The end of what the environment printed under `suppress_output`."""
        return "" if self._output is None else self._output.text()

    def _quietly(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """`function`, whose prints are captured if that was asked for."""
        return function if self._output is None else functools.partial(self._output.call, function)

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
            self._rows = self._own_rows()
        infos: Infos = self._rows.reset(seed, options)
        self._phase = "running"
        return infos

    def _own_rows(self) -> Any:
        spaces = self.observation_plan.row_space, self.action_plan.row_space
        return self._rows_in(Buffers.allocate(*spaces, self.num_agents))

    def _running_rows(self) -> Any:
        """The rows of an episode that has not ended."""
        if self._phase == "new":
            raise APIUsageError("step() was called before reset(); call reset() first")
        if self._phase == "ended":
            raise APIUsageError("step() was called after the episode ended; call reset() first")
        return self._rows

    def render(self) -> Any:
        """What the wrapped environment's `render` gives."""
        return self._quietly(self.env.render)()

    def close(self) -> None:
        """Close the wrapped environment, if it can be closed."""
        if hasattr(self.env, "close"):
            self._quietly(self.env.close)()

    def __getstate__(self) -> dict[str, Any]:
        # Rows are views of buffers that stay where they are: a copy gets its own. It goes on in
        # the same place of the episode unless the environment's own copy would be a new one.
        state = self.__dict__ | {"_rows": None}
        if self._rows is None or not snapshot.copies_whole(self.env):
            return state | {"_phase": "new"}
        return state | {"_place": (self._rows.get_place(), self._rows.buffers.masks.copy())}

    def __setstate__(self, state: dict[str, Any]) -> None:
        place = state.pop("_place", None)
        self.__dict__.update(state)
        if place is not None:
            self._rows = self._own_rows()
            self._rows.set_place(place[0])
            self._rows.buffers.masks[:] = place[1]


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
        self._env_step = self._step_of_env()
        self._checking = env.check != "never"
        self._unchecked = True  # until the first step has been checked
        buffers.observations.fill(0)  # absent agents, and a struct's padding
        buffers.masks[:] = True

    def _reset_env(self, seed: int | None, options: dict[str, Any] | None) -> tuple[Any, Any]:
        """The wrapped environment's observations and infos."""
        env = self.env.env
        keywords = reset_keywords(env.reset, seed, options)
        return self._first(self.env._quietly(env.reset)(**keywords))

    def _first(self, result: Any) -> tuple[Any, Any]:
        """What `reset` of the environment returned, if it is of the API."""
        if isinstance(result, tuple) and len(result) == 2 and isinstance(result[1], dict):
            return result
        env, api = self.env.env, self.env.api
        raise api.misfit(f"{env}.reset()", api.reset_result, type(result).__name__)

    def _mask_checker(self, row: NDArray[Any]) -> Callable[[], None] | None:
        """What to call when `row` has been written and will be acted upon; None without masks."""
        mask = self.env.emulated and self.env.emulated.action_mask
        if not mask or not self._checking:
            return None
        return mask_checker(mask, row, self.env.observation_plan)

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
        return {"env": snapshot.take(self.env.env)} | self.get_place()

    def set_state(self, state: dict[str, Any]) -> None:
        """Go on from a state; the rows are restored by whoever owns the buffers."""
        self.env.env = snapshot.put_back(self.env.env, state["env"])
        self._env_step = self._step_of_env()
        self.set_place(state)

    def get_place(self) -> dict[str, Any]:
        """Where in an episode the rows are, beside the environment's own state."""
        return {"ended": self.ended}

    def set_place(self, place: dict[str, Any]) -> None:
        """The inverse of `get_place`."""
        self.ended = place["ended"]

    def _step_of_env(self) -> Callable[[Any], Any]:
        return self.env._quietly(self.env.env.step)
