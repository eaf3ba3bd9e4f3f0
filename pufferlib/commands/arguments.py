"""Command lines for dataclasses: tyro, plus lenient spellings and a hint for a mistyped option."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, TypeVar, get_args, get_origin, get_type_hints

import tyro
from tyro.constructors import ConstructorRegistry, PrimitiveConstructorSpec, PrimitiveTypeInfo

from pufferlib.exceptions import ConfigError
from pufferlib.trainer.config import Config
from pufferlib.trainer.options import describe, did_you_mean, is_scalar, parse

T = TypeVar("T")
C = TypeVar("C", bound=Config)
Option = tuple[Any, Any, str]
"""An option of a command: its annotated type, its default, and what it does."""

_REGISTRY = ConstructorRegistry()
_NO_OPTIONS = (tyro.conf.Positional, tyro.conf.Fixed)


def parse_arguments(
    kind: type[T], arguments: Sequence[str], prog: str, default: T | None = None
) -> T:
    """An instance of the dataclass `kind` from a command line; `default` gives what is not on it.

    Options may be written with dashes or underscores, an int as `1e6`, a bool as
    `--x False`, `--x` or `--no-x`.

    Raises:
        ConfigError: an option is unknown; the message has the nearest one.
        SystemExit: `--help`, or a value that does not fit (code 2); tyro has printed why.
    """
    settings: dict[str, Any] = {} if default is None else {"default": default}
    return tyro.cli(
        kind,
        args=normalize(arguments, option_types(kind)),
        prog=prog,
        registry=_REGISTRY,
        config=(tyro.conf.FlagConversionOff,),
        **settings,
    )


def parse_config(
    defaults: C, options: Mapping[str, Option], arguments: Sequence[str], prog: str, summary: str
) -> tuple[C, dict[str, Any]]:
    """The configuration with a command line over it, and the command's own options.

    Args:
        defaults: what the command line overrides.
        options: the own options by name.
        arguments: the command line.
        prog: the command and the environment, for messages.
        summary: what `--help` says first.

    Raises:
        ConfigError, SystemExit: as `parse_arguments`.
    """
    fields: list[Any] = [
        (name, Annotated[kind, tyro.conf.arg(help=text)], dataclasses.field(default=default))
        for name, (kind, default, text) in options.items()
    ]
    fields.append(("env_name", tyro.conf.Fixed[tyro.conf.Suppress[str]], dataclasses.field()))
    kind = dataclasses.make_dataclass(
        "Arguments", fields, bases=(type(defaults),), frozen=True, kw_only=True
    )
    kind.__doc__ = summary
    names = [spec.name for spec in dataclasses.fields(defaults)]
    parsed: Any = parse_arguments(
        kind, arguments, prog, kind(**{name: getattr(defaults, name) for name in names})
    )
    config = dataclasses.replace(defaults, **{name: getattr(parsed, name) for name in names})
    return config, {name: getattr(parsed, name) for name in options}


def option_types(kind: Any, prefix: str = "--") -> dict[str, Any]:
    """Every option of a (nested) dataclass with its annotated type, without positional ones."""
    options: dict[str, Any] = {}
    hints = get_type_hints(kind, include_extras=True)
    for spec in dataclasses.fields(kind):
        hint, markers = _split_annotation(hints[spec.name])
        name = prefix + spec.name.replace("_", "-")
        if dataclasses.is_dataclass(hint):
            options |= option_types(hint, f"{name}.")
        elif not any(marker is skipped for marker in markers for skipped in _NO_OPTIONS):
            options[name] = hint
    return options


def normalize(arguments: Sequence[str], known: dict[str, Any]) -> list[str]:
    """The command line as tyro wants it: dashes in names, and a value after every bool.

    Raises:
        ConfigError: an option is unknown; the message has the nearest one.
    """
    words: list[str] = []
    rest = list(arguments)
    while rest:
        word = rest.pop(0)
        if not word.startswith("--") or word == "--help":
            words.append(word)
            continue
        name, equals, value = word.partition("=")
        name = name.replace("_", "-")
        positive = _without_no(name)
        if name not in known and positive in known and known[positive] is bool and not equals:
            words += [positive, "False"]
            continue
        if name not in known:
            raise ConfigError(f"unknown option {name}{did_you_mean(name, known)}")
        words.append(name + equals + value)
        if known[name] is bool and not equals and not (rest and _is_bool(rest[0])):
            words.append("True")
    return words


@_REGISTRY.primitive_rule
def _scalar_rule(info: PrimitiveTypeInfo) -> PrimitiveConstructorSpec | None:
    """Scalars and unions of scalars are read by `options.parse`."""
    if not is_scalar(info.type):
        return None

    def build(words: list[str]) -> Any:
        try:
            return parse(words[0], info.type)
        except ConfigError as error:
            raise ValueError(str(error)) from error

    return PrimitiveConstructorSpec(
        nargs=1,
        metavar=describe(info.type),
        instance_from_str=build,
        is_instance=lambda value: True,
        str_from_instance=lambda value: [str(value)],
    )


def _split_annotation(hint: Any) -> tuple[Any, tuple[Any, ...]]:
    if get_origin(hint) is Annotated:
        inner, *markers = get_args(hint)
        return inner, tuple(markers)
    return hint, ()


def _without_no(name: str) -> str:
    """`--train.anneal-lr` for `--train.no-anneal-lr`."""
    group, dot, option = name.removeprefix("--").rpartition(".")
    return f"--{group}{dot}{option.removeprefix('no-')}"


def _is_bool(word: str) -> bool:
    try:
        parse(word, bool)
    except ConfigError:
        return False
    return True
