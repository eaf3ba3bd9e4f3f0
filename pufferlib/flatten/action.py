"""Flat rows of numbers into the actions of a structured space."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Space
from numpy.typing import NDArray

from pufferlib.exceptions import SpaceError
from pufferlib.flatten.casting import nearest
from pufferlib.flatten.leaves import Leaf, children_of, leaves_of, lookup, struct_of
from pufferlib.spaces import Mixed, dtype_bounds, is_composite, row_layout


class ActionPlan:
    """How rows of numbers become actions of `space`.

    Outside, actions count from 0 and are flat. Discrete leaves become a MultiDiscrete, in the
    space's order; continuous ones a single Box; both together a `Mixed` row, the discrete leaves
    first. A plain Discrete, flat MultiDiscrete (from 0) or Box is its own row space.

    Attributes:
        dtype: the action as a numpy dtype, as in `ObservationPlan`.
        row_space: the flat space of a row.
        is_emulated: whether `row_space` differs from `space`.
        is_plain_choice: whether an action is the one int64 in its row.
        decode: function from one row to an action: Python ints for Discrete leaves, arrays of the
            leaf's shape and dtype for the rest.

    Raises:
        SpaceError: a leaf has no fixed size or is not numeric; names its path.
    """

    def __init__(self, space: Space[Any], name: str = "action") -> None:
        self.space = space
        self.name = name
        self.dtype = struct_of(space, name)
        leaves = list(leaves_of(space, self.dtype, name))
        discrete = [leaf for leaf in leaves if not isinstance(leaf.space, Box)]
        continuous = [leaf for leaf in leaves if isinstance(leaf.space, Box)]
        self.leaves = discrete + continuous
        self.row_space = self._row_space(discrete, continuous)
        self.is_emulated = self.row_space is not space
        is_choice = isinstance(space, Discrete) and not self.is_emulated
        self.is_plain_choice = is_choice and self.dtype == np.int64
        self._columns = self._assign_columns()
        self._low, self._high = dtype_bounds(self.row_space)
        self._rounded = self._find_rounded()
        self.decode: Callable[[NDArray[Any]], Any] = self._compile()

    def _row_space(self, discrete: list[Leaf], continuous: list[Leaf]) -> Space[Any]:
        nvec = [int(n) for leaf in discrete for n in options_of(leaf.space)]
        if continuous and not discrete:
            return self._continuous_space(continuous)
        if continuous:
            low, high = _joint_bounds(continuous)
            return Mixed(nvec, low, high)
        if isinstance(self.space, Discrete):
            zero_based = self.space.start == 0
            return self.space if zero_based else Discrete(self.space.n)
        plain = isinstance(self.space, MultiDiscrete) and self.space.nvec.ndim == 1
        if plain and not self.space.start.any():  # type: ignore[attr-defined]
            return self.space
        return MultiDiscrete(np.array(nvec, np.int64))

    def _continuous_space(self, continuous: list[Leaf]) -> Space[Any]:
        if not is_composite(self.space):
            return self.space
        low, high = _joint_bounds(continuous)
        dtype = np.result_type(np.float32, *(leaf.dtype for leaf in continuous))
        return Box(low.astype(dtype), high.astype(dtype), dtype=dtype.type)

    def _assign_columns(self) -> list[tuple[Leaf, int, int]]:
        columns, start = [], 0
        for leaf in self.leaves:
            stop = start + math.prod(leaf.shape)
            columns.append((leaf, start, stop))
            start = stop
        return columns

    def _find_rounded(self) -> NDArray[np.bool_]:
        """Which columns `decode` rounds: floats of the row that are whole numbers in the action."""
        rounded = np.zeros(row_layout(self.row_space)[0], bool)
        if self.is_emulated and isinstance(self.row_space, Box):
            for leaf, start, stop in self._columns:
                rounded[start:stop] = isinstance(leaf.space, Box) and leaf.dtype.kind != "f"
        return rounded

    def check(self, row: NDArray[Any]) -> None:
        """Raise unless every column of `row` is finite and, once rounded, within its bounds.

        Raises:
            SpaceError: names the leaf, the bounds and the value.
        """
        values = np.where(self._rounded, np.rint(row), row)
        good = (values >= self._low) & (values <= self._high) & np.isfinite(row)
        if isinstance(self.row_space, Mixed):
            k = len(self.row_space.nvec)
            good[:k] &= row[:k] == np.rint(row[:k])
        if np.all(good):
            return
        bad = int(np.flatnonzero(~np.ravel(good))[0])
        leaf = next(leaf for leaf, _, stop in self._columns if bad < stop)
        low, high, got = (np.ravel(a)[bad] for a in (self._low, self._high, row))
        clip = "; clip actions to the space's bounds" if isinstance(leaf.space, Box) else ""
        raise SpaceError(f"{leaf.name}: expected a value from {low} to {high}, got {got}{clip}")

    def reader(self, row: NDArray[Any]) -> Callable[[], Any]:
        """A function that returns the action which `row` then holds: `decode` of this one row."""
        if self.is_emulated:
            return functools.partial(self.decode, row)
        return row.item if isinstance(self.space, Discrete) else row.copy

    def encode(self, action: Any) -> NDArray[Any]:
        """`action` as a new row: the inverse of `decode`."""
        shape, dtype = row_layout(self.row_space)
        row = np.zeros(math.prod(shape), dtype)
        for leaf, start, stop in self._columns:
            value = np.asarray(lookup(action, leaf.path))
            row[start:stop] = np.ravel(value - _start(leaf.space))
        return row.reshape(shape)

    def _compile(self) -> Callable[[NDArray[Any]], Any]:
        """One generated expression per space: no loop and no look-up while stepping."""
        if not self.is_emulated and not isinstance(self.space, Discrete):
            return lambda row: row.copy()
        context: dict[str, Any] = {"np": np}
        expressions = {
            leaf.path: _decode_expression(f"_{i}", leaf, start, stop, self.row_space, context)
            for i, (leaf, start, stop) in enumerate(self._columns)
        }
        body = _literal(self.space, expressions, context)
        if isinstance(self.row_space, Discrete):
            source = f"lambda row: {body}"
        else:
            values = "row.ravel()" if isinstance(self.row_space, Box) else "row.tolist()"
            source = f"lambda row: (lambda r: {body})({values})"
        # Safe: the text is written here, from numbers and generated names only.
        return eval(source, context)

    def __reduce__(self) -> tuple[type, tuple[Any, ...]]:
        return type(self), (self.space, self.name)


def options_of(space: Space[Any]) -> NDArray[Any]:
    """How many options each choice of a discrete leaf has: integers `(choices,)`."""
    if isinstance(space, Discrete):
        return np.array([space.n])
    if isinstance(space, MultiDiscrete):
        return np.ravel(space.nvec)
    assert isinstance(space, MultiBinary)
    return np.full(math.prod(space.shape), 2)


def _start(space: Space[Any]) -> Any:
    return space.start if isinstance(space, Discrete | MultiDiscrete) else 0


def _joint_bounds(leaves: list[Leaf]) -> tuple[NDArray[Any], NDArray[Any]]:
    lows = np.concatenate([np.ravel(leaf.space.low) for leaf in leaves])  # type: ignore[attr-defined]
    highs = np.concatenate([np.ravel(leaf.space.high) for leaf in leaves])  # type: ignore[attr-defined]
    return lows, highs


def _decode_expression(
    name: str, leaf: Leaf, start: int, stop: int, row: Space[Any], context: dict[str, Any]
) -> str:
    """Python text that takes one leaf out of `r`, the flat array or, if exact, list of a row."""
    exact = not isinstance(row, Box)
    if isinstance(leaf.space, Discrete):
        choice = f"r[{start}]" if exact else f"round(r.item({start}))"
        value = "row.item()" if leaf.path == () else choice
        return f"{value} + {int(leaf.space.start)}" if leaf.space.start else value
    part = f"r[{start}:{stop}]"
    context[f"{name}d"], context[f"{name}s"] = leaf.dtype, leaf.shape
    if isinstance(leaf.space, Box):
        lossless = leaf.dtype.kind == "f" and np.can_cast(leaf.dtype, row_layout(row)[1])
        if not lossless:
            context["nearest"], context[f"{name}b"] = nearest, leaf.space
            return f"nearest({part}.reshape({name}s), {name}b)"
    elif not exact:
        part = f"[*map(round, {part}.tolist())]"
    array = f"np.array({part}, {name}d).reshape({name}s)"
    if isinstance(leaf.space, MultiDiscrete) and leaf.space.start.any():
        context[f"{name}a"] = leaf.space.start
        return f"{array} + {name}a"
    return array


def _literal(
    space: Space[Any],
    expressions: dict[tuple[Any, ...], str],
    context: dict[str, Any],
    path: tuple[Any, ...] = (),
) -> str:
    """Python text that nests the leaves' expressions as `space` nests the leaves."""
    if not is_composite(space):
        return expressions[path]
    parts = []
    for key, _, child in children_of(space):  # type: ignore[arg-type]
        part = _literal(child, expressions, context, (*path, key))
        if isinstance(space, Dict):
            name = f"k{len(context)}"
            context[name] = key
            part = f"{name}: {part}"
        parts.append(part + ", ")
    brackets = "{}" if isinstance(space, Dict) else "()"
    return brackets[0] + "".join(parts) + brackets[1]
