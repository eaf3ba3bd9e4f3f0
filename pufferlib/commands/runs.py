"""`puffer runs`: what has been trained here, and how runs differ."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import tyro
from rich.console import Console
from rich.table import Table
from rich.text import Text

from pufferlib.commands.arguments import parse_arguments
from pufferlib.exceptions import ConfigError
from pufferlib.trainer import record
from pufferlib.trainer.dashboard import duration, number
from pufferlib.trainer.options import flatten
from pufferlib.trainer.summary import RunSummary, commit_of, find_runs, runs_called, summarize

UNKNOWN = "–"
STYLES = {"running": "cyan", "finished": "green", "interrupted": "yellow", "crashed": "red"}
NOT_SETTINGS = ("train.data_dir", "train.loggers", "vec.auto")
"""Options that decide nothing of what a run learns."""
_SORT: dict[str, Callable[[RunSummary], Any]] = {
    "started": lambda run: run.started,
    "name": lambda run: run.name,
    "env": lambda run: run.env,
    "state": lambda run: run.state,
    "steps": lambda run: run.steps,
    "score": lambda run: run.score,
    "speed": lambda run: run.steps_per_second,
    "time": lambda run: run.seconds,
}


@dataclass(frozen=True, kw_only=True)
class RunsArguments:
    """List the runs; or, with names of runs, compare their settings and their last numbers."""

    runs: tyro.conf.Positional[tuple[str, ...]] = ()
    """Names or directories of runs; the name of an environment stands for all its runs."""
    env: str | None = None
    """Only runs of this environment."""
    sort: Literal["started", "name", "env", "state", "steps", "score", "speed", "time"] = "started"
    """Column to sort by; the largest is at the bottom, where a terminal shows it."""
    json: bool = False
    """Print JSON, with everything that the records say."""
    data_dir: Path = Path("runs")
    """Directory that holds the runs."""


def runs(arguments: Sequence[str]) -> int:
    """The command `puffer runs`; returns its exit code."""
    options = parse_arguments(RunsArguments, arguments, "puffer runs")
    found = select(options)
    if options.json:
        print(json.dumps([as_dict(run) for run in found], indent=2))
    elif options.runs:
        Console().print(comparison(found))
    else:
        _console().print(listing(found))
    return 0


def select(options: RunsArguments) -> list[RunSummary]:
    """The runs that are asked for, in order.

    Raises:
        ConfigError: there are none.
    """
    directories = runs_called(options.runs, options.data_dir)
    if not options.runs:
        directories = find_runs(options.data_dir)
        if not directories:
            raise ConfigError(
                f"no runs in {options.data_dir.absolute()}; make one with: puffer train ENV, or "
                "name the directory of the runs: --data-dir DIR"
            )
    found = [run for run in map(summarize, directories) if options.env in (None, run.env)]
    if not found:
        envs = sorted({run.env for run in map(summarize, directories) if run.env})
        raise ConfigError(f"--env: no run of {options.env}; there are runs of {', '.join(envs)}")
    if options.runs:
        return found
    key = _SORT[options.sort]
    return sorted(found, key=lambda run: (key(run) is not None, key(run)))


def listing(found: Sequence[RunSummary]) -> Table:
    """A row per run."""
    made = _table()
    for column in ("Run", "State"):
        made.add_column(column, no_wrap=True)
    for column in ("Steps", "Score", "Steps/s", "Time"):
        made.add_column(column, justify="right", no_wrap=True)
    for column in ("Git", "Checkpoint"):
        made.add_column(column, no_wrap=True)
    for run in found:
        made.add_row(
            run.name,
            Text(run.state, style=STYLES.get(run.state, "")),
            _number(run.steps),
            _number(run.score),
            _number(run.steps_per_second),
            UNKNOWN if run.seconds is None else duration(run.seconds),
            run.commit or UNKNOWN,
            run.checkpoint.name if run.checkpoint else UNKNOWN,
        )
    return made


def comparison(found: Sequence[RunSummary]) -> Table:
    """A column per run: where it comes from, the settings that differ, the last numbers."""
    made = _table()
    made.add_column("")
    for run in found:
        made.add_column(run.name, justify="right", overflow="fold")
    records = [record.read(run.directory) or {} for run in found]
    for name, values in _facts(found, records).items():
        made.add_row(name, *values)
    settings = differences(found)
    made.add_section()
    made.add_row(Text("settings that differ" if settings else "equal settings", style="cyan"))
    for name, settings_of_runs in settings.items():
        made.add_row(name, *map(_setting, settings_of_runs))
    made.add_section()
    made.add_row(Text("last numbers", style="cyan"))
    names = sorted({key for run in found for key in run.metrics} - {"step", "seconds"})
    for name in names:
        made.add_row(name, *(_number(run.metrics.get(name)) for run in found))
    return made


def differences(found: Sequence[RunSummary]) -> dict[str, list[Any]]:
    """The settings in which the runs differ, with that of each run; None where it has none."""
    configs = [dict(flatten(run.config or {})) for run in found]
    names = dict.fromkeys(name for config in configs for name in config)
    rows = {name: [config.get(name) for config in configs] for name in names}
    return {
        name: row
        for name, row in rows.items()
        if name not in NOT_SETTINGS and any(value != row[0] for value in row)
    }


def as_dict(run: RunSummary) -> dict[str, Any]:
    """A run for JSON: the columns of the list, its record, its configuration and last numbers."""
    return {
        "name": run.name,
        "directory": str(run.directory),
        "env": run.env,
        "state": run.state,
        "started": run.started,
        "steps": run.steps,
        "score_key": run.score_key,
        "score": run.score,
        "steps_per_second": run.steps_per_second,
        "seconds": run.seconds,
        "git": run.commit,
        "checkpoint": str(run.checkpoint) if run.checkpoint else None,
        "record": record.read(run.directory),
        "config": run.config,
        "metrics": run.metrics,
    }


def _facts(
    found: Sequence[RunSummary], records: Sequence[dict[str, Any]]
) -> dict[str, list[str | Text]]:
    """Rows about the runs as a whole."""
    library = [entry.get("pufferlib") or {} for entry in records]
    return {
        "environment": [run.env or UNKNOWN for run in found],
        "state": [Text(run.state, style=STYLES.get(run.state, "")) for run in found],
        "started": [run.started or UNKNOWN for run in found],
        "steps": [_number(run.steps) for run in found],
        "score": [_number(run.score) for run in found],
        "steps/s": [_number(run.steps_per_second) for run in found],
        "time": [UNKNOWN if run.seconds is None else duration(run.seconds) for run in found],
        "git": [run.commit or UNKNOWN for run in found],
        "pufferlib": [
            " ".join(filter(None, (entry.get("version"), commit_of(entry.get("git"))))) or UNKNOWN
            for entry in library
        ],
        "lock": [entry.get("lock") or UNKNOWN for entry in records],
        "error": [(entry.get("result") or {}).get("error") or UNKNOWN for entry in records],
    }


def _table() -> Table:
    return Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="cyan")


def _console() -> Console:
    """As wide as the table where nobody looks: a pipe gets whole rows."""
    return Console() if sys.stdout.isatty() else Console(width=200)


def _number(value: float | None) -> str:
    return UNKNOWN if value is None else number(value)


def _setting(value: Any) -> str:
    return UNKNOWN if value is None else str(value)
