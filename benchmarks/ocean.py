"""How fast Ocean's native environments step, beside EnvPool's.

    python benchmarks/ocean.py [--agents 4096] [--threads 1 2] [--seconds 0.5] [--repeats 5]
        [--cpu-time]

Random actions through the Python `step`, every contestant several times in turn; the best run of
each counts, since whatever else the machine does only slows a run down. The anchor is PufferLib 3.0
on the same kind of game, measured once on a quiet machine of 2 cores: Squared of 11 × 11 cells,
Pong of 8 numbers, Breakout of 118, Snake with windows of 11 × 11 cells.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import importlib.util
import time
from collections.abc import Callable, Iterator

import numpy as np
from contestants import Stepper, envpool, steps_per_second
from rich.console import Console
from rich.table import Table

from pufferlib.environments.ocean.native import (
    NativeBreakout,
    NativeConnectFour,
    NativeEnv,
    NativeMaze,
    NativePong,
    NativeSnake,
    NativeSquared,
)

ANCHORS = {"Squared": 80e6, "Pong": 34e6, "Breakout": 5.4e6, "Snake": 4.9e6}
FLOORS = {"Connect Four": 10e6, "Maze": 10e6}  # of games that PufferLib 3.0 has not
TARGET, TARGET_TWO_THREADS = 1.2, 1.8

# The distance gives PufferLib's 11 × 11 cells.
GAMES: dict[str, Callable[..., NativeEnv]] = {
    "Squared": functools.partial(NativeSquared, distance_to_target=5),
    "Pong": NativePong,
    "Breakout": NativeBreakout,
    "Snake": NativeSnake,
    "Connect Four": NativeConnectFour,
    "Maze": NativeMaze,
}


@contextlib.contextmanager
def native(make: Callable[..., NativeEnv], agents: int, threads: int) -> Iterator[Callable]:
    """A step of all agents, with a few arrays of actions in turn."""
    env = make(num_agents=agents, threads=threads)
    rng = np.random.default_rng(0)
    choices = [rng.integers(env.single_action_space.n, size=agents) for _ in range(8)]
    env.reset(seed=0)
    turn = 0

    def step() -> int:
        nonlocal turn
        turn += 1
        env.step(choices[turn % len(choices)])
        return agents

    yield step


def contestants(agents: int, threads: list[int]) -> dict[str, Callable[[], Stepper]]:
    """By name, in the order of the table."""
    found: dict[str, Callable[[], Stepper]] = {}
    for name, make in GAMES.items():
        for count in threads:
            found[label(name, count)] = functools.partial(native, make, agents, count)
    if importlib.util.find_spec("envpool"):
        for task in ("CartPole-v1", "Pong-v5"):
            found[f"EnvPool {task}"] = functools.partial(envpool, task, None, np.zeros(64, int))
    return found


def label(game: str, threads: int) -> str:
    """The name of a contestant."""
    return f"{game}, {threads} thread" + "s" * (threads > 1)


def judgement(name: str, speeds: dict[str, float]) -> str:
    """A speed against its target, if it has one."""
    game = name.partition(",")[0]
    alone = speeds.get(label(game, 1))
    if alone and name == label(game, 1) and game in FLOORS:
        return f"{alone / FLOORS[game]:.2f}× {FLOORS[game] / 1e6:.0f} M (target 1)"
    if alone and name == label(game, 1):
        return f"{alone / ANCHORS[game]:.2f}× PufferLib 3.0 (target {TARGET})"
    if alone and name == label(game, 2):
        return f"{speeds[name] / alone:.2f}× one thread (target {TARGET_TWO_THREADS})"
    return ""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--agents", type=int, default=4096)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--seconds", type=float, default=0.5)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument(
        "--cpu-time",
        action="store_true",
        help="per second of its own CPU time: for one thread on a busy machine",
    )
    options = parser.parse_args()
    clock = time.process_time if options.cpu_time else time.perf_counter
    speeds: dict[str, float] = {}
    for _ in range(options.repeats):
        for name, make in contestants(options.agents, options.threads).items():
            speed = steps_per_second(make(), options.seconds, clock=clock)
            speeds[name] = max(speed, speeds.get(name, 0.0))
    table = Table(title=f"{options.agents:,} agents, random actions (EnvPool: 64 environments)")
    table.add_column("environment")
    table.add_column("million steps/s", justify="right")
    table.add_column("against")
    for name, speed in speeds.items():
        table.add_row(name, f"{speed / 1e6:,.3g}", judgement(name, speeds))
    Console().print(table)


if __name__ == "__main__":
    main()
