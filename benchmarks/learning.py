"""Learning curves of three PPOs with the same network and settings: CleanRL's, SB3's and ours.

    pip install --no-deps --ignore-requires-python cleanrl==1.2.0
    python benchmarks/learning.py [--tasks cartpole acrobot …] [--learners …] [--seeds 1 2 3]
                                  [--results DIR] [--markdown FILE] [--plot FILE] [--report]

Every run is a process of its own with one thread, and leaves a small JSON file with its settings,
its curve, its times, the commit and the versions; runs whose file is there are not repeated, so
that the command may be interrupted and goes on. `--report` only shows what is there; those behind
the published curves are in `benchmarks/results/learning`.
`curriculum.py` has the tasks and settings, `learners.py` says what is equal; a game of Atari takes
an hour per run and is left out unless named. The final return is the mean of the last 100 training
episodes. CPU time says more than wall time where other programs run beside.
"""

from __future__ import annotations

import argparse
import importlib.util
import itertools
import json
import os
import statistics
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from curriculum import TASKS
from rich.console import Console
from rich.table import Table

HERE = Path(__file__).parent
RESULTS = HERE / "results" / "learning"
LEARNERS = ("pufferlib", "CleanRL", "SB3")
OURS, *PEERS = LEARNERS
Runs = dict[str, dict[str, list[dict[str, Any]]]]


def result_file(directory: Path, task: str, learner: str, seed: int) -> Path:
    return directory / f"{task}-{learner}-{seed}.json"


def train_missing(
    directory: Path, tasks: Iterable[str], learners: Iterable[str], seeds: Iterable[int]
) -> None:
    """Every run whose file is not there, one after the other."""
    directory.mkdir(parents=True, exist_ok=True)
    for task, seed, learner in itertools.product(tasks, seeds, learners):
        file = result_file(directory, task, learner, seed)
        if file.exists():
            continue
        print(f"{TASKS[task].title}, seed {seed}: {learner} …", flush=True)
        command = [sys.executable, HERE / "learners.py", learner, task, str(seed), "--out", file]
        environment = os.environ | {"OMP_NUM_THREADS": "1"}
        run = subprocess.run(command, capture_output=True, text=True, env=environment)
        if run.returncode:
            sys.exit(f"{learner} failed on {task}:\n{run.stderr[-2000:]}")


def read_results(directory: Path) -> Runs:
    """By task and learner, in the order of `TASKS` and `LEARNERS`."""
    runs: Runs = {}
    for task, learner in itertools.product(TASKS, LEARNERS):
        files = sorted(directory.glob(f"{task}-{learner}-*.json"))
        if files:
            found = runs.setdefault(task, defaultdict(list))
            found[learner] = [json.loads(file.read_text()) for file in files]
    return runs


@dataclass(frozen=True)
class Summary:
    """What one learner reached on one task, over its seeds."""

    returns: list[float]
    wall_seconds: float
    cpu_seconds: float

    @classmethod
    def of(cls, runs: list[dict[str, Any]]) -> Summary:
        """Returns of every seed, medians of the times."""
        return cls(
            [run["final_return"] for run in runs],
            statistics.median(run["wall_seconds"] for run in runs),
            statistics.median(run["cpu_seconds"] for run in runs),
        )

    @property
    def mean(self) -> float:
        """Of the seeds."""
        return statistics.mean(self.returns)


def verdict(ours: Summary, peers: list[Summary]) -> str:
    """Whether our mean is within the peers' spread of seeds, or above it."""
    lowest = min(value for peer in peers for value in peer.returns)
    color, word = ("green", "pass") if ours.mean >= lowest else ("red", "FAIL")
    return f"[{color}]{word}[/] {ours.mean:.4g}, peers from {lowest:.4g}"


def rows(runs: Runs) -> list[list[str]]:
    """Task, learner, returns by seed, their mean, wall and CPU seconds, verdict."""
    cells = []
    for task, by_learner in runs.items():
        found = {learner: Summary.of(by_learner[learner]) for learner in by_learner}
        peers = [found[peer] for peer in PEERS if peer in found]
        for learner, summary in found.items():
            judged = verdict(summary, peers) if learner == OURS and peers else ""
            returns = ", ".join(f"{value:.4g}" for value in summary.returns)
            times = f"{summary.wall_seconds:.0f}", f"{summary.cpu_seconds:.0f}"
            cells.append([task, learner, returns, f"{summary.mean:.4g}", *times, judged])
    return cells


HEADINGS = ("task", "learner", "final return by seed", "mean", "wall s", "CPU s", "verdict")


def show(runs: Runs, console: Console) -> None:
    table = Table(title="mean return of the last 100 training episodes")
    for heading in HEADINGS:
        table.add_column(heading, justify="right" if heading in HEADINGS[3:6] else "left")
    for _, group in itertools.groupby(rows(runs), lambda row: row[0]):
        for row in group:
            table.add_row(*row)
        table.add_section()
    console.print(table)


def as_markdown(runs: Runs) -> str:
    """The table of `RESULTS.md`, without the colours."""
    lines: list[Iterable[str]] = [HEADINGS, ["---"] * len(HEADINGS)]
    for task, *cells in rows(runs):
        plain = cells[-1].replace("[green]", "").replace("[red]", "").replace("[/]", "")
        lines.append([TASKS[task].title, *cells[:-1], plain])
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def draw(runs: Runs, path: Path) -> None:
    """A panel per task: the mean over seeds of every learner, and the range of the seeds."""
    import numpy as np
    from matplotlib import pyplot as plt

    columns = min(len(runs), 3)
    lines = -(-len(runs) // columns)
    figure, panels = plt.subplots(
        lines, columns, figsize=(3.4 * columns, 2.8 * lines), squeeze=False, layout="constrained"
    )
    for axes in panels.flat[len(runs) :]:
        axes.remove()
    for axes, (task, by_learner) in zip(panels.flat, runs.items(), strict=False):
        for learner, color in zip(LEARNERS, ("tab:orange", "tab:blue", "tab:green"), strict=True):
            curves = [np.array(run["curve"]).T for run in by_learner.get(learner, ())]
            if not curves:
                continue
            steps = np.unique(np.concatenate([curve[0] for curve in curves]))
            returns = np.stack([np.interp(steps, *curve) for curve in curves])
            axes.plot(steps, returns.mean(0), color=color, label=learner, linewidth=1.2)
            axes.fill_between(steps, returns.min(0), returns.max(0), color=color, alpha=0.15)
        axes.set_title(TASKS[task].title, fontsize=9)
        axes.set_xlabel("environment steps", fontsize=8)
        axes.tick_params(labelsize=7)
    panels[0][0].set_ylabel("return of training episodes", fontsize=8)
    panels[0][0].legend(fontsize=8)
    figure.savefig(path, dpi=110)


def trainable(task: str) -> bool:
    """Whether the packages that the task needs are there; says which are not."""
    missing = [name for name in TASKS[task].needs if not importlib.util.find_spec(name)]
    if missing:
        print(f"{task} is left out: {', '.join(missing)} is not installed (the extra 'bench')")
    return not missing


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    usual = [task for task in TASKS if not TASKS[task].is_atari]
    parser.add_argument("--tasks", nargs="+", choices=TASKS, default=usual)
    parser.add_argument("--learners", nargs="+", choices=LEARNERS, default=LEARNERS)
    parser.add_argument("--seeds", nargs="+", type=int, default=[1, 2, 3])
    parser.add_argument("--results", type=Path, default=RESULTS, help="where runs are kept")
    parser.add_argument("--markdown", type=Path, help="write the table to this file")
    parser.add_argument("--plot", type=Path, help="draw the curves (needs matplotlib)")
    parser.add_argument("--report", action="store_true", help="train nothing")
    args = parser.parse_args()
    results = args.results.absolute()
    if not args.report:
        tasks = [task for task in args.tasks if trainable(task)]
        train_missing(results, tasks, args.learners, args.seeds)
    runs = read_results(results)
    show(runs, Console(width=None if os.isatty(1) else 140))
    if args.markdown:
        args.markdown.write_text(as_markdown(runs))
    if args.plot:
        draw(runs, args.plot)


if __name__ == "__main__":
    main()
