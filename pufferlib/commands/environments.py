"""`puffer envs` and `puffer install`: what is here, and what brings the rest."""

from __future__ import annotations

import importlib.metadata
import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import tyro
from rich.console import Console
from rich.table import Table
from rich.text import Text

from pufferlib import environments, lock
from pufferlib.commands.arguments import parse_arguments
from pufferlib.environments import Row
from pufferlib.exceptions import ConfigError, EnvironmentSetupError

Runner = Callable[[list[str]], int]

_EXTRA = re.compile(r"""\s*(?:and\s+)?extra\s*==\s*['"](?P<name>[^'"]+)['"]""")


@dataclass(frozen=True)
class EnvsArguments:
    """List the environments: what is installed, what is not, and the line that brings it."""


@dataclass(frozen=True)
class InstallArguments:
    """Install what an environment needs, in the versions that are tested together."""

    name: tyro.conf.Positional[str]
    """A name from `puffer envs`."""


def envs(arguments: Sequence[str]) -> int:
    """The command `puffer envs`; returns its exit code."""
    parse_arguments(EnvsArguments, arguments, "puffer envs")
    Console().print(table(list(environments.ROWS.values())))
    return 0


def table(rows: Sequence[Row]) -> Table:
    """The environments as a table."""
    made = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="cyan")
    for column in ("Environment", "Installed", "What it is", "Train with"):
        made.add_column(column, overflow="fold")
    for row in rows:
        state = Text("yes", style="green") if row.installed else Text("no", style="yellow")
        made.add_row(row.name, state, _description(row), _commands(row))
    return made


def install(arguments: Sequence[str], run: Runner = subprocess.call) -> int:
    """The command `puffer install NAME`; returns pip's exit code.

    Raises:
        ConfigError: the name is unknown (the message has the nearest one), or a user's own.
        EnvironmentSetupError: pufferlib was not installed by pip, so that its extras are unknown.
    """
    name = parse_arguments(InstallArguments, arguments, "puffer install").name
    row = environments.resolve(name).row
    if row.name not in environments.ROWS:
        raise ConfigError(f"{name} is your own; install what it needs with pip")
    if row.extra is None:
        print(f"{row.name} is part of every installation; nothing to install.")
        return 0
    constraints = constraints_file()
    if constraints is None:
        print("No constraints.txt beside this pufferlib: pip takes the newest versions that fit.")
    command = pip_command(extra_requirements(row.extra), constraints)
    print(f"Installing {row.name}: {' '.join(command)}", flush=True)
    return run(command)


def pip_command(requirements: Sequence[str], constraints: Path | None) -> list[str]:
    """The pip call that installs `requirements` into this Python's environment."""
    lock = [] if constraints is None else ["-c", str(constraints)]
    return [sys.executable, "-m", "pip", "install", *lock, *requirements]


def extra_requirements(extra: str) -> list[str]:
    """What the extra of the installed pufferlib asks for, without the marker of the extra.

    Raises:
        EnvironmentSetupError: pip knows of no pufferlib here.
    """
    try:
        lines = importlib.metadata.requires("pufferlib") or []
    except importlib.metadata.PackageNotFoundError as error:
        raise EnvironmentSetupError(
            "pufferlib is not installed in this Python, only on its path; "
            "install it first: pip install -e . -c constraints.txt"
        ) from error
    return [
        line.replace(match[0], "").rstrip("; ")
        for line in lines
        if (match := _EXTRA.search(line)) and match["name"].replace("-", "_") == extra
    ]


def constraints_file() -> Path | None:
    """The lock: that of the source tree this package lies in, else the one in the package."""
    root = lock.find_root()
    return None if root is None else root / lock.LOCK


def _description(row: Row) -> Text:
    text = Text(row.description)
    if row.notes:
        text.append(f"\n{row.notes}", style="dim")
    return text


def _commands(row: Row) -> Text:
    if not row.installed:
        return Text(f"puffer install {row.name}\n{row.install}", style="yellow")
    usual = next((name for name, task in row.tasks.items() if task == row.default), row.name)
    others = [name for name in row.tasks if name != usual]
    return Text(f"puffer train {usual}" + f"\nor {', '.join(others)}" * bool(others))
