"""Text tables."""

from collections.abc import Sequence


def table(heading: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Columns as wide as their longest cell, two spaces apart; an empty cell shows as -."""
    lines = [
        list(heading),
        *([str(cell) if cell not in (None, "") else "-" for cell in row] for row in rows),
    ]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )
