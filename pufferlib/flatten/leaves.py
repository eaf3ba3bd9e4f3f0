"""What structured spaces are made of: leaves with a place in a struct, and ways to visit them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from gymnasium.spaces import Dict, Space, Tuple
from numpy.typing import NDArray

from pufferlib.exceptions import SpaceError
from pufferlib.flatten.casting import cast, extent, misfit
from pufferlib.spaces import dtype_bounds, is_composite, row_layout, unsupported_reason

Visitor = Callable[[Any], None]


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
        array = cast(value, self.dtype, self.name)
        if array.shape == self.shape:
            return array
        if not array.size == 1 == math.prod(self.shape):
            raise misfit(self.name, f"shape {self.shape}", f"shape {array.shape}")
        return array.reshape(self.shape)

    def narrows(self, value: Any) -> bool:
        """Whether `value` is an array of floats that this leaf's dtype rounds."""
        if not isinstance(value, np.ndarray) or not value.dtype.kind == "f" == self.dtype.kind:
            return False
        return value.dtype.itemsize > self.dtype.itemsize

    def check(self, value: Any) -> None:
        """Raise unless `value` fits the leaf's shape, dtype and bounds.

        Raises:
            SpaceError: it does not; a NaN is out of bounds.
        """
        array = self.convert(value)
        low, high = dtype_bounds(self.space)
        if not np.all((array >= low) & (array <= high)):
            raise misfit(self.name, f"values within {self.space}", extent(array))


def children_of(space: Dict | Tuple) -> list[tuple[Any, str, Space[Any]]]:
    """(key, field name, space) of each child in the space's own order."""
    if isinstance(space, Dict):
        return [(key, str(key), child) for key, child in space.spaces.items()]
    return [(i, f"f{i}", child) for i, child in enumerate(space.spaces)]


def struct_of(space: Space[Any], name: str) -> np.dtype[Any]:
    """The aligned numpy dtype of one sample; a flat space's is `(dtype, shape)`.

    Raises:
        SpaceError: a leaf has no fixed size or is not numeric, or two keys are equal as text.
    """
    if not is_composite(space):
        reason = unsupported_reason(space)
        if reason is not None:
            raise SpaceError(f"{name}: {reason}")
        shape, dtype = row_layout(space)
        return np.dtype((dtype, shape))
    children = children_of(space)  # type: ignore[arg-type]
    names = [field for _, field, _ in children]
    if len(set(names)) != len(names):
        raise SpaceError(f"{name}: expected keys that differ as text, got {names}; rename them")
    fields = [(field, struct_of(child, f"{name}[{key!r}]")) for key, field, child in children]
    return np.dtype(fields, align=True)


def leaves_of(
    space: Space[Any], dtype: np.dtype[Any], name: str, path: tuple[Any, ...] = (), offset: int = 0
) -> Iterator[Leaf]:
    """The leaves of `space` in its own order, at their places in the struct `dtype`."""
    if not is_composite(space):
        shape, base = row_layout(space)
        yield Leaf(path, name, space, shape, base, offset)
        return
    for key, field, child in children_of(space):  # type: ignore[arg-type]
        child_dtype, child_offset = dtype.fields[field][:2]  # type: ignore[index]
        yield from leaves_of(
            child, child_dtype, f"{name}[{key!r}]", (*path, key), offset + child_offset
        )


def visitor(
    space: Space[Any],
    name: str,
    visitors: dict[tuple[Any, ...], Visitor],
    path: tuple[Any, ...] = (),
) -> Visitor:
    """A function that hands each leaf of a sample of `space` to the visitor of its path.

    It pairs by name, whatever the order of a dict, and refuses missing and extra keys.
    """
    if not is_composite(space):
        return visitors[path]
    children = [
        (key, visitor(child, f"{name}[{key!r}]", visitors, (*path, key)))
        for key, _, child in children_of(space)  # type: ignore[arg-type]
    ]
    count = len(children)

    def visit(sample: Any) -> None:
        try:
            fits = len(sample) == count
        except TypeError:
            fits = False
        if not fits:
            raise _key_error(name, space, sample)
        for key, visit_child in children:
            try:
                value = sample[key]
            except (KeyError, IndexError, TypeError):
                raise _key_error(name, space, sample) from None
            visit_child(value)

    return visit


def parts_of(
    space: Space[Any], parts: Mapping[tuple[Any, ...], Any], path: tuple[Any, ...] = ()
) -> Any:
    """The parts of the leaves, nested as `pufferlib.native.rows.row_writer` takes them."""
    if not is_composite(space):
        return parts[path]
    children = children_of(space)  # type: ignore[arg-type]
    nested = [parts_of(child, parts, (*path, key)) for key, _, child in children]
    return [key for key, _, _ in children], nested


def _key_error(name: str, space: Any, sample: Any) -> SpaceError:
    expected = [key for key, _, _ in children_of(space)]
    try:
        keys = list(sample) if isinstance(sample, Mapping) else list(range(len(sample)))
    except TypeError:
        return SpaceError(f"{name}: expected keys {expected}, got {type(sample).__name__}")
    missing = [key for key in expected if key not in keys]
    extra = [key for key in keys if key not in expected]
    return SpaceError(f"{name}: expected keys {expected}, got missing {missing} and extra {extra}")


def lookup(sample: Any, path: tuple[Any, ...]) -> Any:
    """The part of `sample` at `path`."""
    for key in path:
        sample = sample[key]
    return sample
