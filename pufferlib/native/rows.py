"""Compiled shortcuts of emulation: the ordinary case of functions that are written in Python.

What is not ordinary, refusals included, goes to these functions, so the core changes no result.
Without the core, or with one that is older than its sources, they do everything.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pufferlib import native


def row_writer(parts: tuple[Any, ...], otherwise: Callable[[Any], None]) -> Callable[[Any], None]:
    """A function that writes samples as `otherwise` does, faster where they fit.

    Args:
        parts: of the space. A leaf is `(dtype, field, otherwise)`: an array of `dtype` and of the
            shape of the array `field` is copied there, and the leaf's own function `otherwise`
            takes any other value. A Dict or Tuple is `(list of keys, list of parts)`.
        otherwise: takes samples that are no plain dicts and tuples, or have other keys.
    """
    writer = getattr(native._core, "RowWriter", None)
    return otherwise if writer is None else writer(parts, otherwise).write


def row_step(**parts: Any) -> Any:
    """A `RowStep`, whose `step(actions)` steps a Gymnasium environment; None without the core.

    It is used from when `ready` is set, for steps in the middle of an episode that return what
    they should.

    Args:
        parts: `env_step`, `act` (gives the action in the row `actions`), `write` (an
            observation), `actions`, `rewards` (float32), `last_reward` (a list of one),
            `check` (called after writing, or None), `step_anew` (a whole step in Python) and
            `take` (what follows `env_step`, given its result).
    """
    step = getattr(native._core, "RowStep", None)
    return None if step is None else step(**parts)
