"""How environments are spread over workers and batches, and which numbers go together."""

from __future__ import annotations

import math
import os
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from pufferlib.exceptions import APIUsageError

CGROUP = Path("/sys/fs/cgroup")


@dataclass(frozen=True)
class Sizes:
    """Numbers that fit each other.

    `num_envs` is a multiple of `num_workers`, `batch_size` a multiple of `envs_per_worker`.
    """

    num_envs: int
    num_workers: int
    batch_size: int

    @property
    def envs_per_worker(self) -> int:
        """Environments in each process."""
        return self.num_envs // self.num_workers

    @property
    def workers_per_batch(self) -> int:
        """Processes whose environments make one batch."""
        return self.batch_size // self.envs_per_worker

    def team_size(self, zero_copy: bool) -> int:
        """Neighbouring workers that are commanded as one: a batch's, or 1 if any may fill it."""
        is_gathered = not zero_copy and self.workers_per_batch not in (1, self.num_workers)
        return 1 if is_gathered else self.workers_per_batch

    def name_worker(self, worker: int) -> str:
        """A worker and its environments, for messages."""
        first, last = worker * self.envs_per_worker, (worker + 1) * self.envs_per_worker - 1
        envs = f"environment {first}" if first == last else f"environments {first} to {last}"
        return f"worker {worker} ({envs})"

    @classmethod
    def serial(cls, num_envs: int, batch_size: int | None) -> Self:
        """One process that hands out `num_envs / batch_size` batches in turn.

        Raises:
            APIUsageError: the numbers do not go together; names the nearest that do.
        """
        sizes = cls(num_envs, 1, num_envs if batch_size is None else batch_size)
        sizes._check_batch()
        sizes._check_blocks("a Serial pool")
        return sizes

    @classmethod
    def parallel(
        cls,
        num_envs: int,
        num_workers: int | str | None,
        batch_size: int | None,
        zero_copy: bool,
        cores: int | None = None,
        one_each: bool = False,
    ) -> Self:
        """`num_workers` processes; None and 'auto' choose the most that have a core each.

        Args:
            cores: those that workers may use; None: of this process.
            one_each: no process may have two environments.

        Raises:
            APIUsageError: the numbers do not go together; names the nearest that do.
        """
        if one_each:
            workers = _one_each(num_envs, num_workers)
        else:
            cores = available_cores() if cores is None else cores
            workers = _resolve_workers(num_envs, num_workers, batch_size, cores)
        if num_envs % workers:
            raise APIUsageError(
                f"num_envs={num_envs} must be a multiple of num_workers={workers}; the nearest "
                f"num_workers are {_nearest(workers, _divisors(num_envs))}"
            )
        sizes = cls(num_envs, workers, num_envs if batch_size is None else batch_size)
        sizes._check_batch()
        if sizes.batch_size % sizes.envs_per_worker:
            multiples = range(sizes.envs_per_worker, num_envs + 1, sizes.envs_per_worker)
            raise APIUsageError(
                f"batch_size={sizes.batch_size} must be a multiple of the "
                f"{sizes.envs_per_worker} environments of each worker; the nearest batch sizes are "
                f"{_nearest(sizes.batch_size, multiples)}"
            )
        if zero_copy:
            sizes._check_blocks("zero_copy=True")
        return sizes

    def _check_batch(self) -> None:
        size = self.batch_size
        if not isinstance(size, int) or not 1 <= size <= self.num_envs:
            raise APIUsageError(
                f"batch_size: expected an int from 1 to num_envs={self.num_envs}, got {size!r}"
            )

    def _check_blocks(self, who: str) -> None:
        if self.num_envs % self.batch_size:
            raise APIUsageError(
                f"{who} needs num_envs={self.num_envs} to be a multiple of "
                f"batch_size={self.batch_size}; the nearest batch sizes are "
                f"{_nearest(self.batch_size, _divisors(self.num_envs))}"
            )


def _one_each(num_envs: int, num_workers: int | str | None) -> int:
    """As many workers as environments, however few cores there are."""
    if num_workers not in (None, "auto", num_envs):
        raise APIUsageError(
            f"num_workers: expected {num_envs}, one for each of num_envs={num_envs}, as the "
            f"environments' creators demand one per process, got {num_workers!r}; leave "
            "num_workers out"
        )
    return num_envs


def _resolve_workers(
    num_envs: int, num_workers: int | str | None, batch_size: int | None, cores: int
) -> int:
    if num_workers is None or num_workers == "auto":
        fitting = [
            n
            for n in _divisors(num_envs)
            if n <= cores and (batch_size is None or batch_size % (num_envs // n) == 0)
        ]
        if fitting:
            return max(fitting)
        return num_envs // math.gcd(num_envs, batch_size or num_envs)
    if not isinstance(num_workers, int) or not 1 <= num_workers <= num_envs:
        raise APIUsageError(
            f"num_workers: expected 'auto' or an int from 1 to num_envs={num_envs}, got "
            f"{num_workers!r}"
        )
    if num_workers > cores:
        warnings.warn(
            f"num_workers={num_workers} is more than the {cores} cores they may use; it "
            "works, but num_workers='auto' is likely faster",
            stacklevel=5,
        )
    return num_workers


def available_cores() -> int:
    """Cores this process may use: the affinity mask, cut by the cgroup's CPU quota."""
    if hasattr(os, "sched_getaffinity"):
        cores = len(os.sched_getaffinity(0))
    else:
        cores = os.cpu_count() or 1
    quota = cgroup_quota(CGROUP)
    return max(1, min(cores, math.floor(quota))) if quota else cores


def cgroup_quota(root: Path) -> float | None:
    """CPUs' worth of time that cgroup v2 or v1 allows, or None without a limit."""
    try:
        quota, period = (root / "cpu.max").read_text().split()
        return None if quota == "max" else int(quota) / int(period)
    except (OSError, ValueError):
        pass
    try:
        quota_us = int((root / "cpu/cpu.cfs_quota_us").read_text())
        period_us = int((root / "cpu/cpu.cfs_period_us").read_text())
    except (OSError, ValueError):
        return None
    return quota_us / period_us if quota_us > 0 else None


def _divisors(n: int) -> list[int]:
    return [d for d in range(1, n + 1) if n % d == 0]


def _nearest(value: int, legal: list[int] | range) -> str:
    below = [n for n in legal if n <= value]
    above = [n for n in legal if n >= value]
    return " and ".join(str(n) for n in dict.fromkeys(below[-1:] + above[:1]))
