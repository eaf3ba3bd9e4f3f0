"""`puffer new-env NAME`: a small environment of the user's own, whole and ready to be changed."""

from __future__ import annotations

import importlib.util
import keyword
import re
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from string import Template
from typing import Annotated

import tyro

from pufferlib.commands.arguments import parse_arguments
from pufferlib.exceptions import ConfigError

TEMPLATES = Path(__file__).parent.parent / "templates"
SUFFIX = ".in"


@dataclass(frozen=True)
class NewEnvArguments:
    """Write a small environment, its test and its settings into a new package of your own."""

    name: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="NAME")]
    """Name of the package: small letters, digits and underscores."""
    native: bool = False
    """Step it in C, compiled when it is imported; needs a C compiler."""
    directory: Path = Path()
    """Where the package is put."""


def new_env(arguments: Sequence[str]) -> int:
    """The command `puffer new-env`; returns its exit code."""
    options = parse_arguments(NewEnvArguments, arguments, "puffer new-env")
    files = write(options.name, options.native, options.directory)
    print("\n".join(map(str, files)))
    print(f"\n{_next_steps(options)}")
    return 0


def write(name: str, native: bool = False, directory: Path = Path()) -> list[Path]:
    """Write the package `directory/name` and return its files.

    Raises:
        ConfigError: the name cannot be a package's or is taken, or a file cannot be written.
    """
    _check_name(name)
    package = directory / name
    if package.exists():
        raise ConfigError(f"{package} exists already; choose another name or another --directory")
    if importlib.util.find_spec(name):
        raise ConfigError(f"Python finds a module {name!r} already; choose another name")
    words = {"name": name, "Class": class_name(name)}
    files = []
    try:
        package.mkdir(parents=True)
        for template in templates(native):
            file = package / template.name.removesuffix(SUFFIX).replace("NAME", name)
            text = Template(template.read_text(encoding="utf-8")).substitute(words)
            file.write_text(text, encoding="utf-8")
            files.append(file)
    except OSError as error:
        raise ConfigError(
            f"cannot write {error.filename}: {error.strerror}; choose another --directory"
        ) from error
    return files


def templates(native: bool) -> list[Path]:
    """The templates of a package, in Python or in C."""
    kinds = ("common", "native" if native else "python")
    found = [path for kind in kinds for path in (TEMPLATES / kind).glob(f"*{SUFFIX}")]
    return sorted(found, key=lambda path: path.name)


def class_name(name: str) -> str:
    """`MyGame` for `my_game`."""
    return "".join(part.capitalize() for part in name.split("_"))


def _check_name(name: str) -> None:
    words = (name, class_name(name))
    if not re.fullmatch("[a-z][a-z0-9_]*", name) or any(map(keyword.iskeyword, words)):
        raise ConfigError(
            "NAME: expected small letters, digits and underscores, a letter first and no word of "
            f"Python's, got {name!r}"
        )


def _next_steps(options: NewEnvArguments) -> str:
    environment = f"{options.name}:{class_name(options.name)}"
    lines = [
        f"test it   pytest {options.name}",
        f"train it  puffer train {environment}",
        f"watch it  puffer eval {environment} --render",
    ]
    if options.directory != Path():
        lines.insert(0, f"go there  cd {options.directory}")
    if options.native and not any(map(shutil.which, ("cc", "gcc", "clang"))):
        lines.insert(0, "first     install a C compiler (Debian: apt-get install gcc)")
    return "\n".join(lines)
