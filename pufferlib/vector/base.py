"""The contract that every backend keeps, and the order in which its calls must come."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from gymnasium.spaces import Space
from numpy.typing import NDArray

from pufferlib.buffers import Buffers
from pufferlib.exceptions import APIUsageError, SnapshotError
from pufferlib.spaces import joint_space, row_layout
from pufferlib.vector.actions import as_rows
from pufferlib.vector.backend import CLOSE_TIMEOUT, FAILURE_TIMEOUT, Backend
from pufferlib.vector.driver import DriverEnv
from pufferlib.vector.group import Description, Infos
from pufferlib.vector.order import CLOSED, CREATED, READY, WAITING
from pufferlib.vector.restarting import RESTARTED
from pufferlib.vector.seeds import env_seeds

Received = tuple[
    NDArray[Any],
    NDArray[np.float32],
    NDArray[np.bool_],
    NDArray[np.bool_],
    Infos,
    NDArray[np.int64],
    NDArray[np.bool_],
]


class VecEnv(Backend):
    """`num_envs` environments, whose agents are rows of one set of buffers.

    The arrays that `recv`, `step` and `reset` return are views of the buffers, on every backend:
    from the next `send` or reset on, the rows' next result overwrites them. Copy what you keep, or
    pass `copy=True` to `make`. Infos are snapshots.

    An environment that raises, a worker that dies, and a Ctrl-C in one of the calls close the
    whole vecenv before the exception leaves the call; only what `call` and its like raise does not,
    and what `restart` of `make` survives.

    Attributes:
        num_envs: environments.
        num_agents: rows in all.
        agents_per_batch: rows of one result.
        single_observation_space, single_action_space: of one row.
        observation_space, action_space: of one result.
        emulated: how to undo emulation, or None; see `pufferlib.emulation.Emulated`.
        autoreset_mode: when environments reset themselves.
        driver_env: what a policy's constructor needs; see `DriverEnv`.
        final_observations: last observations of the episodes that were truncated in the last
            result, valid in the truncated rows; None unless `autoreset_mode` is SAME_STEP.
    """

    def __init__(
        self, description: Description, num_envs: int, batch_size: int, seed: int | None, copy: bool
    ) -> None:
        self.num_envs = num_envs
        self.num_agents = num_envs * description.num_agents
        self.agents_per_batch = batch_size * description.num_agents
        self.single_observation_space: Space[Any] = description.observation_space
        self.single_action_space: Space[Any] = description.action_space
        self.observation_space = joint_space(self.single_observation_space, self.agents_per_batch)
        self.action_space = joint_space(self.single_action_space, self.agents_per_batch)
        self.emulated = description.emulated
        self.autoreset_mode = description.autoreset_mode
        self.driver_env = DriverEnv(description, self)
        self.final_observations: NDArray[Any] | None = None
        shape, self._action_dtype = row_layout(self.single_action_space)
        self._action_shape = (self.agents_per_batch, *shape)
        self._is_pool = batch_size != num_envs
        self._restart = 0
        self._copy = copy
        self._seed: int | None = seed
        self._state = CREATED

    # -- the calls that users make ---------------------------------------------------------

    def reset(
        self,
        seed: int | Sequence[int] | None = None,
        options: dict[str, Any] | None = None,
    ) -> tuple[NDArray[Any], Infos]:
        """Reset all environments.

        Args:
            seed: an int from which every environment gets a stream of its own, or a list of one
                seed per environment. None uses `make`'s seed the first time and then goes on
                with the streams.
            options: passed to every environment's reset.

        Returns:
            observations `(num_agents, *observation_shape)`, infos.

        Raises:
            APIUsageError: closed, or batches are smaller than the pool (use `async_reset`).
            WorkerError: an environment raised or its process died.
        """
        self._require_full_batch("reset", "async_reset() and recv()")
        self.async_reset(seed, options)
        observations, *_, infos, _, _ = self.recv()
        return observations, infos

    def step(
        self, actions: Any
    ) -> tuple[NDArray[Any], NDArray[np.float32], NDArray[np.bool_], NDArray[np.bool_], Infos]:
        """Act in all environments; `actions` is `(num_agents, *action_shape)`.

        Returns:
            observations, rewards float32, terminals bool, truncations bool, infos; a row per agent.

        Raises:
            APIUsageError: out of order, closed, or batches are smaller than the pool.
            SpaceError: the actions' shape or dtype does not fit.
            WorkerError: an environment raised or its process died.
        """
        if self._is_pool:
            self._require_full_batch("step", "send() and recv()")
        self.send(actions)
        return self.recv()[:5]

    def async_reset(
        self,
        seed: int | Sequence[int] | None = None,
        options: dict[str, Any] | None = None,
    ) -> None:
        """Start resetting all environments; arguments as in `reset`.

        May be called at any time: steps in flight are finished and their results dropped.
        """
        self._require_open()
        if seed is None and self._state is CREATED:
            seed = self._seed
        self._start_reset(env_seeds(seed, self.num_envs), seed, options)
        self._state = WAITING

    def recv(self) -> Received:
        """The next batch: that of the environments which finished first.

        Returns:
            observations `(agents_per_batch, *observation_shape)`, rewards float32, terminals
            bool, truncations bool, infos (a list of non-empty dicts), env_id (int64 indices of the
            rows' agents, 0 … num_agents - 1), mask (bool, the row's agent is present).

        Raises:
            APIUsageError: nothing is pending.
            WorkerError: an environment raised or its process died; everything is closed then.
        """
        if self._state is not WAITING:
            raise APIUsageError(f"recv() came out of order: {self._state.value}")
        try:
            rows, infos, env_id = self._receive()
            if self._restart and infos:
                _warn_of_restarts(infos)
            self._masks = rows.masks
            self._state = READY
        except BaseException:  # a Ctrl-C too: part of the result is lost
            self._abandon()
            raise
        if self._copy:
            rows = Buffers(*(None if a is None else a.copy() for a in rows.arrays()))  # type: ignore[arg-type]
        self.final_observations = rows.final_observations
        return (
            rows.observations,
            rows.rewards,
            rows.terminals,
            rows.truncations,
            infos,
            env_id,
            rows.masks,
        )

    def send(self, actions: Any) -> None:
        """Act in the environments of the last batch; `actions` has a row per agent of it.

        Raises:
            APIUsageError: there is no batch without actions.
            SpaceError: the actions' shape or dtype does not fit.
            WorkerError: as in `recv`, where the backend steps at once (`Serial`).
        """
        if self._state is not READY:
            raise APIUsageError(f"send() came out of order: {self._state.value}")
        array = as_rows(actions, self._action_shape, self._action_dtype, self._masks)
        try:
            self._start_step(array)
            self._state = WAITING
        except BaseException:  # a Ctrl-C too: some have begun, others will not
            self._abandon()
            raise

    def get_attr(self, name: str, indices: Sequence[int] | None = None) -> list[Any]:
        """Attribute `name` of the environments `indices` (all by default), inner ones included.

        Raises:
            AttributeError: an environment has no such attribute at any depth.
        """
        return self._remote("get_attr", (name,), {}, indices)

    def set_attr(self, name: str, value: Any, indices: Sequence[int] | None = None) -> None:
        """Set attribute `name`, on the outermost layer that has it, else on the innermost."""
        self._remote("set_attr", (name, value), {}, indices)

    def call(
        self, name: str, *args: Any, indices: Sequence[int] | None = None, **kwargs: Any
    ) -> list[Any]:
        """Results of calling method `name` of the environments `indices` (all by default)."""
        return self._remote("call", (name, *args), kwargs, indices)

    def is_wrapped(self, kind: type, indices: Sequence[int] | None = None) -> list[bool]:
        """Whether the environments `indices` (all by default) are, or are wrapped in, a `kind`."""
        return self._remote("is_wrapped", (kind,), {}, indices)

    def get_state(self) -> dict[str, Any]:
        """What `set_state` needs to go on from the last result; pickles, for a checkpoint.

        `envs` and `generators` are bytes, an entry per environment and per worker process; `rows`
        are copies of the buffers by name. `Serial` shares the caller's global random generators,
        which stay the caller's to save.

        Raises:
            APIUsageError: the last result has its actions already, or there is none.
            SnapshotError: an environment's state cannot be taken (see `pufferlib.snapshot`), or
                batches are smaller than the pool, so that others are in the middle of a step.
        """
        if self._state is not READY:
            raise APIUsageError(f"get_state() came out of order: {self._state.value}")
        rows = zip(Buffers.__slots__, self._whole_rows().arrays(), strict=True)
        return {
            "envs": self._remote("get_state", (), {}, None),
            "generators": self._remote("get_generators", (), {}, self._first_of_workers()),
            "rows": {name: array.copy() for name, array in rows if array is not None},
        }

    def set_state(self, state: dict[str, Any]) -> None:
        """Go on from `get_state`, also in another process: `recv` gives the same rows, no infos.

        Unpickles the environments, which runs code that the state names: it must come from a
        source that you trust.

        Raises:
            SnapshotError: the state does not fit; the environments need a reset then.
        """
        self._require_open()
        rows, workers = self._whole_rows(), self._first_of_workers()
        for name, expected in (("envs", self.num_envs), ("generators", len(workers))):
            if len(state[name]) != expected:
                raise SnapshotError(f"{name}: expected {expected}, got {len(state[name])}")
        self._state = CREATED
        self._drop_pending()
        for index, taken in enumerate(state["envs"]):
            self._on_env(index, "set_state", (taken,), {})
        for index, taken in zip(workers, state["generators"], strict=True):
            self._on_env(index, "set_generators", (taken,), {})
        for name, array in state["rows"].items():
            _overwrite(getattr(rows, name), array, name)
        self._deliver_again()
        self._state = WAITING

    def render(self, index: int = 0) -> Any:
        """What environment `index` renders."""
        return self.call("render", indices=[index])[0]

    def close(self, timeout: float = CLOSE_TIMEOUT) -> None:
        """Close every environment once and free all resources; further calls do nothing.

        Args:
            timeout: seconds that all environments together get before the processes of those that
                still close or step are killed. Without meaning for `Serial`, whose environments
                are in the caller's own process.

        Raises:
            WorkerError: an environment's own `close` raised, or did not end in time; everything
                is closed by then.
        """
        if self._state is CLOSED:
            return
        self._state = CLOSED
        self._close(timeout)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- shared by the backends ------------------------------------------------------------

    def _abandon(self) -> None:
        """Close after a failure, which is the error that the caller should see."""
        self._state = CLOSED
        with contextlib.suppress(Exception):  # what is broken may also fail to close
            self._close(FAILURE_TIMEOUT)

    def _require_open(self) -> None:
        if self._state is CLOSED:
            raise APIUsageError(CLOSED.value)

    def _whole_rows(self) -> Buffers:
        if self._is_pool:
            raise SnapshotError(
                f"batches have {self.agents_per_batch} of {self.num_agents} agents: the others are "
                "in the middle of a step, and which is next depends on timing"
            )
        return self._rows_of_all()

    def _require_full_batch(self, name: str, instead: str) -> None:
        if self._is_pool:
            raise APIUsageError(
                f"{name}() needs all {self.num_agents} agents in one batch, but batches have "
                f"{self.agents_per_batch}; use {instead}, or leave out batch_size"
            )

    def _remote(
        self, verb: str, args: Sequence[Any], kwargs: dict[str, Any], indices: Sequence[int] | None
    ) -> list[Any]:
        self._require_open()
        chosen = range(self.num_envs) if indices is None else indices
        for index in chosen:
            if not 0 <= index < self.num_envs:
                raise APIUsageError(
                    f"indices: expected 0 to {self.num_envs - 1}, got environment {index}"
                )
        return [self._on_env(index, verb, args, kwargs) for index in chosen]


def _warn_of_restarts(infos: Infos) -> None:
    for info in infos:
        for index, reason in info.get(RESTARTED, {}).items():
            text = f"environment {index} was made anew: {reason.splitlines()[0]}"
            warnings.warn(text, RuntimeWarning, stacklevel=3)


def _overwrite(rows: NDArray[Any], array: NDArray[Any], name: str) -> None:
    if rows.shape != array.shape or rows.dtype != array.dtype:
        raise SnapshotError(
            f"{name}: expected {rows.dtype} {rows.shape}, got {array.dtype} {array.shape}"
        )
    rows[...] = array
