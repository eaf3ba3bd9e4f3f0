"""The random numbers of the first-party environments: SplitMix64.

One 64-bit integer is the whole state, so that an environment written in another language can
continue the very same stream, and a state can be saved as a number.

Source: Steele, Lea and Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014.
"""

from __future__ import annotations

from statistics import NormalDist

_MASK = 0xFFFF_FFFF_FFFF_FFFF
_NORMAL = NormalDist()


class SplitMix64:
    """A stream of unsigned 64-bit integers from a seed; equal seeds give equal streams."""

    __slots__ = ("state",)

    def __init__(self, seed: int) -> None:
        self.state = seed & _MASK

    def next(self) -> int:
        """The next number, uniform over 0 to 2⁶⁴ - 1."""
        self.state = z = (self.state + 0x9E37_79B9_7F4A_7C15) & _MASK
        z = ((z ^ (z >> 30)) * 0xBF58_476D_1CE4_E5B9) & _MASK
        z = ((z ^ (z >> 27)) * 0x94D0_49BB_1331_11EB) & _MASK
        return z ^ (z >> 31)

    def below(self, n: int) -> int:
        """An integer of 0 to n - 1, for n up to 2³²: the high 32 bits times n, over 2³².

        No value is favoured by more than n / 2³².
        """
        return ((self.next() >> 32) * n) >> 32

    def normal(self) -> float:
        """A number of the standard normal distribution: its quantile at a uniform number.

        One call of `next`, of which the high 52 bits count. Source of the quantile: Wichura,
        "Algorithm AS 241", Applied Statistics 37, 1988, as in Python's `statistics`.
        """
        return _NORMAL.inv_cdf(((self.next() >> 12) + 0.5) / 2**52)

    def sample(self, items: list[int], k: int) -> list[int]:
        """Draw k different entries of `items` without replacement; reorders `items`.

        A partial Fisher-Yates shuffle: k calls of `below`.
        """
        for i in range(k):
            j = i + self.below(len(items) - i)
            items[i], items[j] = items[j], items[i]
        return items[:k]
