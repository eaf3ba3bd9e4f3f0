"""`metrics.jsonl`: the curves of a run, one JSON object a line, written by every run.

This file is what `puffer runs` and `puffer plot` read; TensorBoard, W&B and MLflow get copies. It
survives a crash (a torn last line is one lost point), takes no library of its own to be read (`jq`,
pandas), and its end is read without its beginning. TensorBoard's event files do none of the three.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pufferlib.trainer.curves import METRICS_FILE, read_points
from pufferlib.trainer.loggers.base import RunInfo, State


class MetricsFile:
    """Appends `{"step": …, "seconds": …, name: number, …}` to the run's `metrics.jsonl`.

    `seconds` is the time that the run has been trained for, over all its resumptions. What is not
    finite is written as null: JSON has no other number for it.
    """

    def open(self, run: RunInfo) -> None:
        """Go on with the time of the last point up to `run.first_step`."""
        self._path = run.directory / METRICS_FILE
        before = [
            point for point in read_points(self._path).points if point["step"] <= run.first_step
        ]
        self._torn = self._path.is_file() and not _ends_with_newline(self._path)
        self._started = time.monotonic() - (before[-1]["seconds"] if before else 0.0)

    def log(self, metrics: Mapping[str, float], step: int) -> None:
        """Append a line; an `OSError` leaves at most a torn one, which the next call ends."""
        seconds = round(time.monotonic() - self._started, 3)
        point = {"step": step, "seconds": seconds, **{k: _finite(v) for k, v in metrics.items()}}
        line = "\n" * self._torn + json.dumps(point, allow_nan=False) + "\n"
        self._torn = True
        with self._path.open("a", encoding="utf-8") as file:
            file.write(line)
        self._torn = False

    def close(self, state: State) -> None:
        """Nothing is buffered."""


def _finite(value: Any) -> Any:
    return value if math.isfinite(value) else None


def _ends_with_newline(path: Path) -> bool:
    content = path.read_bytes()
    return not content or content.endswith(b"\n")
