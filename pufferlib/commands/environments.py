"""`puffer envs` and `puffer install`: what is here, and what brings the rest."""

from __future__ import annotations

import importlib
import importlib.metadata
import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro
from rich.console import Console
from rich.table import Table
from rich.text import Text

from pufferlib import environments, lock
from pufferlib.commands.arguments import parse_arguments
from pufferlib.environments.row import Row
from pufferlib.exceptions import ConfigError, EnvironmentSetupError

STYLES = {"installed": "green", "missing": "yellow", "impossible": "dim"}

Runner = Callable[[list[str]], int]

_EXTRA = re.compile(r"""\s*(?:and\s+)?extra\s*==\s*['"](?P<name>[^'"]+)['"]""")


@dataclass(frozen=True)
class EnvsArguments:
    """List the environments: what is installed, what is not, and the line that brings it."""


@dataclass(frozen=True)
class InstallArguments:
    """Install what an environment needs, in the versions that are tested together."""

    name: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="NAME")]
    """A name from `puffer envs`."""


def envs(arguments: Sequence[str]) -> int:
    """The command `puffer envs`; returns its exit code."""
    parse_arguments(EnvsArguments, arguments, "puffer envs")
    Console().print(table(list(environments.ROWS.values())))
    return 0


def table(rows: Sequence[Row]) -> Table:
    """The environments as a table."""
    made = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="cyan")
    for column in ("Environment", "Here", "What it is", "Train with"):
        made.add_column(column, overflow="fold")
    for row in rows:
        state = Text(row.state, style=STYLES[row.state])
        made.add_row(row.name, state, _description(row), _commands(row))
    return made


def install(arguments: Sequence[str], run: Runner = subprocess.call) -> int:
    """The command `puffer install NAME`; returns pip's exit code.

    Raises:
        ConfigError: the name is unknown (the message has the nearest one), or a user's own.
        EnvironmentSetupError: it cannot be installed here, or not without the repository's lock;
            or pufferlib was not installed by pip, so that its extras are unknown.
    """
    name = parse_arguments(InstallArguments, arguments, "puffer install").name
    row = environments.resolve(name).row
    if row.name not in environments.ROWS:
        raise ConfigError(f"{name} is your own; install what it needs with pip")
    if row.obstacle:
        raise EnvironmentSetupError(f"{row.name} cannot be installed here: {row.obstacle}")
    if row.extra is None:
        print(f"{row.name} is part of every installation; nothing to install.")
        return 0
    root = lock.find_root()
    if root is None and row.without_dependencies:
        raise EnvironmentSetupError(
            f"{row.name} is installed from {lock.NODEPS}, which is not beside this "
            "pufferlib; install pufferlib from a checkout of its repository: pip install -e ."
        )
    if root is None:
        print("No constraints.txt beside this pufferlib: pip takes the newest versions that fit.")
    if row.system:
        print(f"{row.name} needs of Debian: {row.apt_line}")  # some of it to be built
    for command in pip_commands(row.extra, root):
        print(f"Installing {row.name}: {' '.join(command)}", flush=True)
        code = run(command)
        if code:
            return code
    print(_what_is_left(row))
    return 0


def pip_commands(extra: str, root: Path | None) -> list[list[str]]:
    """The pip calls that install an extra into this Python's environment.

    Args:
        extra: of the installed pufferlib.
        root: the directory of the lock; None: there is none.

    Raises:
        EnvironmentSetupError: pip knows of no pufferlib here.
    """
    pip = [sys.executable, "-m", "pip", "install"]
    constraints = [] if root is None else ["-c", str(root / lock.LOCK)]
    commands = [[*pip, *constraints, *extra_requirements(extra)]]
    outdated = [] if root is None else lock.without_dependencies(root, extra)
    if outdated:
        # What these declare to need no longer fits; sources are built with what is installed.
        flags = ["--no-deps", "--ignore-requires-python", "--no-build-isolation"]
        commands.append([*pip, *flags, *outdated])
    return commands


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


def _description(row: Row) -> Text:
    text = Text(row.description)
    if row.notes:
        text.append(f"\n{row.notes}", style="dim")
    return text


def _commands(row: Row) -> Text:
    if not row.installed:
        lines = [*row.remedies, *([row.install] if row.state == "missing" else [])]
        return Text("\n".join(dict.fromkeys(lines)), style=STYLES[row.state])
    others = [name for name in row.tasks if name != row.usual]
    return Text(f"puffer train {row.usual}" + f"\nor {', '.join(others)}" * bool(others))


def _what_is_left(row: Row) -> str:
    importlib.invalidate_caches()  # pip has written packages since
    left = [line for line in row.remedies if not line.startswith("puffer install")]
    return "\n".join([*left, f"puffer train {row.usual}"])
