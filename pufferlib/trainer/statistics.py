"""Means over the episodes that ended while a batch was collected."""

from __future__ import annotations

import numbers
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

import numpy as np


class Statistics(dict[str, float]):
    """The mean of each numeric statistic, by key. A key that no episode reported is absent.

    Attributes:
        counts: how many episodes reported each key.
        other: the last value of each key that is not a number (text, lists, arrays).
    """

    def __init__(
        self,
        means: Mapping[str, float] | None = None,
        counts: Mapping[str, int] | None = None,
        other: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(means or {})
        self.counts = dict(counts or {})
        self.other = dict(other or {})


class Tally:
    """Collects infos and turns them into `Statistics`.

    Args:
        agents: names of agents; an info dict keyed by them is one info per agent.
    """

    def __init__(self, agents: Collection[Any] = ()) -> None:
        self._agents = frozenset(agents)
        self.clear()

    def clear(self) -> None:
        """Forget everything."""
        self._sums: dict[str, float] = {}
        self._counts: dict[str, int] = {}
        self._other: dict[str, Any] = {}

    def add(self, infos: Iterable[Mapping[Any, Any]]) -> None:
        """Take in the infos of one step; nested keys are joined by '/'."""
        for info in infos:
            for single in self._split_agents(info):
                for key, value in _flatten(single):
                    self._add_value(key, value)

    def statistics(self) -> Statistics:
        """The means over everything added since the last `clear`."""
        means = {key: total / self._counts[key] for key, total in self._sums.items()}
        return Statistics(means, self._counts, self._other)

    def _split_agents(self, info: Mapping[Any, Any]) -> Iterator[Mapping[Any, Any]]:
        rest = {}
        for key, value in info.items():
            if key in self._agents and isinstance(value, Mapping):
                yield value
            else:
                rest[key] = value
        yield rest

    def _add_value(self, key: str, value: Any) -> None:
        number = _as_number(value)
        if number is None:
            self._other[key] = value
        else:
            self._sums[key] = self._sums.get(key, 0.0) + number
            self._counts[key] = self._counts.get(key, 0) + 1


def _flatten(info: Mapping[Any, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in info.items():
        if isinstance(value, Mapping):
            yield from _flatten(value, f"{prefix}{key}/")
        else:
            yield f"{prefix}{key}", value


def _as_number(value: Any) -> float | None:
    """`value` as a float, if it is one real number (or an array that holds just one)."""
    if isinstance(value, np.ndarray) and value.size == 1:
        value = value.item()
    if isinstance(value, numbers.Real | np.bool_):
        return float(value)
    return None
