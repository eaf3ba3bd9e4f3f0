"""The commands that one unit can get, as one choice instead of the seven numbers of the engine.

The engine takes a kind of command and a parameter for each kind, of which all but one or two are
ignored. A choice among whole commands has no such numbers in it, which would only be noise in the
probability of an action.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

DIRECTIONS = 4
"""Up, right, down, left."""

KINDS = ("nothing", "move", "harvest", "return", "produce", "attack")
PARAMETERS = {"move": (0,), "harvest": (1,), "return": (2,), "produce": (3, 4), "attack": (5,)}
"""Which of the engine's parameters a kind of command reads."""


class Commands:
    """Every command: nothing, then each kind of `KINDS` with all values of its parameters.

    Args:
        num_unit_types: kinds of unit, any of which a `produce` may name.
        attack_range: farthest distance of an attack, in squares.
    """

    def __init__(self, num_unit_types: int, attack_range: int) -> None:
        targets = (2 * attack_range + 1) ** 2
        self.sizes = (len(KINDS), *(DIRECTIONS,) * 4, num_unit_types, targets)
        """Values that each of the engine's seven numbers can take."""

    @cached_property
    def numbers(self) -> NDArray[np.int32]:
        """The engine's seven numbers of each command `(commands, 7)`."""
        rows = [np.zeros((1, len(self.sizes)), np.int32)]
        for kind, name in enumerate(KINDS[1:], 1):
            columns = [1 + parameter for parameter in PARAMETERS[name]]
            sizes = [self.sizes[column] for column in columns]
            block = np.zeros((np.prod(sizes), len(self.sizes)), np.int32)
            block[:, 0] = kind
            block[:, columns] = np.indices(sizes).reshape(len(sizes), -1).T
            rows.append(block)
        return np.concatenate(rows)

    def allowed(self, mask: NDArray[np.int32]) -> NDArray[np.int8]:
        """Which commands each square allows.

        Args:
            mask: the engine's `(squares, sum(sizes))`, 1 for each value that is allowed.

        Returns:
            `(squares, commands)` of 0 and 1. A square without a unit that waits for a command
            allows nothing but the first, so that its choice is made.
        """
        allowed = np.zeros((len(mask), len(self.numbers)), np.int8)
        waits = mask.any(axis=1)
        allowed[~waits, 0] = 1
        allowed[waits] = mask[waits][:, self._elements].all(axis=2)
        return allowed

    @cached_property
    def _elements(self) -> NDArray[np.int64]:
        """Elements of the engine's mask that a command needs, `(commands, 3)`; some are twice."""
        first = np.concatenate([[0], np.cumsum(self.sizes)[:-1]])
        rows = []
        for numbers in self.numbers:
            read = [1 + parameter for parameter in PARAMETERS.get(KINDS[numbers[0]], ())]
            columns = [0, *read, 0, 0][:3]
            rows.append(first[columns] + numbers[columns])
        return np.array(rows)
