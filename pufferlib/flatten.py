"""Structured spaces to flat rows and back, by plans that are compiled once per space.

`ObservationPlan` lays the leaves of a space out as the fields of an aligned struct and writes
samples into rows; `ActionPlan` turns rows of numbers into the actions an environment expects.
Neither looks at the space again while stepping.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Space, Tuple
from numpy.typing import NDArray

from pufferlib.exceptions import SpaceError
from pufferlib.spaces import Mixed, dtype_bounds, is_composite, row_layout, unsupported_reason

Writer = Callable[[Any], None]


@dataclass(frozen=True, eq=False)
class Leaf:
    """One flat space inside a structured one.

    Attributes:
        path: keys and positions that lead to it from the root, empty for the root itself.
        name: the path as a reader would write it, for example `observation['inventory'][0]`.
        space: the leaf's own space.
        shape, dtype: of its values.
        offset: of its first byte within a row.
    """

    path: tuple[Any, ...]
    name: str
    space: Space[Any]
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    offset: int

    def convert(self, value: Any) -> NDArray[Any]:
        """`value` as an array of this leaf's shape and dtype, never wrapped round.

        Raises:
            SpaceError: it has another shape, is not numeric, or does not fit the dtype.
        """
        array = np.asarray(value)
        if array.dtype == object or array.dtype.kind not in "biuf":
            raise self.error(f"numbers of dtype {self.dtype}", f"{type(value).__name__} {value!r}")
        if array.shape != self.shape:
            if not array.size == 1 == math.prod(self.shape):
                raise self.error(f"shape {self.shape}", f"shape {array.shape}")
            array = array.reshape(self.shape)
        if array.dtype == self.dtype:
            return array
        if self.dtype.kind in "iu":
            return self._to_integers(array)
        if self.dtype.kind == "b":
            return self._to_bools(array)
        self._warn_if_narrowed(value, array)
        try:
            with np.errstate(over="raise"):
                return array.astype(self.dtype)
        except FloatingPointError:
            raise self.error(f"values within {self.dtype}", _extent(array)) from None

    def _to_integers(self, array: NDArray[Any]) -> NDArray[Any]:
        if array.dtype.kind == "f" and not np.array_equal(array, np.rint(array)):
            raise self.error(f"integers of dtype {self.dtype}", f"{array.dtype} {array!r}")
        info = np.iinfo(self.dtype)
        if array.size and (int(array.min()) < info.min or int(array.max()) > info.max):
            raise self.error(f"values within {self.dtype}", _extent(array))
        return array.astype(self.dtype)

    def _to_bools(self, array: NDArray[Any]) -> NDArray[Any]:
        result = array.astype(bool)
        if not np.array_equal(result, array):
            raise self.error("bools, 0 or 1", _extent(array))
        return result

    def _warn_if_narrowed(self, value: Any, array: NDArray[Any]) -> None:
        narrowed = array.dtype.kind == "f" and array.dtype.itemsize > self.dtype.itemsize
        if narrowed and isinstance(value, np.ndarray):
            warnings.warn(
                f"{self.name}: the space says {self.dtype}, the environment gives {array.dtype}; "
                "values are rounded to the space's dtype",
                stacklevel=4,
            )

    def check_bounds(self, array: NDArray[Any]) -> None:
        """Raise unless every element lies within the space.

        Raises:
            SpaceError: an element is out of bounds or NaN.
        """
        low, high = dtype_bounds(self.space)
        if not np.all((array >= low) & (array <= high)):
            raise self.error(f"values within {self.space}", _extent(array))

    def error(self, expected: str, got: str) -> SpaceError:
        """The error for a value that does not fit."""
        return SpaceError(f"{self.name}: expected {expected}, got {got}")


def _extent(array: NDArray[Any]) -> str:
    return f"{array.dtype} of shape {array.shape} from {array.min()} to {array.max()}"


def _children(space: Dict | Tuple) -> list[tuple[Any, str, Space[Any]]]:
    """(key, field name, space) of each child in the space's own order."""
    if isinstance(space, Dict):
        return [(key, str(key), child) for key, child in space.spaces.items()]
    return [(i, f"f{i}", child) for i, child in enumerate(space.spaces)]


def _struct(space: Space[Any], name: str) -> np.dtype[Any]:
    """The aligned numpy dtype of one sample; refuses what has no fixed size."""
    if not is_composite(space):
        reason = unsupported_reason(space)
        if reason is not None:
            raise SpaceError(f"{name}: {reason}; flatten or drop it in a wrapper")
        shape, dtype = row_layout(space)
        return np.dtype((dtype, shape))
    children = _children(space)  # type: ignore[arg-type]
    names = [field for _, field, _ in children]
    if len(set(names)) != len(names):
        raise SpaceError(f"{name}: expected keys that differ as text, got {names}; rename them")
    fields = [(field, _struct(child, f"{name}[{key!r}]")) for key, field, child in children]
    return np.dtype(fields, align=True)


def _leaves(
    space: Space[Any], dtype: np.dtype[Any], name: str, path: tuple[Any, ...] = (), offset: int = 0
) -> Iterator[Leaf]:
    if not is_composite(space):
        shape, base = row_layout(space)
        yield Leaf(path, name, space, shape, base, offset)
        return
    for key, field, child in _children(space):  # type: ignore[arg-type]
        child_dtype, child_offset = dtype.fields[field][:2]  # type: ignore[index]
        yield from _leaves(
            child, child_dtype, f"{name}[{key!r}]", (*path, key), offset + child_offset
        )


def _containers(space: Space[Any], path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Paths of the composite spaces below and including `space`, outermost first."""
    if is_composite(space):
        yield path
        for key, _, child in _children(space):  # type: ignore[arg-type]
            yield from _containers(child, (*path, key))


def _lookup(sample: Any, path: tuple[Any, ...]) -> Any:
    for key in path:
        sample = sample[key]
    return sample


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
        self.dtype = _struct(space, name)
        self.leaves = list(_leaves(space, self.dtype, name))
        self.is_emulated = is_composite(space)
        self.row_space = self._row_space() if self.is_emulated else space
        self._sizes = [(path, len(_at(space, path))) for path in _containers(space)]

    def _row_space(self) -> Box:
        dtypes = {leaf.dtype for leaf in self.leaves}
        if len(dtypes) != 1:
            return Box(0, 255, (self.dtype.itemsize,), np.uint8)
        bounds = [dtype_bounds(leaf.space) for leaf in self.leaves]
        lows, highs = (np.concatenate([np.ravel(b[i]) for b in bounds]) for i in (0, 1))
        return Box(lows, highs, dtype=dtypes.pop().type)

    def writer(self, row: NDArray[Any]) -> Writer:
        """A function that writes samples into `row`, one contiguous row of `row_space`.

        It raises SpaceError when a sample's keys, shape, dtype or range do not fit.
        """
        if not self.is_emulated:
            return _leaf_writer(self.leaves[0], row)
        leaves = [(leaf, _field(leaf, row)) for leaf in self.leaves]
        if all(len(leaf.path) == 1 for leaf in self.leaves):
            return self._shallow_writer(leaves)
        return self._deep_writer(leaves)

    def _shallow_writer(self, leaves: list[tuple[Leaf, NDArray[Any]]]) -> Writer:
        """The common case: one level of keys."""
        fields = [(leaf.path[0], field, leaf.dtype, field.shape, leaf) for leaf, field in leaves]
        count = len(fields)

        def write(sample: Any) -> None:
            if len(sample) != count:
                raise self._key_error(sample)
            for key, field, dtype, shape, leaf in fields:
                try:
                    value = sample[key]
                except (KeyError, IndexError):
                    raise self._key_error(sample) from None
                if type(value) is np.ndarray and value.dtype == dtype and value.shape == shape:
                    field[...] = value
                else:
                    field[...] = leaf.convert(value)

        return write

    def _deep_writer(self, leaves: list[tuple[Leaf, NDArray[Any]]]) -> Writer:
        fields = [(leaf.path, _leaf_writer(leaf, field)) for leaf, field in leaves]
        sizes = self._sizes

        def write(sample: Any) -> None:
            try:
                for path, size in sizes:
                    if len(_lookup(sample, path)) != size:
                        raise self._key_error(sample)
                values = [_lookup(sample, path) for path, _ in fields]
            except (KeyError, IndexError, TypeError):
                raise self._key_error(sample) from None
            for (_, write_leaf), value in zip(fields, values, strict=True):
                write_leaf(value)

        return write

    def check(self, sample: Any) -> None:
        """Raise unless `sample` fits keys, shapes, dtypes and bounds of the space.

        Raises:
            SpaceError: names the leaf, what was expected and what was got.
        """
        for leaf in self.leaves:
            try:
                value = _lookup(sample, leaf.path)
            except (KeyError, IndexError, TypeError):
                raise self._key_error(sample) from None
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # the writer has said so already
                leaf.check_bounds(leaf.convert(value))

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

    def _key_error(self, sample: Any) -> SpaceError:
        for path in _containers(self.space):
            name = self.name + "".join(f"[{key!r}]" for key in path)
            expected = [key for key, _, _ in _children(_at(self.space, path))]
            try:
                got = _lookup(sample, path)
                keys = list(got) if isinstance(got, dict) else list(range(len(got)))
            except (KeyError, IndexError, TypeError):
                return SpaceError(f"{name}: expected keys {expected}, got nothing there")
            missing = [key for key in expected if key not in keys]
            extra = [key for key in keys if key not in expected]
            if missing or extra:
                return SpaceError(
                    f"{name}: expected keys {expected}, got missing {missing} and extra {extra}"
                )
        return SpaceError(f"{self.name}: expected {self.space}, got {type(sample).__name__}")

    def __reduce__(self) -> tuple[type, tuple[Any, ...]]:
        return type(self), (self.space, self.name)


def _at(space: Space[Any], path: tuple[Any, ...]) -> Any:
    for key in path:
        space = space[key]  # type: ignore[index]
    return space


def _field(leaf: Leaf, row: NDArray[Any]) -> NDArray[Any]:
    """The part of `row` that holds `leaf`, as a view."""
    if 0 in leaf.shape:
        return np.zeros(leaf.shape, leaf.dtype)
    return np.ndarray(leaf.shape, leaf.dtype, buffer=row, offset=leaf.offset)  # type: ignore[arg-type]


def _leaf_writer(leaf: Leaf, field: NDArray[Any]) -> Writer:
    dtype, shape, convert = leaf.dtype, leaf.shape, leaf.convert

    def write(value: Any) -> None:
        # Same dtype and shape cannot lose anything; all else goes the careful way.
        if type(value) is np.ndarray and value.dtype == dtype and value.shape == shape:
            field[...] = value
        else:
            field[...] = convert(value)

    return write


def _rebuild(space: Space[Any], values: dict[tuple[Any, ...], Any], path: tuple[Any, ...] = ()):  # type: ignore[no-untyped-def]
    if isinstance(space, Dict):
        return {key: _rebuild(s, values, (*path, key)) for key, s in space.spaces.items()}
    if isinstance(space, Tuple):
        return tuple(_rebuild(s, values, (*path, i)) for i, s in enumerate(space.spaces))
    return values[path]


class ActionPlan:
    """How rows of numbers become actions of `space`.

    Outside, actions count from 0 and are flat. Discrete leaves become a MultiDiscrete, in the
    space's order; continuous ones a single Box; both together a `Mixed` row, the discrete leaves
    first. A plain Discrete, flat MultiDiscrete (from 0) or Box is its own row space.

    Attributes:
        dtype: the action as a numpy dtype, as in `ObservationPlan`.
        row_space: the flat space of a row.
        is_emulated: whether `row_space` differs from `space`.
        decode: function from one row to an action: Python ints for Discrete leaves, arrays of the
            leaf's shape and dtype for the rest.

    Raises:
        SpaceError: a leaf has no fixed size or is not numeric; names its path.
    """

    def __init__(self, space: Space[Any], name: str = "action") -> None:
        self.space = space
        self.name = name
        self.dtype = _struct(space, name)
        leaves = list(_leaves(space, self.dtype, name))
        discrete = [leaf for leaf in leaves if not isinstance(leaf.space, Box)]
        continuous = [leaf for leaf in leaves if isinstance(leaf.space, Box)]
        self.leaves = discrete + continuous
        self.row_space = self._row_space(discrete, continuous)
        self.is_emulated = self.row_space is not space
        self._columns = self._assign_columns()
        self._low, self._high = dtype_bounds(self.row_space)
        self.decode: Callable[[NDArray[Any]], Any] = self._compile()

    def _row_space(self, discrete: list[Leaf], continuous: list[Leaf]) -> Space[Any]:
        nvec = [int(n) for leaf in discrete for n in _choices(leaf.space)]
        if continuous and not discrete:
            return self._continuous_space(continuous)
        if continuous:
            low, high = _joint_bounds(continuous)
            return Mixed(nvec, low, high)
        if isinstance(self.space, Discrete):
            zero_based = self.space.start == 0
            return self.space if zero_based else Discrete(self.space.n, dtype=self.space.dtype)
        if isinstance(self.space, MultiDiscrete) and self.space.nvec.ndim == 1:
            if not self.space.start.any():
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

    def check(self, row: NDArray[Any]) -> None:
        """Raise unless every column of `row` lies within its bounds.

        Raises:
            SpaceError: names the leaf, the bounds and the value.
        """
        good = (row >= self._low) & (row <= self._high)
        if isinstance(self.row_space, Mixed):
            k = len(self.row_space.nvec)
            good[:k] &= row[:k] == np.rint(row[:k])
        if np.all(good):
            return
        bad = int(np.flatnonzero(~np.ravel(good))[0])
        leaf = next(leaf for leaf, _, stop in self._columns if bad < stop)
        low, high, got = (np.ravel(a)[bad] for a in (self._low, self._high, row))
        raise SpaceError(f"{leaf.name}: expected a value from {low} to {high}, got {got}")

    def encode(self, action: Any) -> NDArray[Any]:
        """`action` as a new row: the inverse of `decode`."""
        shape, dtype = row_layout(self.row_space)
        row = np.zeros(math.prod(shape), dtype)
        for leaf, start, stop in self._columns:
            value = np.asarray(_lookup(action, leaf.path))
            row[start:stop] = np.ravel(value - _start(leaf.space))
        return row.reshape(shape)

    def _compile(self) -> Callable[[NDArray[Any]], Any]:
        """One generated expression per space: no loop and no look-up while stepping."""
        context: dict[str, Any] = {"np": np}
        exact = not isinstance(self.row_space, Box)
        expressions = {
            leaf.path: _decode_expression(f"_{i}", leaf, start, stop, exact, context)
            for i, (leaf, start, stop) in enumerate(self._columns)
        }
        body = _literal(self.space, expressions, context)
        if isinstance(self.row_space, Discrete):
            source = f"lambda row: {body}"
        else:
            values = "row.tolist()" if exact else "row.ravel()"
            source = f"lambda row: (lambda r: {body})({values})"
        return eval(source, context)  # noqa: S307 - text written here, from numbers only

    def __reduce__(self) -> tuple[type, tuple[Any, ...]]:
        return type(self), (self.space, self.name)


def _choices(space: Space[Any]) -> NDArray[Any]:
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
    name: str, leaf: Leaf, start: int, stop: int, exact: bool, context: dict[str, Any]
) -> str:
    """Python text that takes one leaf out of `r`: a scalar, a list (`exact`) or a flat array."""
    if isinstance(leaf.space, Discrete):
        value = "row.item()" if leaf.path == () else f"r[{start}]" if exact else f"int(r[{start}])"
        return f"{value} + {int(leaf.space.start)}" if leaf.space.start else value
    context[f"{name}d"], context[f"{name}s"] = leaf.dtype, leaf.shape
    part = f"r[{start}:{stop}]"
    if isinstance(leaf.space, Box) and leaf.dtype.kind in "iu":
        context[f"{name}b"] = tuple(np.ravel(bound) for bound in dtype_bounds(leaf.space))
        return f"np.clip(np.rint({part}), *{name}b).astype({name}d).reshape({name}s)"
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
    for key, _, child in _children(space):  # type: ignore[arg-type]
        part = _literal(child, expressions, context, (*path, key))
        if isinstance(space, Dict):
            name = f"k{len(context)}"
            context[name] = key
            part = f"{name}: {part}"
        parts.append(part + ", ")
    brackets = "{}" if isinstance(space, Dict) else "()"
    return brackets[0] + "".join(parts) + brackets[1]
