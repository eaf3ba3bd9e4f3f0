"""The directories of runs: their names, and which checkpoint a user means."""

from __future__ import annotations

import json
import secrets
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pufferlib.exceptions import CheckpointError

CONFIG_FILE = "config.json"


def new_run_dir(data_dir: str | Path, env_name: str) -> Path:
    """Make `data_dir/<env>-<utc YYYYmmddTHHMMSS>-<4 hex digits>` and return it."""
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%S")
    path = Path(data_dir) / f"{env_name.replace('/', '-')}-{stamp}-{secrets.token_hex(2)}"
    path.mkdir(parents=True)
    return path


def write_config(run_dir: Path, values: dict[str, Any]) -> None:
    """Write the configuration of a run beside its checkpoints."""
    text = json.dumps(values, indent=2) + "\n"
    (run_dir / CONFIG_FILE).write_text(text, encoding="utf-8")


def read_config(run_dir: Path) -> dict[str, Any]:
    """The configuration of a run; `CheckpointError` when it is missing or damaged."""
    path = run_dir / CONFIG_FILE
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise CheckpointError(f"cannot read the configuration of the run, {path}: {error}") from error
