"""Compare vectorized environments in one run: Gymnasium, Stable-Baselines3 and pufferlib.

    python benchmarks/vector.py [--seconds 2] [--repeats 3] [--envs noop cartpole nethack …]
                                [--json FILE] [--markdown FILE] [--plot FILE]
    python benchmarks/vector.py --grid blog

Every contestant steps the same environments with the same actions, several times for `--seconds`,
in turn with the others; the median counts. Only ratios within one run mean anything. The bound is
what the bare environment reaches on one core, times the cores. `noop` copies 64 floats.
`spin100-dev50` uses 100 µs of CPU time a step with a standard deviation of 50 %, cut at 0 (CPU time
of the thread: a spin by the clock would let a process "work" while it does not run). There are 16
of these, for every contestant, and 8 of the others; `workloads.py` says why. `uneven` sleeps 1 ms
a step, as if every worker had a core, and 1.25 ms in the last environment, whose core is lastingly
20 % slower. A pool's batch is half of the environments, of any workers that finished first.
Contestants that are not installed are left out.
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
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table
from workloads import WORKLOADS, Workload

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


# The goals for two cores.
TARGETS = (
    Target("noop", ours(2), 20, PEERS),
    Target("noop", ours(4), 10, PEERS),
    Target("noop", ours(8), 10, PEERS),
    Target("noop", SERIAL, 1.5, (SYNC,)),
    Target("cartpole", SERIAL, 1.0, (SYNC,)),
    Target("spin100", ours(2), 0.9, (BOUND,)),
    Target("spin500", ours(2, pool=True), 0.9, (BOUND,)),
    Target("spin500-dev100", ours(2, pool=True), 0.9, (BOUND,)),
    Target("nethack", ours(2), 5, (ASYNC,)),
    Target("nethack", ours(2), 0.7, (BOUND,)),
)


@dataclass
class Results:
    """Medians in steps per second, by environment and contestant."""

    speeds: dict[str, dict[str, float]] = field(default_factory=dict)

    def measure(self, env: str, workers: tuple[int, ...], seconds: float, repeats: int) -> None:
        """All contestants in turn, `repeats` times."""
        workload = WORKLOADS[env]
        actions = sample_actions(workload)
        runs: dict[str, list[float]] = {}
        for _ in range(repeats):
            for name, contestant in contestants(workers, env).items():
                speed = steps_per_second(contestant(workload.creators, actions), seconds)
                runs.setdefault(name, []).append(speed)
        self.speeds[env] = {name: statistics.median(values) for name, values in runs.items()}
        self.speeds[env][BOUND] *= workload.bound or available_cores()

    def judged(self) -> Iterator[tuple[Target, float]]:
        """The targets that could be measured and what was reached."""
        for target in TARGETS:
            reached = target.ratio_reached(self.speeds.get(target.env, {}))
            if reached is not None:
                yield target, reached


def sample_actions(workload: Workload) -> NDArray[Any]:
    """One for each environment, the same in every run."""
    example = workload.creators[0]()
    example.action_space.seed(0)
    actions = np.array([example.action_space.sample() for _ in workload.creators])
    example.close()
    return actions


def ratio(value: float) -> str:
    return f"{value:.2f}" if value < 10 else f"{value:.0f}"


def show(results: Results, console: Console) -> None:
    table = Table(title=f"on {available_cores()} cores")
    table.add_column("environment (how many)")
    table.add_column("contestant")
    for heading in ("steps/s", "× Gym Sync", "× Gym Async", "× SB3 Subproc", "% of bound"):
        table.add_column(heading, justify="right")
    table.add_column("target")
    for env, speeds in results.speeds.items():
        for name, speed in speeds.items():
            cells = [ratio(speed / speeds[p]) if p in speeds else "" for p in (SYNC, *PEERS)]
            table.add_row(
                f"{env} ({len(WORKLOADS[env].creators)})",
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

    def cell(env: str, name: str) -> str:
        speeds = results.speeds[env]
        if name not in speeds:
            return "–"
        text = f"{float(f'{speeds[name]:.3g}'):,.0f}"
        if name.startswith("pufferlib"):
            fastest = max(speeds[peer] for peer in PEERS if peer in speeds)
            text += f" ({ratio(speeds[name] / fastest)}×)"
        return text

    sized = [f"{env} ({len(WORKLOADS[env].creators)})" for env in envs]
    heading = [f"steps/s, {available_cores()} cores", *sized]
    rows = [heading, ["---"] * len(heading)]
    rows += [[name, *(cell(env, name) for env in envs)] for name in contestants_of(results)]
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def contestants_of(results: Results) -> list[str]:
    """In order; not all of them have every environment."""
    return [name for name in max(results.speeds.values(), key=len) if name != BOUND]


def draw(results: Results, path: Path) -> None:
    """A panel for each environment with a bar for each contestant."""
    from matplotlib import pyplot as plt

    speeds = results.speeds
    names = contestants_of(results)
    columns = min(4, len(speeds))
    rows = -(-len(speeds) // columns)
    size = (1.4 + 2.1 * columns, 0.5 + (0.5 + 0.15 * len(names)) * rows)
    figure, grid = plt.subplots(
        rows, columns, figsize=size, sharey=True, squeeze=False, layout="constrained"
    )
    for axes, env in zip(grid.flat, speeds, strict=False):
        draw_panel(axes, env, speeds[env], names)
    for axes in grid.flat[len(speeds) :]:
        axes.set_axis_off()
    figure.supxlabel("environment steps per second; dashed: all cores, bare", fontsize=7)
    figure.savefig(path, dpi=130)


def draw_panel(axes: Any, env: str, speeds: dict[str, float], names: list[str]) -> None:
    for position, name in enumerate(names):
        speed = speeds.get(name, 0)
        own = name.startswith("pufferlib")
        axes.barh(position, speed, color="tab:orange" if own else "tab:blue", height=0.75)
        axes.text(speed, position, f" {brief(speed)}", va="center", fontsize=6)
    fastest = max(speed for name, speed in speeds.items() if name != BOUND)
    axes.set_xlim(0, 1.3 * fastest)
    if speeds[BOUND] < 1.3 * fastest:  # nobody comes near where the environment costs nothing
        axes.axvline(speeds[BOUND], color="black", linewidth=0.8, linestyle="--")
    axes.set_title(f"{env} ({len(WORKLOADS[env].creators)})", fontsize=8)
    axes.set_yticks(range(len(names)), names, fontsize=6)
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.set_xticks([])
    axes.spines[["top", "right", "bottom"]].set_visible(False)
    axes.tick_params(axis="y", length=0)


def brief(speed: float) -> str:
    """Three digits: 1,230, 12.3k, 1.23M; nothing for a contestant that was not there."""
    if speed < 10_000:
        return f"{float(f'{speed:.3g}'):,.0f}" if speed else ""
    return f"{speed / 1e3:.3g}k" if speed < 999_500 else f"{speed / 1e6:.3g}M"


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
        "num_envs": {env: len(WORKLOADS[env].creators) for env in results.speeds},
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
    parser.add_argument("--envs", nargs="+", choices=WORKLOADS, default=list(WORKLOADS))
    parser.add_argument("--workers", nargs="+", type=int, default=WORKERS)
    parser.add_argument("--markdown", type=Path, help="write the README's table to this file")
    parser.add_argument("--plot", type=Path, help="draw the speeds (needs matplotlib)")
    parser.add_argument("--grid", choices=["blog"], help="the grid of PufferLib's blog instead")
    parser.add_argument("--json", type=Path, help="also write the results to this file")
    args = parser.parse_args()
    if args.grid:
        grid.main(args.seconds, args.json)
        return
    warnings.simplefilter("ignore")  # more workers than cores is the point
    console, results = Console(width=None if os.isatty(1) else 140), Results()
    for env in args.envs:
        if (workload := WORKLOADS[env]).missing:
            console.print(f"{env} is left out: {workload.install} brings it")
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
