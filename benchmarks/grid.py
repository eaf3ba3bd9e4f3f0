"""The grid of PufferLib's blog: how vectorization scales with cost, unevenness and processes.

    python benchmarks/vector.py --grid blog [--seconds 2] [--json FILE]

Environments that use 1e-2, 1e-3 or 1e-4 s of CPU time a step with a deviation of 0, 50 or 100 %;
1, 6, 24, 96 and 192 processes; Gymnasium's and our backends, ours with 1, 2 and 4 environments per
process, and our pool, which hands out 24 environments at a time (all, where there are fewer).
It was made for 24 cores, and takes the better part of an hour.
"""

from __future__ import annotations

import functools
import itertools
import json
import warnings
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from contestants import gymnasium_vector, pufferlib_vector, steps_per_second
from gymnasium.vector import AsyncVectorEnv, SyncVectorEnv
from rich.console import Console
from rich.table import Table
from workloads import Spin

from pufferlib.exceptions import PufferError
from pufferlib.vector.sizes import available_cores

DELAYS = (1e-2, 1e-3, 1e-4)
DEVIATIONS = (0.0, 0.5, 1.0)
PROCESSES = (1, 6, 24, 96, 192)
ENVS_PER_PROCESS = (1, 2, 4)
POOL_BATCH = 24


@dataclass(frozen=True)
class Cell:
    """One measurement."""

    delay: float
    deviation: float
    processes: int
    backend: str
    envs_per_process: int
    steps_per_second: float


def settings(processes: int) -> Iterator[tuple[str, int, Any]]:
    """Name, environments per process, and the contestant without creator and actions."""
    yield "Gymnasium Sync", 1, functools.partial(gymnasium_vector, SyncVectorEnv)
    yield "Gymnasium Async", 1, functools.partial(gymnasium_vector, AsyncVectorEnv)
    yield "Serial", 1, functools.partial(pufferlib_vector, backend="serial")
    for per_process in ENVS_PER_PROCESS:
        workers = {"backend": "multiprocessing", "num_workers": processes}
        yield "Multiprocessing", per_process, functools.partial(pufferlib_vector, **workers)
        if processes * per_process > POOL_BATCH:
            pool = {"batch_size": POOL_BATCH, "zero_copy": False}
            yield "pool", per_process, functools.partial(pufferlib_vector, **workers, **pool)


def measure(seconds: float) -> Iterator[Cell]:
    """Every cell in turn; one that cannot run here says why and is left out."""
    for delay, deviation, processes in itertools.product(DELAYS, DEVIATIONS, PROCESSES):
        for name, per_process, contestant in settings(processes):
            count = processes * per_process
            creators = [functools.partial(Spin, delay, deviation)] * count
            actions = np.zeros(count, np.int64)
            try:
                speed = steps_per_second(contestant(creators, actions), seconds, warm_up=1)
            except (OSError, MemoryError, PufferError) as error:  # too much for the machine
                print(f"left out: {name} with {processes} processes: {error}")
                continue
            yield Cell(delay, deviation, processes, name, per_process, speed)


def show(cells: list[Cell], console: Console) -> None:
    """A row per environment and number of processes, the best of each backend."""
    names = list(dict.fromkeys(cell.backend for cell in cells))
    table = Table(title=f"steps/s on {available_cores()} cores; (environments per process)")
    for heading in ("delay", "deviation", "processes", *names):
        table.add_column(heading, justify="right")
    key = lambda cell: (cell.delay, cell.deviation, cell.processes)  # noqa: E731
    for (delay, deviation, processes), group in itertools.groupby(cells, key):
        best: dict[str, Cell] = {}
        for cell in sorted(group, key=lambda cell: cell.steps_per_second):
            best[cell.backend] = cell
        texts = [
            f"{best[name].steps_per_second:,.0f} ({best[name].envs_per_process})"
            if name in best
            else ""
            for name in names
        ]
        table.add_row(f"{delay:g} s", f"{deviation:.0%}", str(processes), *texts)
    console.print(table)


def main(seconds: float, path: Path | None) -> None:
    """Measure, print, and write the cells to `path`."""
    warnings.simplefilter("ignore")  # more workers than cores is the point
    console, cells = Console(width=140), []
    with console.status("measuring …") as status:
        for cell in measure(seconds):
            cells.append(cell)
            status.update(f"{len(cells)} cells; {cell}")
    show(cells, console)
    if path:
        path.write_text(json.dumps([asdict(cell) for cell in cells], indent=2) + "\n")
