"""Means over the episodes that ended while a batch was collected."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from pufferlib.postprocess import as_number, has_many_episodes, unroll
from pufferlib.trainer.distributed import Group


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


def pool(own: Statistics, group: Group) -> Statistics:
    """The means over the episodes of all processes; what is no number stays this process's."""
    if group.size == 1:
        return own
    sums: dict[str, float] = {}
    counts: dict[str, int] = {}
    for means, episodes in group.gather((dict(own), own.counts)):
        for key, mean in means.items():
            sums[key] = sums.get(key, 0.0) + mean * episodes[key]
            counts[key] = counts.get(key, 0) + episodes[key]
    return Statistics({key: sums[key] / counts[key] for key in sums}, counts, own.other)


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

    def add(self, infos: Iterable[dict[Any, Any]]) -> None:
        """Take in the infos of one step; nested keys are joined by '/'."""
        for info in infos:
            if has_many_episodes(info):
                self._add_episodes(info)
                continue
            for single in self._split_agents(info):
                for key, value in unroll(single):
                    self._add_value(key, value)

    def statistics(self) -> Statistics:
        """The means over everything added since the last `clear`."""
        means = {key: total / self._counts[key] for key, total in self._sums.items()}
        return Statistics(means, self._counts, self._other)

    def _split_agents(self, info: dict[Any, Any]) -> Iterator[dict[Any, Any]]:
        rest = {}
        for key, value in info.items():
            if key in self._agents and isinstance(value, dict):
                yield value
            else:
                rest[key] = value
        yield rest

    def _add_episodes(self, info: Mapping[str, Any]) -> None:
        for key, values in info.items():
            self._sums[key] = self._sums.get(key, 0.0) + float(values.sum(dtype=np.float64))
            self._counts[key] = self._counts.get(key, 0) + len(values)

    def _add_value(self, key: str, value: Any) -> None:
        number = as_number(value)
        if number is None:
            self._other[key] = value
        else:
            self._sums[key] = self._sums.get(key, 0.0) + number
            self._counts[key] = self._counts.get(key, 0) + 1
