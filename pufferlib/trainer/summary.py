"""One run at a glance, from what lies in its directory; nothing here loads torch."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pufferlib.exceptions import ConfigError
from pufferlib.trainer import record
from pufferlib.trainer.curves import METRICS_FILE, last_point
from pufferlib.trainer.json_files import read_json
from pufferlib.trainer.options import did_you_mean
from pufferlib.trainer.runs import CONFIG_FILE, checkpoint_dir

SILENT_SECONDS = 600.0
"""A run of another machine that has logged nothing for so long is taken for crashed."""


@dataclass(frozen=True, kw_only=True)
class RunSummary:
    """One run. None stands for what is not known: not written yet, damaged, or of an older version.

    Attributes:
        directory: of the run; its name is the name of the run.
        env: name of the environment.
        state: 'running', 'finished', 'interrupted', 'crashed', or 'unknown' without a record.
        started: when it was begun or resumed, ISO 8601 in UTC.
        steps: agent steps of the last logged point.
        score: mean of `score_key` over the last episodes there.
        seconds: that the run has been trained for.
        commit: git revision of the directory that it was started in, with `+` for local changes.
        checkpoint: path of the newest checkpoint.
        metrics: the last logged point.
        config: everything that decides the run.
    """

    directory: Path
    env: str | None
    state: str
    started: str | None
    steps: int | None
    score_key: str | None
    score: float | None
    seconds: float | None
    commit: str | None
    checkpoint: Path | None
    metrics: Mapping[str, Any]
    config: Mapping[str, Any] | None

    @property
    def name(self) -> str:
        """The name of the run."""
        return self.directory.name

    @property
    def steps_per_second(self) -> float | None:
        """Over the whole run."""
        return self.steps / self.seconds if self.steps and self.seconds else None


def summarize(run_dir: Path) -> RunSummary:
    """What is known of a run."""
    written = record.read(run_dir) or {}
    config = read_json(run_dir / CONFIG_FILE)
    metrics = last_point(run_dir / METRICS_FILE) or {}
    known = config or {}
    score_key = written.get("score_key") or known.get("score_key")
    checkpoints = sorted(checkpoint_dir(run_dir).glob("[0-9]*.pt"))
    return RunSummary(
        directory=run_dir,
        env=written.get("env_name") or known.get("env_name"),
        state=_state(run_dir, written),
        started=written.get("started"),
        steps=metrics.get("step"),
        score_key=score_key,
        score=metrics.get(f"episodes/{score_key}"),
        seconds=metrics.get("seconds"),
        commit=commit_of(written.get("git")),
        checkpoint=checkpoints[-1] if checkpoints else None,
        metrics=metrics,
        config=config,
    )


def find_runs(data_dir: Path) -> list[Path]:
    """The directories of runs in `data_dir`, oldest first."""
    found = [path for path in data_dir.glob("*") if is_run(path)]
    return sorted(found, key=lambda path: (path.name.rpartition("-")[0].rpartition("-")[2], path))


def is_run(path: Path) -> bool:
    """Whether this is the directory of a run, however damaged."""
    names = (CONFIG_FILE, record.RECORD_FILE, METRICS_FILE, checkpoint_dir(path).name)
    return path.is_dir() and any((path / name).exists() for name in names)


def runs_called(references: Iterable[str], data_dir: Path) -> list[Path]:
    """The directories of the runs that a user means.

    Args:
        references: directories or names of runs; or names of environments, for all their runs.
        data_dir: directory that holds the runs.

    Raises:
        ConfigError: there is none; the message has the nearest names.
    """
    found: dict[Path, None] = {}
    everything = find_runs(data_dir)
    envs = {path: summarize(path).env for path in everything}
    for reference in references:
        paths = [path for path in (Path(reference), data_dir / reference) if is_run(path)][:1]
        paths = paths or [path for path in everything if envs[path] == reference]
        if not paths:
            names = [path.name for path in everything] + [env for env in envs.values() if env]
            hint = did_you_mean(reference, names) if names else f"; {data_dir} holds no runs"
            raise ConfigError(f"no run and no environment with runs called '{reference}'{hint}")
        found |= dict.fromkeys(paths)
    return list(found)


def commit_of(git: Any) -> str | None:
    """A recorded revision in short: `1a2b3c4d`, with `+` where files differed from it."""
    if not isinstance(git, Mapping) or not git.get("commit"):
        return None
    return f"{git['commit'][:8]}{'+' if git.get('dirty') else ''}"


def _state(run_dir: Path, written: Mapping[str, Any]) -> str:
    state = written.get("state", "unknown")
    if state != "running":
        return state
    running = record.is_running(written)
    if running is None:
        running = _silence(run_dir) < SILENT_SECONDS
    return "running" if running else "crashed"


def _silence(run_dir: Path) -> float:
    """Seconds since a run has written anything."""
    files = [run_dir / METRICS_FILE, run_dir / record.RECORD_FILE]
    return time.time() - max(file.stat().st_mtime for file in files if file.exists())
