"""Does `puffer verify` find bugs? Runs it with deliberate ones, each in a process of its own.

    python benchmarks/mutations.py [--quick] [--bugs NAME …] [--envs NAME … | --own]
                                   [--seeds 1 2 3] [--results DIR] [--markdown FILE] [--report]

The first row of the table has no bug: whatever it shows is a false alarm. `bugs.py` has the bugs.
Every run trains one environment and leaves a small JSON file; runs whose file is there are not
repeated, so that the command may be interrupted and goes on. `--report` only shows what is there.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import multiprocessing
import sys
from collections.abc import Iterator, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from bugs import BY_NAME
from report import commit

from pufferlib.cli import main as puffer
from pufferlib.commands.trials import TRIALS

HERE = Path(__file__).parent
RESULTS = HERE / "results" / "mutations"
NO_BUG = "none"
ENVS = tuple(trial.env for trial in TRIALS)
FORK = multiprocessing.get_context("fork")  # everything is imported already
Run = dict[str, Any]


def runs_wanted(args: argparse.Namespace) -> Iterator[tuple[str, str, int]]:
    """Bug, environment and seed of every run that was asked for."""
    for bug in args.bugs:
        own = [BY_NAME[bug].env] if args.own and bug != NO_BUG else args.envs
        for env in own:
            for seed in args.seeds:
                yield bug, env, seed


def run(bug: str, env: str, seed: int, quick: bool) -> Run:
    """`puffer verify` for one environment with the bug in place, and what it said."""
    options = ["--envs", env, "--seed", str(seed), "--json", *(["--quick"] if quick else [])]
    here, there = FORK.Pipe(duplex=False)
    process = FORK.Process(target=verify, args=(bug, options, there))
    process.start()
    there.close()
    try:
        reached, code, told = here.recv()
    except EOFError:
        sys.exit(f"{bug}, {env}, seed {seed}: the process ended before `puffer verify` did")
    process.join()
    if not reached and BY_NAME[bug].env == env:
        sys.exit(f"{bug}: {env} is there to find it, but never called {BY_NAME[bug].target}")
    return {
        "bug": bug,
        "env": env,
        "seed": seed,
        "quick": quick,
        "reached": reached,
        "caught": code != 0,
        "trial": json.loads(told)["trials"][0],
        "commit": commit(),
    }


def verify(bug: str, options: Sequence[str], answer: Connection) -> None:
    """Put the bug in place, in this process and its workers, and send what the command says."""
    was_reached = BY_NAME[bug].install() if bug != NO_BUG else lambda: True
    with contextlib.redirect_stdout(io.StringIO()) as output:
        code = puffer(["verify", *options])
    answer.send((was_reached(), code, output.getvalue()))


def run_missing(args: argparse.Namespace) -> None:
    """Every run whose file is not there, one after the other."""
    args.results.mkdir(parents=True, exist_ok=True)
    for bug, env, seed in runs_wanted(args):
        level = "quick" if args.quick else "full"
        file = args.results / f"{level}-{bug.replace(' ', '-')}-{env}-{seed}.json"
        if not file.exists():
            found = run(bug, env, seed, args.quick)
            file.write_text(json.dumps(found, indent=2) + "\n")
            print(describe(found), flush=True)


def describe(found: Run) -> str:
    """One run in a line."""
    verdict = "; ".join(found["trial"]["failures"]) or "all is well"
    return f"{found['bug']}, {found['env']}, seed {found['seed']}: {verdict}"


def read_runs(directory: Path, quick: bool) -> list[Run]:
    """All that are there of one level."""
    level = "quick" if quick else "full"
    return [json.loads(file.read_text()) for file in sorted(directory.glob(f"{level}-*.json"))]


def cell(runs: Sequence[Run]) -> str:
    """How many seeds raised an alarm: a dash where none ran, a dot where none reached the bug."""
    if not runs:
        return "–"
    if not any(run["reached"] for run in runs):
        return "·"
    return f"{sum(run['caught'] for run in runs)}/{len(runs)}"


def seeds_caught(runs: Sequence[Run]) -> str:
    """In how many of the seeds at least one environment raised an alarm."""
    seeds = {run["seed"] for run in runs}
    return f"{len({run['seed'] for run in runs if run['caught']})}/{len(seeds)}"


def as_markdown(runs: Sequence[Run]) -> str:
    """A row per bug, a column per environment, and what they find together."""
    lines = [["bug", *ENVS, "together"], ["---"] * (len(ENVS) + 2)]
    for bug in (NO_BUG, *BY_NAME):
        own = [run for run in runs if run["bug"] == bug]
        if own:
            cells = [cell([run for run in own if run["env"] == env]) for env in ENVS]
            lines.append([bug, *cells, seeds_caught(own)])
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    every = (NO_BUG, *BY_NAME)
    parser.add_argument("--quick", action="store_true", help="verify --quick")
    parser.add_argument("--bugs", nargs="+", choices=every, default=every)
    parser.add_argument("--envs", nargs="+", choices=ENVS, default=ENVS)
    parser.add_argument("--own", action="store_true", help="only the one meant to find each bug")
    parser.add_argument("--seeds", nargs="+", type=int, default=[1, 2, 3])
    parser.add_argument("--results", type=Path, default=RESULTS, help="where runs are kept")
    parser.add_argument("--markdown", type=Path, help="write the table to this file")
    parser.add_argument("--report", action="store_true", help="train nothing")
    args = parser.parse_args()
    if not args.report:
        run_missing(args)
    text = as_markdown(read_runs(args.results, args.quick))
    print(text)
    if args.markdown:
        args.markdown.write_text(text)


if __name__ == "__main__":
    main()
