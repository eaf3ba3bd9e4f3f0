"""The curves of runs: what `metrics.jsonl` holds, and how curves are smoothed and put together."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pufferlib.exceptions import ConfigError
from pufferlib.trainer.options import did_you_mean

METRICS_FILE = "metrics.jsonl"
_TAIL = 4096
"""Bytes from the end that are looked at first for the last point; a line has about a thousand."""

Point = dict[str, Any]
Array = NDArray[np.float64]


@dataclass(frozen=True)
class Points:
    """The points of a run in order of their steps, and how many lines could not be read."""

    points: list[Point]
    damaged: int = 0


@dataclass(frozen=True)
class Band:
    """Several curves on one grid: their mean and how far they reach; all `(n,)`."""

    x: Array
    mean: Array
    low: Array
    high: Array


def read_points(path: Path) -> Points:
    """What a run has logged; nothing where the file is missing.

    A resumed run goes back to its checkpoint: what was logged from there on before is left out.
    Lines that are no points (torn by a crash, or damaged) are counted and left out.
    """
    points: list[Point] = []
    damaged = 0
    for line in _lines(path):
        point = _point(line)
        if point is None:
            damaged += 1
            continue
        while points and points[-1]["step"] >= point["step"]:
            points.pop()
        points.append(point)
    return Points(points, damaged)


def last_point(path: Path) -> Point | None:
    """The last point that can be read, None if there is none; takes little time for a long file."""
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            length = _TAIL
            while True:
                file.seek(max(0, size - length))
                lines = file.read().split(b"\n")
                whole = lines if length >= size else lines[1:]
                for line in reversed(whole):
                    if (point := _point(line)) is not None:
                        return point
                if length >= size:
                    return None
                length *= 8
    except OSError:
        return None


def metric_key(name: str, points: Iterable[Point]) -> str:
    """The key of the points that `name` means: all of it, or what comes after its last slash.

    Raises:
        ConfigError: there is none, or there are several; the message has the nearest or all.
    """
    keys = sorted({key for point in points for key in point})
    if name in keys:
        return name
    found = [key for key in keys if key.rpartition("/")[2] == name]
    if len(found) == 1:
        return found[0]
    if found:
        raise ConfigError(f"--metric: '{name}' may be {' or '.join(found)}; say which")
    raise ConfigError(f"--metric: no run has logged '{name}'{did_you_mean(name, keys)}")


def curve(points: Iterable[Point], x: str, key: str) -> tuple[Array, Array]:
    """The numbers logged as `x` and as `key`, `(n,)` each; points without one are left out."""
    pairs = [(point[x], point[key]) for point in points if point.get(key) is not None]
    values = np.array(pairs, np.float64).reshape(-1, 2)
    return values[:, 0], values[:, 1]


def smooth(values: Array, weight: float) -> Array:
    """The exponential moving average `(n,)`, each value having `weight` times that of the next.

    y_t = Σ_{k≤t} weight^(t-k) x_k / Σ_{k≤t} weight^(t-k), so that the first values are not drawn to
    zero. `weight` 0 changes nothing.
    """
    smoothed = np.empty_like(values)
    total = weights = 0.0
    for index, value in enumerate(values):
        total, weights = weight * total + value, weight * weights + 1.0
        smoothed[index] = total / weights
    return smoothed


def band(curves: Sequence[tuple[Array, Array]], size: int = 200) -> Band:
    """Several curves with increasing x, put together where all of them are known.

    A single one stays as it is; several are interpolated linearly at `size` places.

    Raises:
        ConfigError: they have no x in common.
    """
    if len(curves) == 1:
        x, y = curves[0]
        return Band(x, y, y, y)
    start, end = max(x[0] for x, _ in curves), min(x[-1] for x, _ in curves)
    if start > end:
        raise ConfigError(
            f"runs of one group have no x in common: one begins at {start:,.0f}, another ends at "
            f"{end:,.0f}; leave one of them out"
        )
    grid = np.linspace(start, end, size)
    values = np.stack([np.interp(grid, x, y) for x, y in curves])
    return Band(grid, values.mean(0), values.min(0), values.max(0))


def _lines(path: Path) -> list[bytes]:
    try:
        content = path.read_bytes()
    except OSError:
        return []
    return [line for line in content.split(b"\n") if line.strip()]


def _point(line: bytes) -> Point | None:
    try:
        point = json.loads(line)
    except ValueError:  # of JSON or of UTF-8
        return None
    if not isinstance(point, dict):
        return None
    for key in ("step", "seconds"):
        if not isinstance(point.get(key), (int, float)):
            return None
    return point
