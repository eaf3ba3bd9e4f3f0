"""Numbers from one dtype to another: either exactly, or to the nearest, but never wrapped round."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
from gymnasium.spaces import Space
from numpy.typing import NDArray

from pufferlib.exceptions import SpaceError
from pufferlib.spaces import dtype_bounds


def as_array(value: Any) -> NDArray[Any]:
    """`value` as an array; one of no numeric dtype where its lists differ in length."""
    try:
        return np.asarray(value)
    except ValueError:
        return np.array(None)


def cast(value: Any, dtype: np.dtype[Any], name: str) -> NDArray[Any]:
    """`value` as an array of `dtype` that holds the same numbers; floats may be rounded to floats.

    Raises:
        SpaceError: it is not numeric or does not fit the dtype; calls it `name`.
    """
    array = as_array(value)
    if array.dtype.kind not in "biuf":
        raise misfit(name, f"numbers of dtype {dtype}", f"{type(value).__name__} {value!r:.200}")
    if np.can_cast(array.dtype, dtype):
        return array.astype(dtype, copy=False)
    if dtype.kind in "iu":
        return _to_integers(array, dtype, name)
    if dtype.kind == "b":
        return _to_bools(array, name)
    try:
        with np.errstate(over="raise"):
            return array.astype(dtype)
    except FloatingPointError:
        raise misfit(name, f"values within {dtype}", extent(array)) from None


def _to_integers(array: NDArray[Any], dtype: np.dtype[Any], name: str) -> NDArray[Any]:
    if array.dtype.kind == "f" and not (np.isfinite(array) & (array == np.rint(array))).all():
        raise misfit(name, f"integers of dtype {dtype}", f"{array.dtype} {array!r:.200}")
    info = np.iinfo(dtype)
    if array.size and (int(array.min()) < info.min or int(array.max()) > info.max):
        raise misfit(name, f"values within {dtype}", extent(array))
    return array.astype(dtype)


def _to_bools(array: NDArray[Any], name: str) -> NDArray[Any]:
    result = array.astype(bool)
    if not np.array_equal(result, array):
        raise misfit(name, "bools, 0 or 1", extent(array))
    return result


def cast_actions(actions: Any, dtype: np.dtype[Any], name: str) -> NDArray[Any]:
    """`actions` as rows of `dtype` hold them.

    Raises:
        SpaceError: floats for rows of integers, a number that the dtype cannot hold, a NaN or an
            infinity.
    """
    array = as_array(actions)
    if array.dtype.kind == "f" and dtype.kind != "f":
        raise misfit(name, f"dtype {dtype}", str(array.dtype))
    array = cast(array, dtype, name)
    if dtype.kind == "f" and not np.isfinite(array).all():
        bad = array[~np.isfinite(array)][0]
        raise misfit(name, "finite numbers", f"{bad} in {array.dtype} of shape {array.shape}")
    return array


def nearest(values: NDArray[Any], space: Space[Any]) -> NDArray[Any]:
    """What lies nearest to the floats `values` within the bounds of `space`, in its dtype.

    Args:
        values: `(…, *space.shape)`.
        space: a Box; of integers or bools it gets whole numbers.

    Raises:
        SpaceError: a NaN, which is near to no integer.
    """
    low, high = dtype_bounds(space)
    if not values.dtype.kind == "f" != low.dtype.kind:
        return np.clip(values, low, high).astype(low.dtype, copy=False)
    if np.isnan(values).any():
        raise misfit("actions", f"numbers to round to {low.dtype}", f"{values!r:.200}")
    whole = np.rint(values)
    least, most = _range_within(low.dtype, values.dtype)
    # Only what the dtype holds is cast, or it could wrap round; what is beyond gets the bounds.
    inside = np.clip(np.clip(whole, least, most).astype(low.dtype), low, high)
    return np.where(whole < least, low, np.where(whole > most, high, inside))


@functools.cache
def _range_within(dtype: np.dtype[Any], floats: np.dtype[Any]) -> tuple[Any, Any]:
    """The lowest and highest numbers of dtype `floats` that `dtype` holds as well."""
    info = np.iinfo(dtype) if dtype.kind in "iu" else None
    limits = (info.min, info.max) if info else (0, 1)
    return tuple(_inwards(limit, floats) for limit in limits)


def _inwards(limit: int, dtype: np.dtype[Any]) -> Any:
    """The float nearest to `limit` that is not beyond it."""
    with np.errstate(over="ignore"):  # float16 ends before the larger integers do
        value = dtype.type(limit)
    inside = np.isfinite(value) and abs(int(value)) <= abs(limit)
    return value if inside else np.nextafter(value, dtype.type(0))


def misfit(name: str, expected: str, got: str) -> SpaceError:
    """The error for a value that does not fit."""
    return SpaceError(f"{name}: expected {expected}, got {got}")


def extent(array: NDArray[Any]) -> str:
    """What an error says of an array's numbers."""
    return f"{array.dtype} of shape {array.shape} from {array.min()} to {array.max()}"
