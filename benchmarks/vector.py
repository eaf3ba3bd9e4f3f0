"""Compare vectorized environments in one run: Gymnasium, Stable-Baselines3 and pufferlib.

    python benchmarks/vector.py [--seconds 2] [--repeats 3] [--envs noop cartpole nethack …]
                                [--json FILE] [--markdown FILE] [--plot FILE]
    python benchmarks/vector.py --grid blog

Every contestant steps the same environments with the same actions, several times for `--seconds`,
in turn with the others; the median counts. Only ratios within one run mean anything. The bound is
what the bare environment reaches on one core, times the cores. `noop` copies 64 floats.
`spin100-dev50` uses 100 µs of CPU time a step with a standard deviation of 50 %, cut at 0 (CPU time
of the thread: a spin by the clock would let a process "work" while it does not run). `uneven`
sleeps 1 ms a step, as if every worker had a core, and 1.25 ms in the last environment, whose core
is lastingly 20 % slower. A pool's batch is half of the environments, of any workers that finished
first. Contestants that are not installed are left out.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import importlib.util
import json
import os
import platform
import statistics
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grid
import numpy as np
from contestants import (
    ASYNC,
    BOUND,
    PEERS,
    SERIAL,
    SYNC,
    contestants,
    ours,
    steps_per_second,
)
from rich.console import Console
from rich.table import Table
from workloads import BOUNDS, ENVS, NUM_ENVS, each, missing

from pufferlib.vector.sizes import available_cores

WORKERS = (1, 2, 4, 8)


@dataclass(frozen=True)
class Target:
    """`name` reaches at least `ratio` times each of `against` on `env`."""

    env: str
    name: str
    ratio: float
    against: tuple[str, ...]

    def ratio_reached(self, speeds: dict[str, float]) -> float | None:
        """None if a contestant is missing."""
        if self.name not in speeds or not set(self.against) & set(speeds):
            return None
        return speeds[self.name] / max(speeds[peer] for peer in self.against if peer in speeds)


# The design's numbers for two cores.
TARGETS = (
    Target("noop", ours(2), 20, PEERS),
    Target("noop", ours(4), 10, PEERS),
    Target("noop", ours(8), 10, PEERS),
    Target("noop", SERIAL, 1.5, (SYNC,)),
    Target("cartpole", SERIAL, 1.0, (SYNC,)),
    Target("spin100", ours(2, pool=True), 0.9, (BOUND,)),
    Target("spin500", ours(2, pool=True), 0.9, (BOUND,)),
    Target("spin500-dev100", ours(4, pool=True), 0.9, (BOUND,)),
    Target("nethack", ours(2), 5, (ASYNC,)),
    Target("nethack", ours(2), 0.7, (BOUND,)),
)


@dataclass
class Results:
    """Medians in steps per second, by environment and contestant."""

    speeds: dict[str, dict[str, float]] = field(default_factory=dict)

    def measure(self, env: str, workers: tuple[int, ...], seconds: float, repeats: int) -> None:
        """All contestants in turn, `repeats` times."""
        creator = ENVS[env]
        example = each(creator)[0]()
        example.action_space.seed(0)
        actions = np.array([example.action_space.sample() for _ in range(NUM_ENVS)])
        example.close()
        runs: dict[str, list[float]] = {}
        for _ in range(repeats):
            for name, contestant in contestants(workers, env).items():
                speed = steps_per_second(contestant(creator, actions), seconds)
                runs.setdefault(name, []).append(speed)
        self.speeds[env] = {name: statistics.median(values) for name, values in runs.items()}
        self.speeds[env][BOUND] *= BOUNDS.get(env, available_cores())

    def judged(self) -> Iterator[tuple[Target, float]]:
        """The targets that could be measured and what was reached."""
        for target in TARGETS:
            reached = target.ratio_reached(self.speeds.get(target.env, {}))
            if reached is not None:
                yield target, reached


def ratio(value: float) -> str:
    return f"{value:.2f}" if value < 10 else f"{value:.0f}"


def show(results: Results, console: Console) -> None:
    table = Table(title=f"{NUM_ENVS} environments on {available_cores()} cores")
    table.add_column("environment")
    table.add_column("contestant")
    for heading in ("steps/s", "× Gym Sync", "× Gym Async", "× SB3 Subproc", "% of bound"):
        table.add_column(heading, justify="right")
    table.add_column("target")
    for env, speeds in results.speeds.items():
        for name, speed in speeds.items():
            cells = [ratio(speed / speeds[p]) if p in speeds else "" for p in (SYNC, *PEERS)]
            table.add_row(
                env,
                name,
                f"{speed:,.0f}",
                *cells,
                f"{100 * speed / speeds[BOUND]:.0f}",
                verdicts(results, env, name),
            )
        table.add_section()
    console.print(table)


def verdicts(results: Results, env: str, name: str) -> str:
    texts = []
    for target, reached in results.judged():
        if (target.env, target.name) == (env, name):
            color, word = ("green", "pass") if reached >= target.ratio else ("red", "FAIL")
            against = " and ".join(target.against)
            texts.append(
                f"[{color}]{word}[/] {ratio(reached)} of {ratio(target.ratio)} × {against}"
            )
    return "\n".join(texts)


def as_markdown(results: Results) -> str:
    """The table of the README: steps per second, and ours against the faster peer."""
    envs = list(results.speeds)
    names = [name for name in results.speeds[envs[0]] if name != BOUND]

    def cell(env: str, name: str) -> str:
        speeds = results.speeds[env]
        text = f"{round(speeds[name], -2):,.0f}"
        if name.startswith("pufferlib"):
            fastest = max(speeds[peer] for peer in PEERS if peer in speeds)
            text += f" ({ratio(speeds[name] / fastest)}×)"
        return text

    heading = [f"steps/s, {NUM_ENVS} environments, {available_cores()} cores", *envs]
    rows = [heading, ["---"] * len(heading)]
    rows += [[name, *(cell(env, name) for env in envs)] for name in names]
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def draw(results: Results, path: Path) -> None:
    """A bar per contestant and environment: how many times the fastest of the others."""
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(figsize=(9, 0.32 * sum(map(len, results.speeds.values()))))
    position, labels = 0, []
    for env, speeds in results.speeds.items():
        fastest = max(v for n, v in speeds.items() if n != BOUND and not n.startswith("pufferlib"))
        for name, speed in speeds.items():
            own = name.startswith("pufferlib")
            color = "tab:orange" if own else "tab:gray" if name == BOUND else "tab:blue"
            axes.barh(position, speed / fastest, color=color)
            axes.text(speed / fastest, position, f" {speed:,.0f}", va="center", fontsize=7)
            labels.append((position, f"{env}  {name}"))
            position += 1
        position += 1
    axes.set_yticks(*zip(*labels, strict=True), fontsize=7)
    axes.invert_yaxis()
    axes.set_xscale("log")
    axes.axvline(1, color="black", linewidth=0.8)
    axes.set_xlabel("times the fastest of the others (steps per second at the bars)")
    figure.tight_layout()
    figure.savefig(path, dpi=120)


def as_json(results: Results) -> dict[str, Any]:
    return {
        "machine": {
            "cores": available_cores(),
            "load": os.getloadavg()[0],
            "platform": platform.platform(),
            "python": platform.python_version(),
        },
        "versions": {
            name: importlib.metadata.version(name)
            for name in ("pufferlib", "gymnasium", "stable_baselines3", "envpool", "nle", "ale_py")
            if importlib.util.find_spec(name)
        },
        "num_envs": NUM_ENVS,
        "steps_per_second": results.speeds,
        "targets": [
            {
                "env": target.env,
                "name": target.name,
                "against": target.against,
                "ratio": target.ratio,
                "reached": reached,
                "pass": reached >= target.ratio,
            }
            for target, reached in results.judged()
        ],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=2.0, help="per measurement")
    parser.add_argument("--repeats", type=int, default=3, help="of which the median counts")
    parser.add_argument("--envs", nargs="+", choices=ENVS, default=list(ENVS))
    parser.add_argument("--workers", nargs="+", type=int, default=WORKERS)
    parser.add_argument("--markdown", type=Path, help="write the README's table to this file")
    parser.add_argument("--plot", type=Path, help="draw the speeds (needs matplotlib)")
    parser.add_argument("--grid", choices=["blog"], help="the founding blog's grid instead")
    parser.add_argument("--json", type=Path, help="also write the results to this file")
    args = parser.parse_args()
    if args.grid:
        grid.main(args.seconds, args.json)
        return
    warnings.simplefilter("ignore")  # more workers than cores is the point
    console, results = Console(width=None if os.isatty(1) else 140), Results()
    for env in args.envs:
        if extra := missing(env):
            console.print(f"{env} is left out: pip install 'pufferlib[{extra}]' brings it")
            continue
        with console.status(f"measuring {env} …"):
            results.measure(env, tuple(args.workers), args.seconds, args.repeats)
    show(results, console)
    if args.markdown:
        args.markdown.write_text(as_markdown(results))
    if args.plot:
        draw(results, args.plot)
    if args.json:
        args.json.write_text(json.dumps(as_json(results), indent=2) + "\n")


if __name__ == "__main__":
    main()
