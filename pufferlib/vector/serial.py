"""All environments in the calling process, one after the other: for debugging and fast envs."""

from __future__ import annotations

import contextlib
import copy as copying
import weakref
from collections import deque
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pufferlib.buffers import Buffers
from pufferlib.exceptions import WorkerError
from pufferlib.vector.backend import FAILURE_TIMEOUT, Creator
from pufferlib.vector.base import VecEnv
from pufferlib.vector.demands import check_shared_process
from pufferlib.vector.group import EnvGroup, Infos, require_equal
from pufferlib.vector.restarting import make_group
from pufferlib.vector.sizes import Sizes


class Serial(VecEnv):
    """Steps environments where the caller can set a breakpoint; see `make` for the arguments.

    A pool (`batch_size < num_envs`) hands out its batches in turn. Exceptions keep their own
    traceback as the cause of the `WorkerError`. `num_workers`, `zero_copy`, `context` and
    `timeout` have no meaning here and are accepted so that one call serves every backend.
    """

    def __init__(
        self,
        creators: Sequence[Creator],
        *,
        num_workers: int | str | None = None,
        batch_size: int | None = None,
        zero_copy: bool = True,
        seed: int | None = 0,
        context: Any = None,
        copy: bool = False,
        timeout: float | None = None,
        restart: int = 0,
    ) -> None:
        check_shared_process(creators)
        sizes = Sizes.serial(len(creators), batch_size)
        self._groups: list[EnvGroup] = []
        # Runs once: by `close`, when the last reference is dropped, or at interpreter exit.
        self._finalizer = weakref.finalize(self, _close_groups, self._groups)
        try:
            for start in range(0, sizes.num_envs, sizes.batch_size):
                group = make_group(creators[start : start + sizes.batch_size], start, restart)
                self._groups.append(group)
                require_equal(self._groups[0].description, group.description, start)
        except BaseException:
            with contextlib.suppress(WorkerError):  # the first error is the one to see
                self._close(FAILURE_TIMEOUT)
            raise
        description = self._groups[0].description
        super().__init__(description, sizes.num_envs, sizes.batch_size, seed, copy)
        self._restart = restart
        final = description.autoreset_mode.value == "SameStep"
        self._buffers = buffers = Buffers.allocate(
            self.single_observation_space, self.single_action_space, self.num_agents, final
        )
        n = self.agents_per_batch
        self._rows = [buffers.view(i * n, (i + 1) * n) for i in range(len(self._groups))]
        self._env_ids = np.arange(self.num_agents).reshape(-1, n)
        self._env_ids.flags.writeable = False
        for group, rows in zip(self._groups, self._rows, strict=True):
            group.bind(rows)
        self._batch_size = sizes.batch_size
        self._pending: deque[tuple[int, Infos]] = deque()
        self._current = 0

    def _start_reset(
        self, seeds: list[int | None], base: Any, options: dict[str, Any] | None
    ) -> None:
        size = self._batch_size
        try:
            self._drop_pending()
            for i, group in enumerate(self._groups):
                mine = seeds[i * size : (i + 1) * size]
                self._pend(i, group.reset(mine, options))
        except BaseException:
            self._abandon()
            raise

    def _start_step(self, actions: NDArray[Any]) -> None:
        self._rows[self._current].actions[...] = actions
        self._pend(self._current, self._groups[self._current].step())

    def _pend(self, i: int, infos: Infos) -> None:
        self._pending.append((i, _snapshot(infos) if infos else infos))

    def _receive(self) -> tuple[Buffers, Infos, NDArray[np.int64]]:
        self._current, infos = self._pending.popleft()
        return self._rows[self._current], infos, self._env_ids[self._current]

    def _on_env(self, index: int, verb: str, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        group, i = divmod(index, self._batch_size)
        return getattr(self._groups[group], verb)(i, *args, **kwargs)

    def _rows_of_all(self) -> Buffers:
        return self._buffers

    def _first_of_workers(self) -> Sequence[int]:
        return ()  # they share the caller's process

    def _drop_pending(self) -> None:
        self._pending.clear()

    def _deliver_again(self) -> None:
        self._pending.append((0, []))

    def _close(self, timeout: float) -> None:
        self._finalizer()


def _snapshot(infos: Infos) -> Infos:
    """Infos that the environment no longer changes, save what cannot be copied."""
    try:
        return copying.deepcopy(infos)
    except Exception:
        return [{key: _snapshot_value(value) for key, value in info.items()} for info in infos]


def _snapshot_value(value: Any) -> Any:
    try:
        return copying.deepcopy(value)
    except Exception:
        return value


def _close_groups(groups: list[EnvGroup]) -> None:
    """Close all, also those after one that fails to."""
    failure = None
    for group in groups:
        try:
            group.close()
        except WorkerError as error:
            failure = error
    if failure is not None:
        raise failure
