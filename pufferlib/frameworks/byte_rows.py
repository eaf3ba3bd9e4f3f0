"""Rows that only policies which unpack them can read, so that no other learns from their bytes."""

from __future__ import annotations

from typing import Any, NoReturn

from gymnasium.spaces import Box
from gymnasium.spaces.utils import flatdim

from pufferlib.exceptions import APIUsageError
from pufferlib.pytorch import NativeLeaf, nativize_dtype

__all__ = ["ByteRows", "guard"]


class ByteRows(Box):
    """The space of rows that hold the bytes of numbers of several kinds.

    To Gymnasium and learning libraries it is the same Box, but has no features: a network that
    asks how many there are would take each byte for a number, and learn next to nothing.
    """


@flatdim.register(ByteRows)
def _refuse(space: ByteRows) -> NoReturn:
    raise APIUsageError(
        f"policy: expected one that unpacks structured observations, whose rows of {space.shape} "
        "bytes are no features; write it with pufferlib.pytorch.nativize_tensor and pass it as "
        "policy_kwargs={'policy': policy} to pufferlib.frameworks.sb3.Policy"
    )


def guard(space: Any, emulated: Any) -> Any:
    """`space` of one row, as `ByteRows` where `emulated` says that it holds bytes of others."""
    if not _has_other_dtypes(nativize_dtype(emulated)):
        return space
    return ByteRows(space.low, space.high, space.shape, space.dtype.type)


def _has_other_dtypes(native: Any) -> bool:
    if isinstance(native, NativeLeaf):
        return native.dtype != native.row_dtype
    return native is not None and any(map(_has_other_dtypes, native.values()))
