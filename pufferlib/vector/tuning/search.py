"""The search for the fastest setting: what is tried, in which order, and when it ends."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

from pufferlib.exceptions import APIUsageError
from pufferlib.vector.shared import available_memory
from pufferlib.vector.sizes import CGROUP, available_cores
from pufferlib.vector.tuning.bench import Bench, Policy
from pufferlib.vector.tuning.profile import Profile
from pufferlib.vector.tuning.rates import Measurement, Trial, measure
from pufferlib.vector.tuning.result import Tuning, creator_text
from pufferlib.vector.tuning.settings import Limits, Setting

# Twice the environments must bring at least this much more, or their number is not doubled again.
WORTHWHILE = 1.05
# Of the memory that is free, what environments may take.
MEMORY_SHARE = 0.8
# Of the time, what the profile and what one slice takes.
PROFILE_SHARE, SLICE_SHARE = 0.05, 1 / 600


def find_fastest(
    env_creator: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    policy: Policy | None,
    *,
    num_envs: int | None,
    max_envs: int,
    pools: bool,
    seconds: float,
    max_bytes: float | None,
    timeout: float,
    context: Any,
) -> Tuning:
    """Profile an environment, try settings, and recommend one; see `pufferlib.vector.autotune`."""
    start = perf_counter()
    bench = Bench(functools.partial(env_creator, *args, **kwargs), policy, context, timeout)
    profile = bench.profile(min(2.0, PROFILE_SHARE * seconds))
    limits = Limits(
        cores=available_cores(),
        max_envs=max_envs,
        num_envs=num_envs,
        pools=pools,
        shares_process=profile.shares_process,
        needs=functools.partial(memory_of, profile),
        max_bytes=max_bytes or MEMORY_SHARE * available_memory(CGROUP),
    )
    search = Search(bench.open, limits, seconds, start)
    best = search.run()
    return Tuning(
        make_kwargs=best.setting.make_kwargs,
        steps_per_second=best.rate,
        profile=profile,
        measurements=search.ranked(best),
        creator=creator_text(env_creator, args, kwargs),
        notes=tuple(search.notes),
    )


def memory_of(profile: Profile, setting: Setting) -> int:
    """Bytes that a setting takes: environments, processes and rows."""
    rows = profile.step_bytes * setting.num_envs * (1 if setting.zero_copy else 2)
    processes = profile.worker_bytes * setting.num_workers
    return profile.env_bytes * setting.num_envs + processes + rows


@dataclass
class Search:
    """Climbs from few environments to many, for each number of workers and kind of batch.

    Attributes:
        open: starts a setting.
        limits: what may be tried.
        seconds: how long all of it may take.
        start: when it began, by `clock`.
        clock: seconds.
        found: what was measured of each setting.
        notes: what limits the answer.
    """

    open: Callable[[Setting], AbstractContextManager[Trial]]
    limits: Limits
    seconds: float
    start: float
    clock: Callable[[], float] = perf_counter
    found: dict[Setting, Measurement] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    _longest: float = 0.0
    _untried: list[Setting] = field(default_factory=list)
    _too_big: list[Setting] = field(default_factory=list)

    def run(self) -> Measurement:
        """The recommended setting.

        Raises:
            APIUsageError: no setting fits into the limits.
        """
        for num_workers, mode in self._ways():
            self._climb(num_workers, mode)
        if not self.found:
            raise APIUsageError(
                f"no way to run num_envs={self.limits.num_envs or 1} fits into "
                f"{self.limits.max_bytes:,.0f} bytes of memory; raise max_bytes or use a machine "
                "that has more"
            )
        best = self._decide()
        self._explain()
        return best

    def ranked(self, best: Measurement) -> tuple[Measurement, ...]:
        """All measurements, `best` first and the others by speed."""
        others = [found for found in self.found.values() if found.setting != best.setting]
        return (best, *sorted(others, key=lambda found: -found.rate))

    def _ways(self) -> Iterator[tuple[int, str]]:
        """Numbers of workers and kinds of batches, those first that are often the best.

        Fewer workers come up only as long as they may be faster than more.
        """
        counts = self.limits.worker_counts()
        first = [(count, "all") for count in counts[:1]] + [(0, "all")]
        yield from first
        for count in counts:
            yield from (way for m in self.limits.modes(count) if (way := (count, m)) not in first)
            here = [m.high for s, m in self.found.items() if s.num_workers == count]
            more = [m.low for s, m in self.found.items() if s.num_workers > count]
            if here and more and max(here) < max(more):
                return

    def _climb(self, num_workers: int, mode: str) -> None:
        """Double the environments as long as it is worthwhile, allowed, and there is time."""
        best, idle = 0.0, 0
        for setting in self.limits.ladder(num_workers, mode):
            if not self.limits.fits(setting):
                self._too_big.append(setting)
                return
            if self.found and self.clock() + self._longest > self._search_end():
                self._untried.append(setting)
                return
            best_low = max((found.low for found in self.found.values()), default=0.0)
            found = self._measure(setting, best_low, self._search_end())
            # A neighbour that takes the machine for a moment must not end the climb.
            idle = idle + 1 if found.high < WORTHWHILE * best else 0
            best = max(best, found.rate)
            if idle == 2:
                return

    def _measure(self, setting: Setting, to_beat: float, end: float) -> Measurement:
        begun, slice_seconds = self.clock(), SLICE_SHARE * self.seconds
        with self.open(setting) as trial:
            found = measure(setting, trial, slice_seconds, to_beat, lambda: self.clock() < end)
        self._longest = max(self._longest, self.clock() - begun)
        if setting in self.found:
            found = Measurement(setting, (*self.found[setting].slices, *found.slices))
        self.found[setting] = found
        return found

    def _decide(self) -> Measurement:
        """Measure the best two once more, at another time than the first."""
        finalists = sorted(self.found.values(), key=lambda found: -found.rate)[:2]
        if len(finalists) == 1:
            return finalists[0]
        end = self.start + self.seconds
        if self.clock() + 2 * self._longest <= end:
            finalists = [self._measure(found.setting, 0.0, end) for found in finalists]
        else:
            self.notes.append("There was no time to measure the best two once more.")
        best, second = sorted(finalists, key=lambda found: -found.rate)
        if second.high < best.low:
            return best
        self.notes.append("The best two cannot be told apart: the simpler one is recommended.")
        return min(finalists, key=lambda found: found.setting.simplicity)

    def _explain(self) -> None:
        """Note what was not tried, and why."""
        limits = self.limits
        if limits.num_envs and limits.cores > 1 and not limits.worker_counts():
            self.notes.append(
                f"num_envs={limits.num_envs} cannot be spread evenly over 2 to {limits.cores} "
                "workers: only Serial was tried."
            )
        if self._too_big:
            self.notes.append(
                f"Not tried, as they need more than {limits.max_bytes / 1e9:.3g} GB of memory: "
                f"{_list(self._too_big)}."
            )
        if self._untried:
            self.notes.append(
                f"Not tried, as the {self.seconds:g} s were over: {_list(self._untried)}. "
                "Give it more seconds."
            )

    def _search_end(self) -> float:
        """When no more is tried, as measuring the best two once more takes the rest."""
        return self.start + self.seconds - 2 * self._longest


def _list(settings: list[Setting]) -> str:
    """The first few of where ladders ended, in words."""
    ends = []
    for setting in settings[:3]:
        who = f"{setting.num_workers} workers" if setting.num_workers else "Serial"
        pool = f" in batches of {setting.batch_size}" if setting.is_pool else ""
        ends.append(f"{who}{pool} from {setting.num_envs} environments on")
    others = len(settings) - len(ends)
    return "; ".join(ends) + (f"; and {others} others" if others else "")
