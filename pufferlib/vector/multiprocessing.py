"""Environments in worker processes that share one set of buffers with the driver."""

from __future__ import annotations

import multiprocessing
import sys
from collections.abc import Sequence
from multiprocessing.context import BaseContext
from typing import Any

import cloudpickle
import numpy as np
from numpy.typing import NDArray

from pufferlib.buffers import Buffers
from pufferlib.exceptions import APIUsageError, WorkerError
from pufferlib.vector.backend import Creator
from pufferlib.vector.base import VecEnv
from pufferlib.vector.group import Infos
from pufferlib.vector.sizes import Sizes
from pufferlib.vector.workers import Team, Workers, to_error


class Multiprocessing(VecEnv):
    """Steps environments in `num_workers` processes; see `make` for the arguments.

    Batches are views of the shared buffers unless `zero_copy=False` lets any workers that finished
    first make a batch, which is then gathered by a copy. Driver and workers wait by spinning for
    at most 100 microseconds, giving the core away at each turn, and then on a semaphore.
    """

    def __init__(
        self,
        creators: Sequence[Creator],
        *,
        num_workers: int | str | None = None,
        batch_size: int | None = None,
        zero_copy: bool = True,
        seed: int | None = 0,
        context: str | BaseContext | None = None,
        copy: bool = False,
    ) -> None:
        sizes = Sizes.parallel(len(creators), num_workers, batch_size, zero_copy)
        self._gather = not zero_copy and sizes.workers_per_batch not in (1, sizes.num_workers)
        team_size = 1 if self._gather else sizes.workers_per_batch
        context = _resolve_context(context)
        self._workers = Workers(creators, sizes, team_size, seed, context)
        description = self._workers.description
        super().__init__(description, sizes.num_envs, sizes.batch_size, seed, copy)
        self.num_workers = sizes.num_workers
        self._sizes = sizes
        self._teams_per_batch = sizes.workers_per_batch // team_size
        self._batch: list[Team] = []
        n = self.num_agents // len(self._workers.teams)
        self._env_ids = np.arange(self.num_agents).reshape(-1, n)
        self._env_ids.flags.writeable = False
        buffers = self._workers.buffers
        self._rows = [buffers.view(i * n, (i + 1) * n) for i in range(len(self._workers.teams))]
        if self._gather:
            self._gathered = Buffers.allocate(
                self.single_observation_space,
                self.single_action_space,
                self.agents_per_batch,
                final=buffers.final_observations is not None,
            )

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
        n = len(self._env_ids[0])
        for i, team in enumerate(self._batch):
            for target, rows in zip(
                self._gathered.arrays(), self._rows[team.index].arrays(), strict=True
            ):
                if target is not None and rows is not None:
                    target[i * n : (i + 1) * n] = rows
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


def _resolve_context(context: str | BaseContext | None) -> BaseContext:
    """The start method: as asked, else as the user's program has set it, else the fastest safe."""
    if getattr(multiprocessing.current_process(), "_inheriting", False):
        raise APIUsageError(
            "vector.make() ran while a worker process was importing the main script: put the "
            "script's code under `if __name__ == '__main__':`"
        )
    if isinstance(context, BaseContext):
        return context
    chosen = context or multiprocessing.get_start_method(allow_none=True)
    return multiprocessing.get_context(chosen or ("fork" if sys.platform == "linux" else "spawn"))
