"""Environments in worker processes that share one set of buffers with the driver."""

from __future__ import annotations

import multiprocessing
import sys
from collections.abc import Sequence
from multiprocessing.context import BaseContext

from pufferlib.exceptions import APIUsageError
from pufferlib.vector.backend import Creator
from pufferlib.vector.parallel import Parallel
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
    ) -> None:
        sizes = Sizes.parallel(len(creators), num_workers, batch_size, zero_copy)
        team_size = sizes.team_size(zero_copy)
        workers = Workers(creators, sizes, team_size, seed, _resolve_context(context))
        super().__init__(workers, sizes, team_size, seed, copy)


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
