"""What the registry knows of a family of environments, and whether it can run here."""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

State = Literal["installed", "missing", "impossible"]


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
    without_dependencies: bool = False
    """What it declares to need is out of date: the extra has what it really needs, and
    `puffer install` adds it from `constraints/nodeps.txt`; pip by itself does not."""
    packages: tuple[str, ...] = ()
    """Import names that must be found."""
    commands: tuple[str, ...] = ()
    """Programs that must be on the path."""
    system: tuple[str, ...] = ()
    """Debian packages that it needs to run or to be built; images install the same."""
    newest_python: tuple[int, int] | None = None
    """The last Python that it is published for; None: no such limit is known."""
    elsewhere: str = ""
    """Why pip cannot install it, and what can; empty: pip can."""
    file_variable: str = ""
    """Environment variable that names a file which users bring themselves, such as a ROM."""
    notes: str = ""
    """What a user should know before choosing it."""

    @property
    def module(self) -> str:
        """Dotted path of the package."""
        return f"{__package__}.{self.name}"

    @property
    def install(self) -> str:
        """The line that brings what is missing of Python packages."""
        if self.without_dependencies:
            return f"puffer install {self.name}"
        return f"pip install 'pufferlib[{self.extra}]'" if self.extra else "pip install pufferlib"

    @property
    def apt_line(self) -> str:
        """The line that brings the Debian packages."""
        return f"sudo apt-get install -y {' '.join(self.system)}"

    @property
    def usual(self) -> str:
        """The name that `puffer train` takes for the default task, a short one if there is one."""
        return next((name for name, task in self.tasks.items() if task == self.default), self.name)

    @property
    def missing(self) -> tuple[str, ...]:
        """Import names and programs that are not found here; nothing is imported to find out."""
        packages = [name for name in self.packages if importlib.util.find_spec(name) is None]
        return (*packages, *(name for name in self.commands if shutil.which(name) is None))

    @property
    def installed(self) -> bool:
        """Whether every package and program that it needs is found."""
        return not self.missing

    @property
    def obstacle(self) -> str:
        """Why nothing that can be installed here would make it run; empty: it can run."""
        here = sys.version_info[:2]
        if self.newest_python is not None and here > self.newest_python:
            newest, running = (
                ".".join(map(str, version)) for version in (self.newest_python, here)
            )
            return f"published for Python {newest} and older, this is {running}"
        return self.elsewhere

    @property
    def state(self) -> State:
        """Installed, missing, or impossible: an `obstacle` keeps it from being installed here."""
        if self.installed:
            return "installed"
        return "impossible" if self.obstacle else "missing"

    @property
    def remedies(self) -> tuple[str, ...]:
        """What to do about each thing that is missing, one line each."""
        if self.state == "impossible":
            return (self.obstacle,)
        lines = [] if self.installed else [f"puffer install {self.name}"]
        if self.system and not self.installed:
            lines.append(self.apt_line)
        if self.file_variable and not os.environ.get(self.file_variable):
            lines.append(f"export {self.file_variable}=FILE, which you bring yourself")
        return tuple(lines)
