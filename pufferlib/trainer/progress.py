"""How a run is going: speed, recent episodes, and scores at its start and its end."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pufferlib.trainer.monitor import Usage

SPEED_WINDOW = 10.0
"""Seconds over which the shown speed is averaged."""
EPISODE_WINDOW = 100
"""Episodes over which the shown statistics are averaged, where an update brings fewer."""
FEW_EPISODES = 20
"""A score over fewer episodes than this is widened to more of the run."""


@dataclass(frozen=True, kw_only=True)
class Snapshot:
    """Everything a dashboard shows of one moment."""

    title: str
    run: str
    score_key: str
    steps: int
    total_steps: int
    updates: int
    elapsed: float
    time_left: float | None
    fraction: float
    steps_per_second: float
    parameters: int
    timings: Mapping[str, float] = field(default_factory=dict)
    losses: Mapping[str, float] = field(default_factory=dict)
    episodes: int = 0
    stats: Mapping[str, float] = field(default_factory=dict)
    counts: Mapping[str, int] = field(default_factory=dict)
    usage: Usage | None = None


@dataclass(frozen=True)
class Score:
    """The mean of a statistic over a number of episodes; no mean when there were none."""

    mean: float | None
    episodes: int


class EpisodeWindow:
    """Means over the updates that hold the last `size` episodes or more."""

    def __init__(self, size: int = EPISODE_WINDOW) -> None:
        self._size = size
        self._updates: deque[tuple[int, Mapping[str, float], Mapping[str, int]]] = deque()
        self.episodes = 0

    def add(self, means: Mapping[str, float], counts: Mapping[str, int]) -> None:
        """Take in the statistics of one update: their means, and over how many episodes."""
        episodes = max(counts.values(), default=0)
        if episodes == 0:
            return
        self._updates.append((episodes, means, counts))
        self.episodes += episodes
        while self.episodes - self._updates[0][0] >= self._size:
            self.episodes -= self._updates.popleft()[0]

    def means(self) -> dict[str, float]:
        """The mean of each statistic over the episodes that report it."""
        return {name: total / count for name, (total, count) in self._sums().items()}

    def counts(self) -> dict[str, int]:
        """How many episodes report each statistic."""
        return {name: count for name, (_, count) in self._sums().items()}

    def _sums(self) -> dict[str, tuple[float, int]]:
        sums: dict[str, tuple[float, int]] = {}
        for _, means, counts in self._updates:
            for name, value in means.items():
                total, count = sums.get(name, (0.0, 0))
                sums[name] = total + value * counts[name], count + counts[name]
        return sums


class ScoreHistory:
    """A statistic over the whole run, to compare its first part with its last."""

    def __init__(self) -> None:
        self._records: list[tuple[int, float, int]] = []

    def add(self, step: int, mean: float, episodes: int) -> None:
        """Record the mean over `episodes` that ended in the update up to agent step `step`."""
        if episodes:
            self._records.append((step, mean, episodes))

    def start(self) -> Score:
        """Over the first tenth of the steps, or more if that has too few episodes."""
        return self._mean_of(self._records)

    def end(self) -> Score:
        """Over the last tenth of the steps, or more if that has too few episodes."""
        return self._mean_of(self._records[::-1])

    def _mean_of(self, records: list[tuple[int, float, int]]) -> Score:
        """Over a tenth of the steps from the first of `records` on.

        Goes on until there are `FEW_EPISODES`, but not beyond the middle of the run.
        """
        if not records:
            return Score(None, 0)
        origin, span = records[0][0], abs(records[-1][0] - records[0][0])
        total, episodes = 0.0, 0
        for step, mean, count in records:
            part = abs(step - origin) / span if span else 0.0
            if part > (0.1 if episodes >= FEW_EPISODES else 0.5):
                break
            total, episodes = total + mean * count, episodes + count
        return Score(total / episodes, episodes)


class Speedometer:
    """Steps per second over the last `window` seconds."""

    def __init__(
        self, window: float = SPEED_WINDOW, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._window = window
        self._clock = clock
        self._marks: deque[tuple[float, int]] = deque()

    def mark(self, step: int) -> float:
        """Note that `step` is reached now; the speed since the oldest mark of the window."""
        now = self._clock()
        self._marks.append((now, step))
        while len(self._marks) > 2 and now - self._marks[1][0] >= self._window:
            self._marks.popleft()
        then, before = self._marks[0]
        return (step - before) / (now - then) if now > then else 0.0


def numbers(values: Mapping[str, Any]) -> dict[str, float]:
    """The entries that are numbers (not bools)."""
    return {
        name: value
        for name, value in values.items()
        if isinstance(value, (int, float)) and not isinstance(value, bool)
    }


def time_left(fraction: float, elapsed: float, begun: float = 0.0) -> float | None:
    """Seconds until a run is done that came from `begun` to `fraction` in `elapsed` seconds."""
    return elapsed * (1 - fraction) / (fraction - begun) if fraction > begun else None
