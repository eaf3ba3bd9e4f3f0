"""What the benchmarks of training print and write alike: verdicts, tables, machine, versions."""

from __future__ import annotations

import contextlib
import importlib.metadata
import os
import platform
import re
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from pufferlib.vector.sizes import available_cores


@dataclass(frozen=True)
class Judged:
    """A goal, and what was reached."""

    row: str
    reached: float
    wanted: float
    against: str

    @property
    def passed(self) -> bool:
        """Whether it was reached."""
        return self.reached >= self.wanted

    def __str__(self) -> str:
        color, word = ("green", "pass") if self.passed else ("red", "FAIL")
        return f"[{color}]{word}[/] {self.reached:.2f} of {self.wanted:g} × {self.against}"


def show(title: str, headings: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """A table; columns but the first two and the last are numbers."""
    table = Table(title=title, title_justify="left")
    for i, heading in enumerate(headings):
        is_text = i < 2 or i == len(headings) - 1
        table.add_column(heading, justify="left" if is_text else "right")
    before = None
    for row in rows:
        if before not in (None, row[0]):
            table.add_section()
        table.add_row(*(row if row[0] != before else ("", *row[1:])))
        before = row[0]
    Console(width=None if os.isatty(1) else 150).print(table)


def as_markdown(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """The same for `RESULTS.md`, without colours."""
    lines = [headings, ["---"] * len(headings), *rows]
    cells = [[re.sub(r"\[/?\w*\]", "", cell).replace("\n", "; ") for cell in row] for row in lines]
    return "".join(f"| {' | '.join(row)} |\n" for row in cells)


def machine() -> dict[str, Any]:
    """Where it was measured, beside what, and with what."""
    return {
        "cores": available_cores(),
        "load": round(os.getloadavg()[0], 1),
        "platform": platform.platform(),
        "python": platform.python_version(),
        "commit": commit(),
        "versions": versions(),
    }


def versions() -> dict[str, str]:
    """Of what is installed of the packages that are compared."""
    found = {}
    for name in ("pufferlib", "gymnasium", "torch", "numpy", "stable_baselines3", "cleanrl"):
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            found[name] = importlib.metadata.version(name)
    return found


def commit() -> str:
    """Of these sources; `-dirty` if they differ from it."""
    command = ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
