"""How fast a setting is: short runs in slices, until that is known well enough."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from pufferlib.vector.tuning.settings import Setting

# Two-sided 95 % quantiles of Student's t distribution for 1, 2, 3 … degrees of freedom.
T95 = (12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31)
MIN_SLICES = 3
MAX_SLICES = len(T95) + 1
# A rate that is known to so much of itself needs no more slices.
PRECISION = 0.03


@dataclass(frozen=True)
class Slice:
    """What happened in a short stretch of time: `rows` of agents, seconds, the policy's part."""

    rows: int
    seconds: float
    policy_seconds: float


Trial = Callable[[float], Slice]
"""Runs one setting for so many seconds."""


@dataclass(frozen=True)
class Measurement:
    """How fast a setting is.

    Attributes:
        setting: what was measured.
        slices: of equal length, in order.
        is_cut: it was clearly slower than the best so far, so that measuring ended early.
    """

    setting: Setting
    slices: tuple[Slice, ...]
    is_cut: bool = False

    @property
    def rate(self) -> float:
        """Agent steps per second."""
        return sum(s.rows for s in self.slices) / sum(s.seconds for s in self.slices)

    @property
    def margin(self) -> float:
        """Half the width of the 95 % interval of the rate, from how the slices differ."""
        if len(self.slices) < 2:
            return math.inf
        deviation = float(np.std([s.rows / s.seconds for s in self.slices], ddof=1))
        quantile = T95[min(len(self.slices) - 2, len(T95) - 1)]
        return quantile * deviation / math.sqrt(len(self.slices))

    @property
    def low(self) -> float:
        """The lower end of the interval."""
        return self.rate - self.margin

    @property
    def high(self) -> float:
        """The upper end of the interval."""
        return self.rate + self.margin

    @property
    def policy_share(self) -> float:
        """Share of the time in which the policy thinks, 0 to 1."""
        return sum(s.policy_seconds for s in self.slices) / sum(s.seconds for s in self.slices)


def measure(
    setting: Setting, run: Trial, seconds: float, to_beat: float, has_time: Callable[[], bool]
) -> Measurement:
    """Slices of `seconds`, after one that does not count, until the rate is known well enough.

    Ends early when the setting is clearly slower than `to_beat` steps per second, or the time is
    up.
    """
    run(seconds)
    found = Measurement(setting, (run(seconds),))
    while len(found.slices) < MAX_SLICES and has_time():
        found = Measurement(setting, (*found.slices, run(seconds)))
        if len(found.slices) < MIN_SLICES:
            continue
        if found.high < to_beat:
            return Measurement(setting, found.slices, is_cut=True)
        if found.margin < PRECISION * found.rate:
            return found
    return found
