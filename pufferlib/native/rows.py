"""Compiled shortcuts of emulation: the ordinary case of functions that are written in Python.

What is not ordinary, refusals included, goes to these functions, so the core changes no result.
Without the core they do everything, and beside a stale one, which may expect other arguments.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pufferlib import native

_core = native._core if native.state() == "fresh" else None


def row_writer(parts: tuple[Any, ...], otherwise: Callable[[Any], None]) -> Callable[[Any], None]:
    """A function that writes samples as `otherwise` does, faster where they fit.

    Args:
        parts: of the space. A leaf is `(dtype, field, otherwise)`: an array of `dtype` and of the
            shape of the array `field` is copied there, and the leaf's own function `otherwise`
            takes any other value. A Dict or Tuple is `(list of keys, list of parts)`.
        otherwise: takes samples that are no plain dicts and tuples, or have other keys.
    """
    return otherwise if _core is None else _core.RowWriter(parts, otherwise).write


def row_step(**parts: Any) -> Any:
    """A `RowStep`, whose `step(actions)` steps a Gymnasium environment; None without the core.

    It also resets the environment after its last step. It is used while `ready` is set, for what
    returns what it should.

    Args:
        parts: `env_reset`, `env_step`, `act` (gives the action in the row `actions`, or None where
            that is the row's one int64), `write` (an observation), `check` (called when that was
            written and will be acted upon, or None), `step_anew` (a whole step in Python),
            `take_first` and `take` (what follows `env_reset` and `env_step`, given their results),
            `actions`, `last_reward` (a list of one), and buffers of one element: `reward`
            (float32), `terminal`, `truncation` and `ended` (bool).
    """
    return None if _core is None else _core.RowStep(**parts)
