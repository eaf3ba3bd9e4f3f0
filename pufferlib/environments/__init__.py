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

import difflib
import importlib
import importlib.util
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType, ModuleType
from typing import Any

from pufferlib.environments import own
from pufferlib.exceptions import ConfigError, EnvironmentSetupError


@dataclass(frozen=True, kw_only=True)
class Row:
    """One family of environments that share a package, an extra and a policy."""

    name: str
    """The family, and the folder below `pufferlib/environments`."""
    description: str
    default: str
    """The task that `env_creator()` makes."""
    tasks: Mapping[str, str] = field(default_factory=dict)
    """Short command-line names of tasks; the name of the family means the default task."""
    extra: str | None = None
    """The extra of pufferlib that installs it; None: a plain installation has everything."""
    packages: tuple[str, ...] = ()
    """Import names that must be found."""
    notes: str = ""
    """What a user should know before choosing it."""

    @property
    def module(self) -> str:
        """Dotted path of the package."""
        return f"{__name__}.{self.name}"

    @property
    def install(self) -> str:
        """The line that brings what is missing."""
        return f"pip install 'pufferlib[{self.extra}]'" if self.extra else "pip install pufferlib"

    @property
    def missing(self) -> tuple[str, ...]:
        """Import names that are not found here; nothing is imported to find out."""
        return tuple(name for name in self.packages if not _is_found(name))

    @property
    def installed(self) -> bool:
        """Whether every package that it needs is found."""
        return not self.missing


@dataclass(frozen=True)
class Task:
    """What a name on the command line stands for."""

    name: str
    """As the user wrote it; also the name of the task's file in `pufferlib/config`."""
    row: Row
    task: str
    """The argument of the family's `env_creator`."""


_FAMILIES = (
    Row(
        name="atari",
        description="Atari 2600 games through the Arcade Learning Environment",
        default="ALE/Breakout-v5",
        tasks={"breakout": "ALE/Breakout-v5", "pong": "ALE/Pong-v5"},
        extra="atari",
        packages=("ale_py", "cv2"),
        notes="games are in the package; atari/space_invaders and the like name the others",
    ),
    Row(
        name="classic_control",
        description="Gymnasium's small physics problems",
        default="CartPole-v1",
        tasks={
            "cartpole": "CartPole-v1",
            "acrobot": "Acrobot-v1",
            "mountain_car": "MountainCar-v0",
            "mountain_car_continuous": "MountainCarContinuous-v0",
            "pendulum": "Pendulum-v1",
        },
        notes="images need pygame: pip install 'pufferlib[classic_control]'",
    ),
    Row(
        name="nethack",
        description="The dungeons of NetHack 3.6 through the NetHack Learning Environment",
        default="NetHackScore-v0",
        extra="nethack",
        packages=("nle",),
        notes="Linux and macOS; several games per process are fine",
    ),
    Row(
        name="ocean",
        description="First-party sanity checks that train in seconds",
        default="squared",
        tasks={
            "bandit": "bandit",
            "breakout_native": "breakout_native",
            "connect_four_native": "connect_four_native",
            "maze_native": "maze_native",
            "memory": "memory",
            "multiagent": "multiagent",
            "password": "password",
            "pong_native": "pong_native",
            "snake_native": "snake_native",
            "spaces": "spaces",
            "squared": "squared",
            "squared_native": "squared_native",
            "stochastic": "stochastic",
        },
    ),
)

ROWS: Mapping[str, Row] = MappingProxyType({row.name: row for row in _FAMILIES})
"""Every family by name."""


def names() -> list[str]:
    """Every short name that `resolve` accepts, sorted."""
    return sorted({*ROWS, *(task for row in _FAMILIES for task in row.tasks)})


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
    for row in _FAMILIES:
        if name in row.tasks:
            return Task(name, row, row.tasks[name])
    wanted, known = (family, sorted(ROWS)) if slash else (name, names())
    raise ConfigError(
        f"unknown environment {name!r}{_nearest(wanted, known)} (one of your own: {own.FORM})"
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
        raise EnvironmentSetupError(
            f"{row.name} needs {', '.join(row.missing)}, which is not installed. "
            f"Install it with: {row.install}   (or: puffer install {row.name})"
        )
    try:
        return tuple(importlib.import_module(package) for package in row.packages)
    except ImportError as error:
        raise EnvironmentSetupError(
            f"{row.name}: {', '.join(row.packages)} is installed but cannot be imported: {error}. "
            f"Reinstall it with: {row.install} --force-reinstall"
        ) from error


def check_task(name: str, tasks: Iterable[str], family: str) -> str:
    """`name`, if it is one of the `tasks` of a family.

    Raises:
        ConfigError: it is not; the message has the nearest one.
    """
    known = sorted(tasks)
    if name not in known:
        raise ConfigError(f"unknown {family} task {name!r}{_nearest(name, known)}")
    return name


def lazy_policies(package: str) -> Callable[[str], Any]:
    """The `__getattr__` of an environment package: policies come from its `torch` module."""

    def get(name: str) -> Any:
        if name in ("Policy", "Recurrent"):
            return getattr(importlib.import_module(f"{package}.torch"), name)
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    return get


def _is_found(package: str) -> bool:
    return importlib.util.find_spec(package) is not None


def _nearest(name: str, known: list[str]) -> str:
    close = difflib.get_close_matches(name.lower(), known, n=1, cutoff=0.5)
    return f"; did you mean {close[0]!r}?" if close else f"; known: {', '.join(known)}"
