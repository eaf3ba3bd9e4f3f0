"""Environments of users' own: `module:maker` in the place of a name.

`my_game:MyGame` means what `from my_game import MyGame` brings: a class or a function that returns
a `PufferEnv` or an emulated environment. The module is looked for where Python looks, the working
directory first. What a family of this package has in files of its own comes from

* the maker's arguments: each has a default and is an option of the group `env`;
* `Policy` and, where memory helps, `Recurrent` of the module; without them Ocean's are used, a
  multilayer perceptron and an LSTM;
* `my_game.toml` in the directory of the module's file: its settings.
"""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from pufferlib.exceptions import ConfigError

SEPARATOR = ":"
FORM = "module:maker"


@dataclass(frozen=True)
class OwnEnvironment:
    """What the package of a family offers, for one maker of a user's module."""

    module: ModuleType
    maker: Callable[..., Any]

    def env_creator(self, name: str = "") -> Callable[..., Any]:
        """The maker, whatever the name: there is one task."""
        return self.maker

    @property
    def config_file(self) -> Path | None:
        """The file of settings beside the module, if there is one."""
        if self.module.__file__ is None:
            return None
        name = self.module.__name__.rpartition(".")[2]
        path = Path(self.module.__file__).with_name(f"{name}.toml")
        return path if path.is_file() else None

    def __getattr__(self, name: str) -> Any:
        if name not in ("Policy", "Recurrent"):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        own = hasattr(self.module, "Policy")
        source = self.module if own else importlib.import_module("pufferlib.environments.ocean")
        return getattr(source, name)


def is_own(name: str) -> bool:
    """Whether a name has the form `module:maker`; `family/module:id` has not."""
    return SEPARATOR in name and "/" not in name.partition(SEPARATOR)[0]


def load(name: str) -> OwnEnvironment:
    """Import the module of `module:maker`; what it raises itself is left as it is.

    Raises:
        ConfigError: there is no such module, it has no such maker, or the maker needs arguments.
    """
    path, _, attribute = name.partition(SEPARATOR)
    module = _import(path, name)
    if not hasattr(module, attribute):
        raise ConfigError(
            f"{name}: expected a class or function {attribute!r} in {module.__file__}, which has "
            f"none; it has {', '.join(_callables(module)) or 'no function at all'}"
        )
    maker = getattr(module, attribute)
    if not callable(maker):
        raise ConfigError(
            f"{name}: expected a class or function that makes an environment, got {maker!r}"
        )
    _require_defaults(maker, name)
    return OwnEnvironment(module, maker)


def _import(path: str, name: str) -> ModuleType:
    if not all(part.isidentifier() for part in path.split(".")):
        raise ConfigError(f"{name}: expected {FORM} with dots in the module's name, got {path!r}")
    here = str(Path.cwd())
    if here not in sys.path:  # `python -m` has it there, the `puffer` command has not
        sys.path.insert(0, here)
    try:
        return importlib.import_module(path)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{path}.".startswith(f"{error.name}."):
            raise  # the module is there, and misses another
        raise ConfigError(
            f"{name}: found no module {error.name!r} in {here} or where Python looks; run this in "
            "the directory that holds it, or write a new one with: puffer new-env NAME"
        ) from None


def _callables(module: ModuleType) -> list[str]:
    """What a user may have meant: the public classes and functions of the module or package."""
    return [
        name
        for name, value in vars(module).items()
        if inspect.isclass(value) or inspect.isfunction(value)
        if name[0] != "_" and f"{value.__module__}.".startswith(f"{module.__name__}.")
    ]


def _require_defaults(maker: Callable[..., Any], name: str) -> None:
    some = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    for parameter in inspect.signature(maker).parameters.values():
        if parameter.default is inspect.Parameter.empty and parameter.kind not in some:
            raise ConfigError(
                f"{name}: expected a default for every argument, but {parameter.name!r} has none; "
                "give it one, so that it is an option --env."
                f"{parameter.name.replace('_', '-')}"
            )
