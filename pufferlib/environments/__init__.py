"""The registry of environments: what there is, what is installed, and what brings the rest.

Every environment is a package of this folder with

* `environment.py` (no torch): `make_env(…)`, `env_creator(name)` and the dataclass `EnvConfig`
  of the keyword arguments that both understand; where tasks differ in those, `CONFIGS` has the
  dataclass of each task;
* `torch.py`: `Policy` and, where memory helps, `Recurrent`; loaded on first use, so creators
  travel to workers without torch.

Users name an environment of their own as `module:maker`; `own` has what stands for its package.

Importing such a package never imports the third-party library behind it; making an environment
does, and raises `EnvironmentSetupError` with the line to install it.
"""

from __future__ import annotations

import contextlib
import difflib
import importlib
import io
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType, ModuleType
from typing import Any

from pufferlib.environments import own
from pufferlib.environments.families import FAMILIES
from pufferlib.environments.row import Row
from pufferlib.exceptions import ConfigError, EnvironmentSetupError


@dataclass(frozen=True)
class Task:
    """What a name on the command line stands for."""

    name: str
    """As the user wrote it; also the name of the task's file in `pufferlib/config`."""
    row: Row
    task: str
    """The argument of the family's `env_creator`."""


MOST_NAMES = 100
"""Cap of the names in a message: some libraries have a thousand tasks."""

ROWS: Mapping[str, Row] = MappingProxyType({row.name: row for row in FAMILIES})
"""Every family by name."""


def names() -> list[str]:
    """Every short name that `resolve` accepts, sorted."""
    return sorted({*ROWS, *(task for row in FAMILIES for task in row.tasks)})


def resolve(name: str) -> Task:
    """The task that `name` stands for.

    Accepts a family (`nethack`: its default task), a short name (`cartpole`), `family/task` with
    any task that the family's `env_creator` knows (`nethack/NetHackChallenge-v0`), or
    `module:maker` for an environment of one's own, whose row has its name.

    Raises:
        ConfigError: the name is none of these; the message has the nearest one.
    """
    if own.is_own(name):
        return Task(
            name, Row(name=name, description="an environment of one's own", default=name), name
        )
    family, slash, task = name.partition("/")
    if slash and task and family in ROWS:
        return Task(name, ROWS[family], task)
    if name in ROWS:
        return Task(name, ROWS[name], ROWS[name].default)
    for row in FAMILIES:
        if name in row.tasks:
            return Task(name, row, row.tasks[name])
    wanted, known = (family, sorted(ROWS)) if slash else (name, names())
    raise ConfigError(
        f"unknown environment {name!r}{nearest(wanted, known)} (one of your own: {own.FORM})"
    )


def load(name: str) -> Any:
    """The package behind `name` (anything that `resolve` accepts), imported.

    For `module:maker` it is an `OwnEnvironment`, with the same attributes.

    Raises:
        ConfigError: the name is unknown.
        EnvironmentSetupError: a package that it needs is not installed.
    """
    if own.is_own(name):
        return own.load(name)
    row = resolve(name).row
    require(row.name)
    return importlib.import_module(row.module)


def require(family: str) -> tuple[ModuleType, ...]:
    """Import the third-party packages of a family and return them in the order of its row.

    Raises:
        EnvironmentSetupError: one is not found or fails to import; the message has the remedy.
    """
    row = ROWS[family]
    if row.missing:
        raise EnvironmentSetupError(_what_is_missing(row))
    try:
        # What packages say of themselves is nothing that who plays could change.
        with warnings.catch_warnings(), contextlib.redirect_stderr(io.StringIO()):
            warnings.simplefilter("ignore")
            return tuple(importlib.import_module(package) for package in row.packages)
    except ImportError as error:
        again = "" if row.without_dependencies else " --force-reinstall"
        raise EnvironmentSetupError(
            f"{row.name}: {', '.join(row.packages)} is installed but cannot be imported: {error}. "
            f"Reinstall it with: {row.install}{again}{_of_debian(row)}"
        ) from error


def check_task(name: str, tasks: Iterable[str], family: str) -> str:
    """`name`, if it is one of the `tasks` of a family.

    Raises:
        ConfigError: it is not; the message has the nearest one.
    """
    known = sorted(tasks)
    if name not in known:
        raise ConfigError(f"unknown {family} task {name!r}{nearest(name, known)}")
    return name


def nearest(name: str, known: list[str]) -> str:
    """The end of a message about an unknown name.

    It has the known name that is most like it, or else those that contain it, or else all.
    """
    wanted, by_lower = name.lower(), {each.lower(): each for each in known}
    close = difflib.get_close_matches(wanted, by_lower, n=1, cutoff=0.5)
    if close:
        return f"; did you mean {by_lower[close[0]]!r}?"
    alike = [each for lower, each in by_lower.items() if wanted in lower]
    shown, more = (alike or known)[:MOST_NAMES], len(alike or known) - MOST_NAMES
    return f"; known: {', '.join(shown)}" + f" and {more:,} more" * (more > 0)


def lazy_policies(package: str) -> Callable[[str], Any]:
    """The `__getattr__` of an environment package: policies come from its `torch` module."""

    def get(name: str) -> Any:
        if name in ("Policy", "Recurrent"):
            return getattr(importlib.import_module(f"{package}.torch"), name)
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    return get


def _what_is_missing(row: Row) -> str:
    lacks = f"{row.name} needs {', '.join(row.missing)}, which is not installed"
    if row.obstacle:
        return f"{lacks} and cannot be here: {row.obstacle}"
    by_pip = "" if row.without_dependencies else f"   (or: {row.install})"
    return f"{lacks}. Install it with: puffer install {row.name}{by_pip}{_of_debian(row)}"


def _of_debian(row: Row) -> str:
    return f"\nIt also needs of Debian: {row.apt_line}" if row.system else ""
