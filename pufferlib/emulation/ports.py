"""Where values pass between an environment and its user: through a flat row, or as they are."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from gymnasium.spaces import Box, Space
from gymnasium.wrappers.utils import create_zero_array
from numpy.typing import NDArray

from pufferlib.emulation.common import fill_row
from pufferlib.exceptions import SpaceError
from pufferlib.flatten import ActionPlan, ObservationPlan


@dataclass(frozen=True)
class ObservationPort:
    """One observation: the environment puts it, its user gets it.

    Attributes:
        put: take a value in.
        get: the value that was put last.
        clear: make that zero.
    """

    put: Callable[[Any], None]
    get: Callable[[], Any]
    clear: Callable[[], None]


@dataclass(frozen=True)
class ActionPort:
    """One action: the user puts it, the environment gets it.

    Attributes:
        put: take a value in.
        get: the action that was put last, or that was written to the row.
        check: raise SpaceError unless that is within its bounds.
    """

    put: Callable[[Any], None]
    get: Callable[[], Any]
    check: Callable[[], None]


class Unflattened:
    """Stands in for a plan where flattening is off; takes spaces of any kind.

    Attributes:
        row_space: a row without columns, as values pass beside the rows.
    """

    is_emulated = is_plain_choice = False
    dtype = np.dtype(object)
    row_space = Box(0, 1, (0,), np.uint8)

    def __init__(self, space: Space[Any], name: str) -> None:
        self.space = space
        self.name = name

    def check(self, value: Any) -> None:
        """Raise unless `value` is of the space.

        Raises:
            SpaceError: it is not.
        """
        if value not in self.space:
            raise SpaceError(f"{self.name}: expected a value of {self.space}, got {value!r:.200}")


class Cell:
    """Holds one value."""

    def put(self, value: Any) -> None:
        """Take it in."""
        self._value = value

    def get(self) -> Any:
        """The very object that was put last."""
        return self._value


def observation_port(plan: ObservationPlan | Unflattened, row: NDArray[Any]) -> ObservationPort:
    """A port through `row`, or beside it where flattening is off."""
    if isinstance(plan, Unflattened):
        cell, space = Cell(), plan.space
        return ObservationPort(cell.put, cell.get, lambda: cell.put(create_zero_array(space)))
    zero = functools.partial(row.fill, 0)
    return ObservationPort(plan.writer(row), functools.partial(copy_of, row), zero)


def action_port(plan: ActionPlan | Unflattened, row: NDArray[Any], name: str) -> ActionPort:
    """A port through `row`, or beside it where flattening is off; errors of `put` say `name`."""
    if isinstance(plan, Unflattened):
        cell, check = Cell(), plan.check
        return ActionPort(cell.put, cell.get, lambda: check(cell.get()))
    put = functools.partial(fill_row, row, name=name)
    return ActionPort(put, plan.reader(row), functools.partial(plan.check, row))


def copy_of(row: NDArray[Any]) -> NDArray[Any]:
    """A copy of a row as its flat space's own kind of value: a scalar for Discrete."""
    return row.copy()[()]


def outer_space(plan: ObservationPlan | ActionPlan | Unflattened) -> Space[Any]:
    """The space that an environment shows to its user."""
    return plan.space if isinstance(plan, Unflattened) else plan.row_space
