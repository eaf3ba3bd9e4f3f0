"""Whatever a caller passes as actions, as an array that can be copied into the rows."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pufferlib.exceptions import SpaceError
from pufferlib.flatten.casting import as_array, cast_actions


def as_rows(
    actions: Any, shape: tuple[int, ...], dtype: np.dtype[Any], masks: NDArray[np.bool_]
) -> NDArray[Any]:
    """`actions` as an array of `shape`, whose values fit `dtype` in the rows that `masks` names.

    Raises:
        SpaceError: the number of rows or of values in a row is another, or a value does not fit.
    """
    array = as_array(actions)
    if array.shape != shape:
        # Only the rank within a row may differ: rows of another number would be mixed up.
        if array.shape[:1] != shape[:1] or array.size != np.prod(shape):
            raise SpaceError(
                f"actions: expected shape {shape}, one row per agent of the last batch, got "
                f"{array.shape}"
            )
        array = array.reshape(shape)
    if array.dtype != dtype or array.dtype.kind == "f":
        # What absent agents do is dropped, so their rows may hold anything.
        cast_actions(array[masks], dtype, "actions")
    return array
