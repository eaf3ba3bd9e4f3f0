"""What pufferlib needs to know about Gymnasium spaces, beside the spaces themselves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Space, Tuple
from numpy.typing import NDArray

from pufferlib.exceptions import SpaceError

# float32 counts exactly up to here, so a discrete choice survives a trip through a Mixed row.
MAX_EXACT_FLOAT32 = 2**24

__all__ = [
    "MAX_EXACT_FLOAT32",
    "Box",
    "Dict",
    "Discrete",
    "Mixed",
    "MultiBinary",
    "MultiDiscrete",
    "Space",
    "Tuple",
    "dtype_bounds",
    "is_box",
    "is_composite",
    "is_discrete",
    "is_multidiscrete",
    "joint_space",
    "row_layout",
    "unsupported_reason",
]


class Mixed(Box):
    """One float32 row that holds discrete choices and continuous values side by side.

    Shape `(k + m,)`: the first `k = len(nvec)` columns are exact integers, column i in
    `0 … nvec[i] - 1`; the other `m` columns are continuous within `low` and `high`.

    Args:
        nvec: number of choices of each discrete column.
        low: lower bounds of the continuous columns, shape `(m,)`.
        high: upper bounds of the continuous columns, shape `(m,)`.

    Raises:
        SpaceError: a discrete column has more choices than float32 can count exactly (2^24).
    """

    def __init__(
        self,
        nvec: Sequence[int],
        low: NDArray[Any] | Sequence[float],
        high: NDArray[Any] | Sequence[float],
        seed: int | np.random.Generator | None = None,
    ) -> None:
        self.nvec: tuple[int, ...] = tuple(int(n) for n in nvec)
        if any(n > MAX_EXACT_FLOAT32 for n in self.nvec):
            raise SpaceError(
                f"expected at most {MAX_EXACT_FLOAT32} choices per discrete leaf beside continuous "
                f"ones, got {max(self.nvec)}; split the choice into several smaller ones"
            )
        k = len(self.nvec)
        with np.errstate(over="ignore"):  # bounds beyond float32 are none
            lows = np.concatenate([np.zeros(k), np.ravel(low)]).astype(np.float32)
            most = np.array(self.nvec, float) - 1
            highs = np.concatenate([most, np.ravel(high)]).astype(np.float32)
        super().__init__(lows, highs, dtype=np.float32, seed=seed)

    def sample(self, mask: None = None, probability: None = None) -> NDArray[Any]:
        """A random row `(k + m,)`: integers in the discrete columns, Box samples in the others."""
        row = super().sample()
        for column, n in enumerate(self.nvec):
            row[column] = self.np_random.integers(n)
        return row

    def contains(self, x: Any) -> bool:
        """Whether `x` lies within the bounds and its discrete columns are integers."""
        if not super().contains(x):
            return False
        choices = np.asarray(x)[: len(self.nvec)]
        return bool(np.array_equal(choices, np.rint(choices)))

    def __repr__(self) -> str:
        k = len(self.nvec)
        return f"Mixed(nvec={list(self.nvec)}, low={self.low[k:]}, high={self.high[k:]})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Mixed) and self.nvec == other.nvec and super().__eq__(other)

    __hash__ = None  # type: ignore[assignment]  # as Box: equality is by value of mutable arrays

    def __setstate__(self, state: Any) -> None:
        super().__setstate__(state)
        self.__dict__.update(dict(state))


def is_discrete(space: Space[Any]) -> bool:
    """Whether `space` is one choice."""
    return isinstance(space, Discrete)


def is_multidiscrete(space: Space[Any]) -> bool:
    """Whether `space` is several independent choices."""
    return isinstance(space, MultiDiscrete)


def is_box(space: Space[Any]) -> bool:
    """Whether `space` is an array of numbers (a `Mixed` row is not: part of it is choices)."""
    return isinstance(space, Box) and not isinstance(space, Mixed)


def is_composite(space: Space[Any]) -> bool:
    """Whether `space` holds other spaces by key or position."""
    return isinstance(space, Dict | Tuple)


def row_layout(space: Space[Any]) -> tuple[tuple[int, ...], np.dtype[Any]]:
    """Shape and dtype of one agent's row of `space`; `Discrete` gives `()`.

    Raises:
        SpaceError: the space is not flat (Box, Discrete, MultiDiscrete or MultiBinary).
    """
    if not isinstance(space, Box | Discrete | MultiDiscrete | MultiBinary):
        raise SpaceError(
            f"expected a flat space (Box, Discrete, MultiDiscrete or MultiBinary), got {space}; "
            "wrap the environment in pufferlib.emulation"
        )
    assert space.shape is not None
    assert space.dtype is not None
    return tuple(space.shape), np.dtype(space.dtype)


def joint_space(space: Space[Any], n: int) -> Space[Any]:
    """The space of `n` rows of `space`, as vectorized environments show it.

    Raises:
        SpaceError: the space is not flat.
    """
    shape, dtype = row_layout(space)
    if isinstance(space, Discrete) and space.start == 0:
        return MultiDiscrete(np.full(n, space.n, dtype=np.int64), dtype=dtype.type)
    if isinstance(space, MultiDiscrete) and not space.start.any():
        nvec = np.broadcast_to(space.nvec, (n, *shape)).copy()
        return MultiDiscrete(nvec, dtype=dtype.type)
    if isinstance(space, MultiBinary):
        return MultiBinary((n, *shape))
    low, high = dtype_bounds(space)
    tile = (n, *shape)
    return Box(
        np.broadcast_to(low, tile).copy(), np.broadcast_to(high, tile).copy(), dtype=dtype.type
    )


def dtype_bounds(space: Space[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Lowest and highest values of each element of a flat `space`, in the space's dtype."""
    shape, dtype = row_layout(space)
    if isinstance(space, Box):
        return space.low, space.high
    if isinstance(space, Discrete):
        low = np.array(space.start, dtype)
        return low, np.array(space.start + space.n - 1, dtype)
    if isinstance(space, MultiDiscrete):
        return space.start.astype(dtype), (space.start + space.nvec - 1).astype(dtype)
    return np.zeros(shape, dtype), np.ones(shape, dtype)


def unsupported_reason(space: Any) -> str | None:
    """Why a leaf cannot be emulated and what to do about it, or None if it can."""
    if isinstance(space, Discrete | MultiDiscrete | MultiBinary):
        return None
    if isinstance(space, Box):
        dtype = np.dtype(space.dtype)
        if dtype.kind in "biuf" and dtype.itemsize <= 8:
            return None
        return f"Box of dtype {dtype} is not supported; convert it in a wrapper"
    if isinstance(space, Space):
        kind = type(space).__name__
        return f"{kind} is not supported (not of fixed size or not numeric); drop it in a wrapper"
    kind = f"{type(space).__module__}.{type(space).__name__}"
    return (
        f"expected a Gymnasium space, got {kind}; if this is an environment of the old Gym API, "
        "wrap it in pufferlib.wrappers.GymToGymnasium"
    )
