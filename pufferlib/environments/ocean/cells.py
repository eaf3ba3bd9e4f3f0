"""Pictures for a terminal: rows of cells, two coloured blanks each."""

from __future__ import annotations

from collections.abc import Iterable

GREY, CYAN, YELLOW, RED, GREEN = (f"\033[48;5;{colour}m  " for colour in (236, 37, 220, 160, 34))

_END_OF_LINE = "\033[0m\n"


def show(rows: Iterable[Iterable[str]]) -> str:
    """Rows of cells as coloured text."""
    return "".join("".join(row) + _END_OF_LINE for row in rows)


def verdict(is_right: bool) -> str:
    """A green cell for what is right, a red one for what is wrong."""
    return GREEN if is_right else RED
