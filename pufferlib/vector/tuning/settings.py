"""The ways to run environments that `autotune` tries, in the order in which it tries them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Setting:
    """One way to run environments.

    Attributes:
        num_workers: processes; 0 is `Serial`.
        batch_size: environments per result; all of them unless it is a pool.
        zero_copy: as in `vector.make`.
    """

    num_envs: int
    num_workers: int
    batch_size: int
    zero_copy: bool = True

    @property
    def is_pool(self) -> bool:
        """Whether a result has fewer environments than there are."""
        return self.batch_size < self.num_envs

    @property
    def make_kwargs(self) -> dict[str, Any]:
        """The arguments of `vector.make` that differ from what it would choose itself."""
        if not self.num_workers:
            return {"backend": "serial", "num_envs": self.num_envs}
        kwargs: dict[str, Any] = {
            "backend": "multiprocessing",
            "num_envs": self.num_envs,
            "num_workers": self.num_workers,
        }
        if self.is_pool:
            kwargs["batch_size"] = self.batch_size
        if not self.zero_copy:
            kwargs["zero_copy"] = False
        return kwargs

    @property
    def simplicity(self) -> tuple[int, bool, int]:
        """Sorts what is as fast: fewer environments, no pool, fewer processes first."""
        return self.num_envs, self.is_pool, self.num_workers

    def __str__(self) -> str:
        return ", ".join(f"{name}={value!r}" for name, value in self.make_kwargs.items())


@dataclass(frozen=True)
class Limits:
    """What settings may not exceed.

    Attributes:
        cores: processes that have a core each.
        max_envs: most environments.
        num_envs: the only number of environments, or None for any.
        pools: whether batches may be smaller than the pool.
        shares_process: whether several environments can live in one process.
        needs: bytes of memory that a setting takes.
        max_bytes: most of those.
    """

    cores: int
    max_envs: int
    num_envs: int | None
    pools: bool
    shares_process: bool
    needs: Callable[[Setting], float]
    max_bytes: float

    def fits(self, setting: Setting) -> bool:
        """Whether there is memory for it."""
        return self.needs(setting) <= self.max_bytes

    def ladder(self, num_workers: int, mode: str) -> Iterator[Setting]:
        """Settings with 1, 2, 4 … environments in each process, or the one with `num_envs`."""
        processes = max(num_workers, 1)
        each = 1 if self.num_envs is None else self.num_envs // processes
        while processes * each <= (self.num_envs or self.max_envs):
            setting = _MODES[mode](num_workers, each)
            if each > 1 and not self.shares_process:
                return
            yield setting
            if self.num_envs is not None:
                return
            each *= 2

    def worker_counts(self) -> list[int]:
        """As many processes as there are cores, half of them, a quarter …, at least two."""
        if self.num_envs and not self.shares_process:
            return [self.num_envs]  # more than there are cores, if need be
        counts = [self.cores >> halvings for halvings in range(self.cores.bit_length())]
        if self.num_envs is not None:
            counts = [_largest_divisor(self.num_envs, count) for count in counts]
        return [count for count in dict.fromkeys(counts) if count >= 2]

    def modes(self, num_workers: int) -> list[str]:
        """The kinds of batches that `num_workers` processes can make."""
        if not self.pools or num_workers < 2:
            return ["all"]
        modes = ["all", "one"]
        if num_workers >= 4:
            modes += ["gathered half"] + ["half"] * (num_workers % 2 == 0)
        return modes


_MODES: dict[str, Callable[[int, int], Setting]] = {
    "all": lambda w, each: Setting(max(w, 1) * each, w, max(w, 1) * each),
    # A batch is what one process has: with two of them, one steps while the policy thinks.
    "one": lambda w, each: Setting(w * each, w, each),
    "half": lambda w, each: Setting(w * each, w, w // 2 * each),
    "gathered half": lambda w, each: Setting(w * each, w, w // 2 * each, zero_copy=False),
}


def _largest_divisor(number: int, at_most: int) -> int:
    return max(n for n in range(1, at_most + 1) if number % n == 0)
