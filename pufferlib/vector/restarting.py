"""Environments that are made anew in place when they fail, a few times each."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import cloudpickle
import numpy as np
from gymnasium.vector import AutoresetMode
from numpy.typing import NDArray

from pufferlib.buffers import Buffers
from pufferlib.exceptions import WorkerError
from pufferlib.vector.group import EnvGroup, Infos, Ledger, describe, require_equal
from pufferlib.vector.seeds import restart_seed

RESTARTED = "restarted"


def make_group(creators: Sequence[Callable[[], Any]], first_index: int, restart: int) -> EnvGroup:
    """Environments that are made anew at most `restart` times each."""
    if restart:
        return RestartingGroup(creators, first_index, restart)
    return EnvGroup(creators, first_index)


def used_up(restart: int) -> str:
    """Why this failure is not survived, though others may have been."""
    return f"(it had been made anew restart={restart} times before)"


class Lost(NamedTuple):
    """What a new group must know of one whose process died.

    Attributes:
        reason: how it died.
        seeds: of the last reset that had any.
        options: of the last reset.
    """

    reason: str
    seeds: list[int | None]
    options: dict[str, Any] | None


class LastResets:
    """What each worker was last reset with, which one in its place must be told."""

    def __init__(self, envs_per_worker: int) -> None:
        self._unknown: list[int | None] = [None] * envs_per_worker
        self._payloads: dict[int, bytes] = {}
        # Of the last reset that had any.
        self._seeds: dict[int, list[int | None]] = {}

    def note(self, worker: int, payload: bytes) -> None:
        """`worker` is reset with this; see `Service.reset`."""
        self._payloads[worker] = payload
        seeds = cloudpickle.loads(payload)[0]
        if None not in seeds:
            self._seeds[worker] = seeds

    def payload(self, worker: int) -> bytes:
        """What `worker` was last reset with."""
        return self._payloads[worker]

    def lost(self, worker: int, reason: str) -> bytes:
        """A pickled `Lost`; without seeds and options after a `set_state` and no reset."""
        payload = self._payloads.get(worker)
        options = None if payload is None else cloudpickle.loads(payload)[2]
        seeds = self._seeds.get(worker, self._unknown)
        return cloudpickle.dumps(Lost(reason, seeds, options))


class RestartingGroup(EnvGroup):
    """An `EnvGroup` whose environments, up to `limit` times each, are made anew when they raise.

    What a policy and a trainer see, row by row: the step that failed gives a
    lost row, truncated and absent (mask False) and with the last observation, so that the
    transition into it counts for nothing; the next step gives the first row of an episode of the
    new environment. With SAME_STEP the lost row already shows that first observation, and the last
    one is in `final_observations`. A failed reset is done again and gives a first row like any.

    New environments are seeded from the seed of their last reset and from how often they were
    made, and reset with its options.

    Attributes:
        restarts: how often each environment has been made anew.
    """

    def __init__(self, creators: Sequence[Callable[[], Any]], first_index: int, limit: int) -> None:
        self._limit = limit
        self.restarts: NDArray[np.uint32] = np.zeros(len(creators), np.uint32)
        self._options: dict[str, Any] | None = None
        # Environments whose last row was a lost one.
        self._lost: set[int] = set()
        self._untold: Infos = []
        super().__init__(creators, first_index)

    def bind(self, buffers: Buffers, ledger: Ledger | None = None) -> None:
        """As `EnvGroup.bind`."""
        if ledger is not None:
            self.restarts = ledger.restarts
        self._views = self._views_of(buffers)
        super().bind(buffers, ledger)

    def replace(self, buffers: Buffers, ledger: Ledger, lost: Lost) -> None:
        """Bind in place of a group whose process died, and turn its rows into lost ones."""
        before = [self._keep(view) for view in self._views_of(buffers)]
        self.bind(buffers, ledger)
        self._seeds, self._options = lost.seeds, lost.options
        for i, kept in enumerate(before):
            self._untold += [*self._lose(i, *kept), self._tell(i, lost.reason)]

    def reset(self, seeds: Sequence[int | None], options: dict[str, Any] | None) -> Infos:
        """Reset all environments and write their first rows."""
        self._options = options
        for i in list(self._lost):
            self._find(i)
        return super().reset(seeds, options) + self.untold()

    def untold(self) -> Infos:
        """What `replace` has to tell, once."""
        untold, self._untold = self._untold, []
        return untold

    def _recover_step(self, i: int, error: Exception) -> Infos:
        failure = self._remake(i, f"step {self._steps}", error)
        kept = self._keep(self._views[i])
        self._bind_again(i)
        return [*self._lose(i, *kept), self._tell(i, str(failure))]

    def _recover_reset(self, i: int, error: Exception) -> Infos:
        told = self._tell(i, str(self._remake(i, "reset", error)))
        self._bind_again(i)
        return [*self._reset_anew(i), told]

    def _reset_anew(self, i: int) -> Infos:
        """The first reset of an environment that was made anew, which may fail as well."""
        try:
            return self._rows[i].reset(self._new_seed(i), self._options)
        except Exception as error:
            return self._recover_reset(i, error)

    def _remake(self, i: int, where: str, error: Exception) -> WorkerError:
        """Put a new environment in the place of `i`; the failure that this survived."""
        failure = self._failure(where, i, error)
        if self.restarts[i] >= self._limit:
            raise WorkerError(f"{failure}\n{used_up(self._limit)}") from error
        self.restarts[i] += 1
        with contextlib.suppress(Exception):  # it is broken
            self.envs[i].close()
        try:
            self.envs[i] = self._creators[i]()
        except Exception as again:
            raise self._failure("its constructor, called again", i, again) from error
        index = self.first_index + i
        require_equal(self.description, describe(self.envs[i], index), index)
        return failure

    def _bind_again(self, i: int) -> None:
        self._rows[i] = self.envs[i].bind(self._views[i])
        self._find(i)

    @staticmethod
    def _keep(view: Buffers) -> tuple[NDArray[Any], NDArray[np.bool_]]:
        """What binding a new environment overwrites: observations, and who was present."""
        return view.observations.copy(), view.masks.copy()

    def _lose(self, i: int, shown: NDArray[Any], present: NDArray[np.bool_]) -> Infos:
        """End the episode of environment `i`, whose rows were `shown` before it was made anew."""
        view, infos = self._views[i], []
        if self.description.autoreset_mode == AutoresetMode.SAME_STEP:
            infos = self._reset_anew(i)
            view.final_observations[...] = shown  # type: ignore[index]
        else:
            view.observations[...] = shown
        view.rewards[...] = 0
        view.terminals[...] = view.masks[...] = False
        view.truncations[...] = present
        self._mark_lost(i)
        return infos

    def _mark_lost(self, i: int) -> None:
        self._lost.add(i)
        self._stepping[i] = (i, functools.partial(self._begin, i), self._views[i].actions)

    def _begin(self, i: int, actions: NDArray[Any]) -> Infos:
        """The step after a lost row."""
        self._find(i)
        if self.description.autoreset_mode == AutoresetMode.SAME_STEP:
            return self._rows[i].step(actions)
        return self._reset_anew(i)

    def _find(self, i: int) -> None:
        """Its next row is again its own to write."""
        self._lost.discard(i)
        view = self._views[i]
        view.masks[...] = True
        self._stepping[i] = (i, self._rows[i].step, view.actions)

    def _new_seed(self, i: int) -> int | None:
        return restart_seed(self._seeds[i], int(self.restarts[i]))

    def _tell(self, i: int, reason: str) -> dict[str, Any]:
        return {RESTARTED: {self.first_index + i: reason}}

    def _is_lost(self, i: int) -> bool:
        return i in self._lost

    def _set_lost(self, i: int, lost: bool) -> None:
        if lost:
            self._mark_lost(i)
        else:
            self._find(i)
