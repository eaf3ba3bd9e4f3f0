"""Environments in worker processes that share one set of buffers with the driver."""

from __future__ import annotations

import multiprocessing
import sys
from collections.abc import Sequence
from multiprocessing.context import BaseContext

from pufferlib.exceptions import APIUsageError
from pufferlib.vector.backend import Creator
from pufferlib.vector.demands import one_per_process, start_methods
from pufferlib.vector.parallel import Parallel
from pufferlib.vector.processes import ProcessJob
from pufferlib.vector.sizes import Sizes
from pufferlib.vector.workers import Workers


class Multiprocessing(Parallel):
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
        timeout: float | None = None,
        restart: int = 0,
    ) -> None:
        sizes = Sizes.parallel(
            len(creators), num_workers, batch_size, zero_copy, one_each=one_per_process(creators)
        )
        team_size = sizes.team_size(zero_copy)
        context = _resolve_context(context, creators)
        workers = Workers(ProcessJob(creators, sizes, seed, restart, context), team_size, timeout)
        super().__init__(workers, sizes, team_size, seed, copy)
        self._restart = restart


def _resolve_context(context: str | BaseContext | None, creators: Sequence[Creator]) -> BaseContext:
    """The start method: as asked or demanded, else the program's own, else the fastest safe.

    Raises:
        APIUsageError: another one is asked than is demanded, or a worker came here by importing.
    """
    if getattr(multiprocessing.current_process(), "_inheriting", False):
        raise APIUsageError(
            "vector.make() ran while a worker process was importing the main script: put the "
            "script's code under `if __name__ == '__main__':`"
        )
    asked = context.get_start_method() if isinstance(context, BaseContext) else context
    demands = start_methods(creators)
    if len(demands | {asked} - {None}) > 1:
        raise APIUsageError(
            f"context: expected {' or '.join(map(repr, sorted(demands)))}, the start_method that "
            f"the environments' creators demand, got {asked!r}; leave context out"
            if asked
            else f"the creators demand unlike start methods, {sorted(demands)}; make a vectorized "
            "environment of each"
        )
    if isinstance(context, BaseContext):
        return context
    chosen = asked or next(iter(demands), None) or multiprocessing.get_start_method(allow_none=True)
    return multiprocessing.get_context(chosen or ("fork" if sys.platform == "linux" else "spawn"))
