"""The directories of runs: their names, and which checkpoint a user means."""

from __future__ import annotations

import re
import secrets
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pufferlib.exceptions import CheckpointError, ConfigError
from pufferlib.trainer.json_files import write_json
from pufferlib.trainer.options import did_you_mean

CONFIG_FILE = "config.json"
LATEST = "latest.pt"
"""Another name of a run's newest checkpoint."""


def checkpoint_dir(run_dir: Path) -> Path:
    """Where a run keeps its checkpoints."""
    return run_dir / "checkpoints"


def new_run_dir(data_dir: str | Path, env_name: str) -> Path:
    """Make `data_dir/<env>-<utc YYYYmmddTHHMMSS>-<4 hex digits>` and return it.

    Raises:
        ConfigError: it cannot be made.
    """
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%S")
    path = Path(data_dir) / f"{slug(env_name)}-{stamp}-{secrets.token_hex(2)}"
    try:
        path.mkdir(parents=True)
    except OSError as error:
        raise ConfigError(
            f"train.data_dir: cannot make {path}: {error.strerror}; choose another directory"
        ) from error
    return path


def write_config(run_dir: Path, values: dict[str, Any]) -> None:
    """Write the configuration of a run beside its checkpoints.

    Raises:
        ConfigError: it cannot be written.
    """
    write_json(run_dir / CONFIG_FILE, values)


def find_checkpoint(reference: str, env_name: str, data_dir: str | Path) -> Path:
    """The checkpoint file that a user means.

    Args:
        reference: a file, the directory or the name of a run (its last checkpoint), or 'latest':
            the last checkpoint of this environment in any run.
        env_name: canonical name of the environment, for 'latest'.
        data_dir: directory that holds the runs.

    Raises:
        CheckpointError: there is none; the message has the nearest names.
    """
    path, data_dir = Path(reference), Path(data_dir)
    if reference == "latest":
        return _latest(env_name, data_dir)
    if path.is_file():
        return path
    for run_dir in (path, data_dir / reference):
        if (checkpoint_dir(run_dir) / LATEST).is_file():
            return checkpoint_dir(run_dir) / LATEST
    if (data_dir / reference).is_dir():
        raise CheckpointError(f"the run {data_dir / reference} has no checkpoint yet")
    names = [run.name for run in data_dir.glob("*") if run.is_dir()]
    hint = did_you_mean(reference, names) if names else f"; {data_dir} holds no runs"
    raise CheckpointError(f"no file and no run called '{reference}'{hint}")


def run_dir_of(checkpoint: Path) -> Path | None:
    """The run that a checkpoint lies in, None for a file that was moved elsewhere."""
    run_dir = checkpoint.absolute().parent.parent
    return run_dir if checkpoint_dir(run_dir) == checkpoint.absolute().parent else None


def _latest(env_name: str, data_dir: Path) -> Path:
    name = re.compile(rf"{re.escape(slug(env_name))}-\d{{8}}T\d{{6}}-[0-9a-f]{{4}}")
    files = [checkpoint_dir(run) / LATEST for run in data_dir.glob("*") if name.fullmatch(run.name)]
    found = [file for file in files if file.is_file()]
    if not found:
        raise CheckpointError(
            f"no checkpoint of {env_name} in {data_dir.absolute()}; make one with: puffer train "
            f"{env_name}, or name the directory of the runs (--data-dir DIR, in training "
            "--train.data-dir DIR)"
        )
    return max(found, key=lambda file: (file.stat().st_mtime_ns, file))


def slug(env_name: str) -> str:
    """The name of an environment as part of a file's name."""
    return re.sub("[/:]", "-", env_name)
