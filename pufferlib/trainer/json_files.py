"""JSON files: written whole or not at all, read whatever has become of them."""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from pufferlib.exceptions import ConfigError

OF_A_RUN = "free some space or choose another train.data_dir"
"""What to do when a file of a run cannot be written."""


def read_json(path: Path) -> dict[str, Any] | None:
    """The object in a JSON file; None where the file is missing, damaged, or has something else."""
    try:
        content = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return None
    return content if isinstance(content, dict) else None


def write_json(path: Path, values: Mapping[str, Any], remedy: str = OF_A_RUN) -> None:
    """Write an object to a JSON file, whose directory is made if it is missing.

    Args:
        path: the file.
        values: what JSON does not know in them is written as text.
        remedy: the end of the error message.

    Raises:
        ConfigError: it cannot be written; an older file is untouched.
    """
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary.write_text(json.dumps(values, indent=2, default=str) + "\n", encoding="utf-8")
        temporary.replace(path)
    except OSError as error:
        raise ConfigError(f"cannot write {path}: {error.strerror}; {remedy}") from error
    finally:
        with suppress(OSError):  # it has been renamed, or what is in its way is no file
            temporary.unlink()
