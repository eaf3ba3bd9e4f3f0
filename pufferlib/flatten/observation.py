"""Samples of a structured space into flat rows."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from gymnasium.spaces import Box, Dict, Space, Tuple
from numpy.typing import NDArray

from pufferlib.flatten.leaves import Leaf, Visitor, leaves_of, parts_of, struct_of, visitor
from pufferlib.native.rows import row_writer
from pufferlib.spaces import dtype_bounds, is_composite, row_layout


class ObservationPlan:
    """How samples of `space` become rows.

    Args:
        space: any nesting of Dict and Tuple over Box, Discrete, MultiDiscrete and MultiBinary.
        name: what the space is called in messages.

    Attributes:
        dtype: the sample as a numpy dtype: the leaf's own, or an aligned struct with one field
            per key (`str(key)`) or position (`f0, f1, …`).
        row_space: the flat space of a row. A flat `space` is itself its row space. A composite
            whose leaves share one dtype becomes a Box of that dtype, `(number of elements,)`;
            any other becomes the struct's bytes, a uint8 Box.
        is_emulated: whether `row_space` differs from `space`.

    Raises:
        SpaceError: a leaf has no fixed size or is not numeric; names its path.
    """

    def __init__(self, space: Space[Any], name: str = "observation") -> None:
        self.space = space
        self.name = name
        self.dtype = struct_of(space, name)
        self.leaves = list(leaves_of(space, self.dtype, name))
        self.is_emulated = is_composite(space)
        self.row_space = self._row_space() if self.is_emulated else space
        self._narrowed: set[str] = set()
        checkers = {leaf.path: self._checker(leaf) for leaf in self.leaves}
        self._check = visitor(space, name, checkers)

    def _row_space(self) -> Box:
        dtypes = {leaf.dtype for leaf in self.leaves}
        if len(dtypes) != 1:
            return Box(0, 255, (self.dtype.itemsize,), np.uint8)
        bounds = [dtype_bounds(leaf.space) for leaf in self.leaves]
        lows, highs = (np.concatenate([np.ravel(b[i]) for b in bounds]) for i in (0, 1))
        return Box(lows, highs, dtype=dtypes.pop().type)

    def writer(self, row: NDArray[Any]) -> Visitor:
        """A function that writes samples into `row`, one contiguous row of `row_space`.

        It raises SpaceError when a sample's keys, shape, dtype or range do not fit.
        """
        fields = {leaf.path: _field(leaf, row) for leaf in self.leaves}
        writers = {leaf.path: _leaf_writer(leaf, fields[leaf.path]) for leaf in self.leaves}
        parts = {
            leaf.path: (_shared(leaf.dtype), fields[leaf.path], writers[leaf.path])
            for leaf in self.leaves
        }
        write = visitor(self.space, self.name, writers)
        return row_writer(parts_of(self.space, parts), write)

    def check(self, sample: Any) -> None:
        """Raise unless `sample` fits keys, shapes, dtypes and bounds of the space.

        Warns once for each leaf whose values are rounded to the space's dtype.

        Raises:
            SpaceError: names the leaf, what was expected and what was got.
        """
        self._check(sample)

    def _checker(self, leaf: Leaf) -> Visitor:
        def check(value: Any) -> None:
            leaf.check(value)
            if leaf.name not in self._narrowed and leaf.narrows(value):
                self._narrowed.add(leaf.name)
                warnings.warn(
                    f"{leaf.name}: the space says {leaf.dtype}, the environment gives "
                    f"{value.dtype}; values are rounded to the space's dtype",
                    stacklevel=2,
                )

        return check

    def encode(self, sample: Any) -> NDArray[Any]:
        """`sample` as a new row."""
        shape, dtype = row_layout(self.row_space)
        row = np.zeros(shape, dtype)
        self.writer(row)(sample)
        return row

    def decode(self, row: NDArray[Any]) -> Any:
        """The sample in `row`: arrays in dicts and tuples as the space nests them."""
        if not self.is_emulated:
            return np.array(row)
        values = {leaf.path: np.array(_field(leaf, row)) for leaf in self.leaves}
        return _rebuild(self.space, values)

    def __reduce__(self) -> tuple[type, tuple[Any, ...]]:
        return type(self), (self.space, self.name)


def _field(leaf: Leaf, row: NDArray[Any]) -> NDArray[Any]:
    """The part of `row` that holds `leaf`, as a view."""
    if 0 in leaf.shape:
        return np.zeros(leaf.shape, leaf.dtype)
    return np.ndarray(leaf.shape, leaf.dtype, buffer=row, offset=leaf.offset)


def _shared(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The object that all arrays of a dtype have, but those that were unpickled, is known by."""
    shared = np.dtype(dtype.char)
    return shared if shared == dtype else dtype


def _leaf_writer(leaf: Leaf, field: NDArray[Any]) -> Visitor:
    if leaf.shape == ():
        return _scalar_writer(leaf, field)
    dtype, shape, convert = leaf.dtype, leaf.shape, leaf.convert
    rounds = dtype.kind == "f"

    def write(value: Any) -> None:
        # The same dtype loses nothing, and floats only round; all else goes the careful way.
        fits = type(value) is np.ndarray and value.shape == shape
        if fits and (value.dtype == dtype or (rounds and value.dtype.kind == "f")):
            field[...] = value
        else:
            field[...] = convert(value)

    return _vector_writer(field, write) if len(shape) == 1 else write


def _vector_writer(field: NDArray[Any], otherwise: Visitor) -> Visitor:
    """A writer of one dimension; what has another shape or dtype is written `otherwise`."""
    # A memoryview takes just what has its own shape and format, and tells faster than we could.
    view, everything = memoryview(field), slice(None)  # type: ignore[arg-type]

    def write(value: Any) -> None:
        try:
            view[everything] = value
        except (TypeError, ValueError):
            otherwise(value)

    return write


def _scalar_writer(leaf: Leaf, field: NDArray[Any]) -> Visitor:
    dtype, convert = leaf.dtype, leaf.convert
    # Stored as they are: numbers of the leaf's dtype, and Python's own where NumPy checks the
    # range (integers, bools) or there is nothing to round (float64).
    python = {"b": bool, "i": int, "u": int}.get(dtype.kind, float if dtype == np.float64 else None)
    direct = (dtype.type, python)

    def write(value: Any) -> None:
        try:
            field[()] = value if type(value) in direct else convert(value)
        except OverflowError:  # a Python integer beyond the dtype: refuse it by name
            field[()] = convert(value)

    return write


def _rebuild(space: Space[Any], values: dict[tuple[Any, ...], Any], path: tuple[Any, ...] = ()):  # type: ignore[no-untyped-def]
    if isinstance(space, Dict):
        return {key: _rebuild(s, values, (*path, key)) for key, s in space.spaces.items()}
    if isinstance(space, Tuple):
        return tuple(_rebuild(s, values, (*path, i)) for i, s in enumerate(space.spaces))
    return values[path]
