"""`run.json`: where a run comes from, and how it has ended."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

import psutil

import pufferlib
from pufferlib.lock import find_root, lock_hash
from pufferlib.trainer.json_files import read_json, write_json

RECORD_FILE = "run.json"
FORMAT = 1
PACKAGES = ("torch", "numpy", "gymnasium", "pettingzoo")
"""Whose versions are recorded beside Python's and pufferlib's."""
_GIT_SECONDS = 5.0


def begin(run_dir: Path, env_name: str, score_key: str, command: Sequence[str]) -> None:
    """Write the record of a run that begins now, or that goes on now.

    What an older record of a resumed run says moves to its `earlier`, oldest first: the program may
    have changed since.

    Raises:
        ConfigError: it cannot be written.
    """
    record = {
        "format": FORMAT,
        "name": run_dir.name,
        "env_name": env_name,
        "score_key": score_key,
        "state": "running",
        "started": _now(),
        "command": list(command),
        "directory": str(Path.cwd()),
        "git": revision(Path.cwd()),
        "pufferlib": {
            "version": pufferlib.__version__,
            "git": revision(Path(pufferlib.__file__).parent),
        },
        "lock": _lock(),
        "versions": {"python": platform.python_version(), **_versions()},
        "machine": {
            "name": platform.node(),
            "system": platform.platform(),
            "cores": psutil.cpu_count(),
            "gpu": _gpu(),
        },
        "process": {"id": os.getpid(), "started": psutil.Process().create_time()},
    }
    older = read(run_dir)
    if older is not None:
        earlier = older.pop("earlier", [])
        record["earlier"] = [*earlier, older]
    write_json(run_dir / RECORD_FILE, record)


def finish(run_dir: Path, state: str, result: Mapping[str, Any]) -> None:
    """Add to the record how the run has ended, and with what.

    Raises:
        ConfigError: it cannot be written; the older record is untouched.
    """
    record = read(run_dir) or {"format": FORMAT, "name": run_dir.name}
    record |= {"state": state, "ended": _now(), "result": dict(result)}
    write_json(run_dir / RECORD_FILE, record)


def read(run_dir: Path) -> dict[str, Any] | None:
    """The record of a run, None where there is none that can be read."""
    return read_json(run_dir / RECORD_FILE)


def is_running(record: Mapping[str, Any]) -> bool | None:
    """Whether the process that wrote the record still runs; None if another machine wrote it.

    A record that is damaged has no process.
    """
    try:
        if record["machine"]["name"] != platform.node():
            return None
        process = psutil.Process(record["process"]["id"])
        return abs(process.create_time() - record["process"]["started"]) < 1.0
    except (psutil.Error, KeyError, TypeError):
        return False


def revision(directory: Path) -> dict[str, Any] | None:
    """The git commit that `directory` is at and whether tracked files differ; None without git."""
    command = ["git", "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
    try:
        output = subprocess.run(
            command, cwd=directory, capture_output=True, text=True, timeout=_GIT_SECONDS, check=True
        ).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return None
    commit, _, dirty = output.partition("-")
    return {"commit": commit, "dirty": bool(dirty)}


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def _lock() -> str | None:
    root = find_root()
    return None if root is None else lock_hash(root)


def _versions() -> dict[str, str]:
    found = {}
    for name in PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def _gpu() -> str | None:
    """The first GPU's name, in a program that uses torch already."""
    torch = sys.modules.get("torch")
    return torch.cuda.get_device_name() if torch and torch.cuda.is_available() else None
