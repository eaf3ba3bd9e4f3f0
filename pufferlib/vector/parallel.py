"""Environments in workers elsewhere: the calls of the contract as commands to teams of workers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, TypeVar

import cloudpickle
import numpy as np
from numpy.typing import NDArray

from pufferlib.buffers import Buffers
from pufferlib.exceptions import WorkerError
from pufferlib.vector.base import VecEnv
from pufferlib.vector.group import Description, Infos
from pufferlib.vector.messages import to_error
from pufferlib.vector.sizes import Sizes


class Team(Protocol):
    """Neighbouring workers that are commanded together and whose rows make one unit of a batch."""

    index: int
    workers: range


T = TypeVar("T", bound=Team)


class Crew(Protocol[T]):
    """All workers of one vecenv, wherever they are."""

    description: Description
    buffers: Buffers
    teams: list[T]

    def step(self, team: T) -> None:
        """Let `team` step; its result must be collected before its next command."""

    def reset(self, team: T, payloads: Sequence[bytes]) -> None:
        """Let `team` reset, with a pickled payload for each of its workers."""

    def wait(self, count: int) -> list[T]:
        """The first `count` teams that have finished; raises WorkerError for one that cannot."""

    def collect(self, teams: Sequence[T]) -> Infos:
        """The infos of finished `teams`, which may be commanded again afterwards."""

    def drain(self) -> None:
        """Wait for all that is in flight and drop it."""

    def deliver_again(self, team: T) -> None:
        """Let the rows of an idle `team`, as they are, be a result without infos."""

    def ask(self, worker: int, payload: bytes) -> Any:
        """The answer to a pickled call on one of `worker`'s environments, once it is not busy."""

    def close(self, timeout: float) -> list[str]:
        """End all workers; messages of environments whose `close` raised or hung."""


class Parallel(VecEnv):
    """What `Multiprocessing` and `Ray` have in common: workers that fill the driver's buffers.

    Args:
        workers: of the backend, started and described.
        sizes: how environments are spread over them.
        team_size: of `Sizes.team_size`.
        seed, copy: see `make`.
    """

    def __init__(
        self, workers: Crew[Any], sizes: Sizes, team_size: int, seed: int | None, copy: bool
    ) -> None:
        super().__init__(workers.description, sizes.num_envs, sizes.batch_size, seed, copy)
        self.num_workers = sizes.num_workers
        self._workers = workers
        self._sizes = sizes
        self._teams_per_batch = sizes.workers_per_batch // team_size
        self._batch: list[Any] = []
        n = self.num_agents // len(workers.teams)
        self._env_ids = np.arange(self.num_agents).reshape(-1, n)
        self._env_ids.flags.writeable = False
        buffers = workers.buffers
        self._rows = [buffers.view(i * n, (i + 1) * n) for i in range(len(workers.teams))]
        self._gather = self._teams_per_batch > 1
        if self._gather:
            self._gathered = Buffers.allocate(
                self.single_observation_space,
                self.single_action_space,
                self.agents_per_batch,
                final=buffers.final_observations is not None,
            )
            starts = range(0, self.agents_per_batch, n)
            self._places = [self._gathered.view(start, start + n) for start in starts]

    def _start_reset(
        self, seeds: list[int | None], base: Any, options: dict[str, Any] | None
    ) -> None:
        size = self._sizes.envs_per_worker
        payloads = [
            cloudpickle.dumps((seeds[start : start + size], _base_seed(base), options))
            for start in range(0, self.num_envs, size)
        ]
        try:
            self._workers.drain()
            for team in self._workers.teams:
                self._workers.reset(team, payloads[team.workers.start : team.workers.stop])
        except BaseException:  # a Ctrl-C too: some have begun, others will not
            self._abandon()
            raise

    def _start_step(self, actions: NDArray[Any]) -> None:
        if self._gather:
            parts = actions.reshape(len(self._batch), -1, *actions.shape[1:])
            for team, part in zip(self._batch, parts, strict=True):
                self._rows[team.index].actions[...] = part
        else:
            self._rows[self._batch[0].index].actions[...] = actions
        for team in self._batch:
            self._workers.step(team)

    def _receive(self) -> tuple[Buffers, Infos, NDArray[np.int64]]:
        self._batch = self._workers.wait(self._teams_per_batch)
        infos = self._workers.collect(self._batch)
        if self._gather:
            return self._gather_rows(), infos, self._env_ids[[t.index for t in self._batch]].ravel()
        index = self._batch[0].index
        return self._rows[index], infos, self._env_ids[index]

    def _gather_rows(self) -> Buffers:
        for place, team in zip(self._places, self._batch, strict=True):
            place.write(self._rows[team.index])
        return self._gathered

    def _on_env(self, index: int, verb: str, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        worker, i = divmod(index, self._sizes.envs_per_worker)
        payload = cloudpickle.dumps((i, verb, args, kwargs))  # if it fails, nothing has happened
        try:
            kind, *content = self._workers.ask(worker, payload)
        except BaseException:  # a Ctrl-C too: nobody would read the answer
            self._abandon()
            raise
        if kind == "raised":
            raise content[0]
        if kind == "error":
            raise to_error(*content)
        return content[0]

    def _rows_of_all(self) -> Buffers:
        return self._workers.buffers

    def _first_of_workers(self) -> Sequence[int]:
        return range(0, self.num_envs, self._sizes.envs_per_worker)

    def _drop_pending(self) -> None:
        self._workers.drain()

    def _deliver_again(self) -> None:
        self._workers.deliver_again(self._workers.teams[0])

    def _close(self, timeout: float) -> None:
        failures = self._workers.close(timeout)
        if failures:
            raise WorkerError("\n".join(failures))


def _base_seed(seed: Any) -> Any:
    """What the workers' global generators are seeded from, or None to let them go on."""
    if seed is None or isinstance(seed, int):
        return seed
    return int(seed) if isinstance(seed, np.integer) else [int(s) for s in seed]
