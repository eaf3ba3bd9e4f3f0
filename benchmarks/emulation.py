"""What emulation and `Serial` add to an environment's own step, beside Gymnasium's SyncVectorEnv.

    python benchmarks/emulation.py [--seconds 1] [--repeats 5]

Times are microseconds of CPU time per environment step (all is one process, so that other programs
matter little), medians of runs in turn; "added" is the difference to the bare environment.
"""

from __future__ import annotations

import argparse
import importlib.util
import statistics
import time

import numpy as np
from rich.console import Console
from rich.table import Table
from vector import BOUND, ENVS, NUM_ENVS, SERIAL, SYNC, Stepper, contestants, ratio

# The design's limits: microseconds of our own on cheap environments, a share of NetHack's step.
LIMIT_US = {"noop": 1.0, "cartpole": 1.0}
LIMIT_SHARE = {"nethack": 0.10}


def microseconds(env: str, seconds: float, repeats: int) -> dict[str, float]:
    """Per step, by contestant."""
    creator = ENVS[env]
    example = creator()
    example.action_space.seed(0)
    actions = np.array([example.action_space.sample() for _ in range(NUM_ENVS)])
    example.close()
    chosen = {name: make for name, make in contestants(()).items() if name in (BOUND, SYNC, SERIAL)}
    runs: dict[str, list[float]] = {name: [] for name in chosen}
    for _ in range(repeats):
        for name, make in chosen.items():
            runs[name].append(step_time(make(creator, actions), seconds))
    return {name: statistics.median(values) for name, values in runs.items()}


def step_time(stepper: Stepper, seconds: float) -> float:
    """Microseconds of CPU time per environment step."""
    with stepper as step:
        for _ in range(20):
            step()
        count, start = 0, time.process_time()
        while (elapsed := time.process_time() - start) < seconds:
            for _ in range(10):
                step()
            count += 10 * NUM_ENVS
        return 1e6 * elapsed / count


def verdict(env: str, bare: float, added: float) -> str:
    limit = LIMIT_US.get(env, LIMIT_SHARE.get(env, 0) * bare)
    color, word = ("green", "pass") if added <= limit else ("red", "FAIL")
    return f"[{color}]{word}[/] at most {limit:.2f} µs"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=1.0, help="per measurement")
    parser.add_argument("--repeats", type=int, default=5, help="of which the median counts")
    args = parser.parse_args()
    table = Table(title="microseconds per step")
    table.add_column("environment")
    for heading in ("bare", SYNC, SERIAL, "added by Sync", "added by us", "ratio to Sync"):
        table.add_column(heading, justify="right")
    table.add_column("target")
    for env in ("noop", "cartpole", "nethack"):
        if env == "nethack" and not importlib.util.find_spec("nle"):
            continue
        times = microseconds(env, args.seconds, args.repeats)
        bare, sync, serial = times[BOUND], times[SYNC], times[SERIAL]
        cells = [f"{value:.2f}" for value in (bare, sync, serial, sync - bare, serial - bare)]
        row = [env, *cells, ratio(sync / serial), verdict(env, bare, serial - bare)]
        table.add_row(*row)
    Console(width=140).print(table)


if __name__ == "__main__":
    main()
