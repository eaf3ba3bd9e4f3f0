"""What emulation and `Serial` add to an environment's own step, beside Gymnasium's SyncVectorEnv.

    python benchmarks/emulation.py [--seconds 1] [--repeats 5]

Times are microseconds of CPU time per environment step (all is one process, so that other programs
matter little), medians of runs in turn; "added" is the difference to as many bare environments,
stepped one after the other. All of them play the same episodes, from the same seeds.
"""

from __future__ import annotations

import argparse
import contextlib
import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any

from contestants import SERIAL, SYNC, Stepper, contestants
from rich.console import Console
from rich.table import Table
from vector import ratio, sample_actions
from workloads import WORKLOADS, Creator

from pufferlib.vector.seeds import spread_seed

BARE = "bare"

# The design's limits: microseconds of our own on cheap environments, a share of NetHack's step.
LIMIT_US = {"noop": 1.0, "cartpole": 1.0}
LIMIT_SHARE = {"nethack": 0.10}


@contextlib.contextmanager
def bare(creators: list[Creator], actions: Any) -> Iterator[Callable[[], Any]]:
    """Environments without any vectorization, each reset when it must be, as `Serial` does."""
    envs = [creator() for creator in creators]
    for env, seed in zip(envs, spread_seed(0, len(envs)), strict=True):
        env.reset(seed=seed)
    pairs = list(zip(envs, actions.tolist(), strict=True))
    ended = [False] * len(pairs)

    def step() -> None:
        for i, (env, action) in enumerate(pairs):
            if ended[i]:
                env.reset()
                ended[i] = False
            else:
                _, _, terminal, truncation, _ = env.step(action)
                ended[i] = terminal or truncation

    yield step
    for env in envs:
        env.close()


def microseconds(env: str, seconds: float, repeats: int) -> dict[str, float]:
    """Per step, by contestant, over as many steps as the bare environments do in `seconds`."""
    workload = WORKLOADS[env]
    creators, actions = workload.creators, sample_actions(workload)
    others = contestants(())
    chosen = {BARE: bare, SYNC: others[SYNC], SERIAL: others[SERIAL]}
    steps = int(seconds * 1e6 / step_time(bare(creators, actions), 200, len(creators)))
    runs: dict[str, list[float]] = {name: [] for name in chosen}
    for _ in range(repeats):
        for name, make in chosen.items():
            runs[name].append(step_time(make(creators, actions), steps, len(creators)))
    return {name: statistics.median(values) for name, values in runs.items()}


def step_time(stepper: Stepper, steps: int, num_envs: int) -> float:
    """Microseconds of CPU time per environment step over `steps` of them, after a warm-up."""
    with stepper as step:
        for _ in range(20):
            step()
        rounds = max(1, steps // num_envs)
        start = time.process_time()
        for _ in range(rounds):
            step()
        return 1e6 * (time.process_time() - start) / (rounds * num_envs)


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
    for heading in (BARE, SYNC, SERIAL, "added by Sync", "added by us", "ratio to Sync"):
        table.add_column(heading, justify="right")
    table.add_column("target")
    for env in ("noop", "cartpole", "nethack"):
        if WORKLOADS[env].missing:
            continue
        times = microseconds(env, args.seconds, args.repeats)
        bare, sync, serial = times[BARE], times[SYNC], times[SERIAL]
        cells = [f"{value:.2f}" for value in (bare, sync, serial, sync - bare, serial - bare)]
        row = [env, *cells, ratio(sync / serial), verdict(env, bare, serial - bare)]
        table.add_row(*row)
    Console(width=140).print(table)


if __name__ == "__main__":
    main()
