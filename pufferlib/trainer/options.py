"""Options by name: conversion to annotated types, groups laid flat, help for a mistyped name."""

from __future__ import annotations

import difflib
import re
import types
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal, Union, get_args, get_origin

from pufferlib.exceptions import ConfigError

_MISMATCH = object()
_BOOLEANS = dict.fromkeys(("true", "yes", "on", "1"), True)
_BOOLEANS |= dict.fromkeys(("false", "no", "off", "0"), False)
_SCALARS = (int, float, bool, str, types.NoneType)


def did_you_mean(name: str, names: Iterable[str], prefix: str = "") -> str:
    """The end of an error message: the nearest of `names`, or else all of them.

    Initials are nearest to their words, `lr` to `learning_rate`.
    """
    names = list(names)
    close = [known for known in names if _by_initials(known) == name]
    close += difflib.get_close_matches(name, names, n=1, cutoff=0.5)
    if close:
        return f"; did you mean {prefix}{close[0]}?"
    return f"; known: {', '.join(sorted(names))}" if names else "; nothing can be set here"


def _by_initials(name: str) -> str:
    """`--train.lr` for `--train.learning-rate`."""
    group, dot, option = name.rpartition(".")
    return f"{group}{dot}{''.join(word[:1] for word in re.split('[-_]', option))}"


def flatten(
    values: Mapping[str, Any], separator: str = ".", prefix: str = ""
) -> Iterator[tuple[str, Any]]:
    """The entries of nested mappings by joined names: `("train.seed", 1)`."""
    for key, value in values.items():
        if isinstance(value, Mapping):
            yield from flatten(value, separator, f"{prefix}{key}{separator}")
        else:
            yield f"{prefix}{key}", value


def coerce(value: Any, kind: Any, where: str) -> Any:
    """`value` as the annotated type `kind`: integral floats become ints, ints floats, lists tuples.

    Raises:
        ConfigError: it is of another type; the message begins with `where`.
    """
    if kind is Any:
        return value
    for option in alternatives(kind):
        converted = _convert(value, option)
        if converted is not _MISMATCH:
            return converted
    raise ConfigError(f"{where}: expected {describe(kind)}, got {value!r}")


def parse(text: str, kind: Any) -> Any:
    """The value that `text` from a command line means for the annotated type `kind`.

    Accepts `1e6` for an int, `true`, `False`, `yes`, `0` … for a bool and `None` where the
    type allows it.

    Raises:
        ConfigError: it means none; the message has what was expected.
    """
    for option in alternatives(kind):
        converted = _convert(_read(text, option), option)
        if converted is not _MISMATCH:
            return converted
    raise ConfigError(f"expected {describe(kind)}, got {text!r}")


def describe(kind: Any) -> str:
    """The type in words: "int or 'auto'"."""
    return " or ".join(_name(option) for option in alternatives(kind))


def is_scalar(kind: Any) -> bool:
    """Whether one word on a command line can stand for a value of this annotated type."""
    return all(option in _SCALARS or get_origin(option) is Literal for option in alternatives(kind))


def alternatives(kind: Any) -> tuple[Any, ...]:
    """The members of a union (None first, so that 'None' is not taken for a str), else itself."""
    if get_origin(kind) in (Union, types.UnionType):
        return tuple(sorted(get_args(kind), key=lambda option: option is not types.NoneType))
    return (kind,)


def _name(kind: Any) -> str:
    if kind is types.NoneType:
        return "None"
    if get_origin(kind) is Literal:
        return "/".join(repr(choice) for choice in get_args(kind))
    return str(kind) if get_args(kind) else getattr(kind, "__name__", str(kind))


def _convert(value: Any, kind: Any) -> Any:
    """`value` as the single type `kind`, or `_MISMATCH`."""
    origin = get_origin(kind)
    if origin is Literal:
        return value if value in get_args(kind) else _MISMATCH
    if kind is types.NoneType:
        return None if value is None else _MISMATCH
    if kind in (int, float):
        return _number(value, kind)
    if (origin or kind) in (tuple, list):
        return _sequence(value, kind)
    return value if isinstance(value, origin or kind) else _MISMATCH


def _sequence(value: Any, kind: Any) -> Any:
    if not isinstance(value, (list, tuple)):
        return _MISMATCH
    item = get_args(kind)[0] if get_args(kind) else None
    items = [_convert(entry, item) for entry in value] if item else list(value)
    return _MISMATCH if _MISMATCH in items else (get_origin(kind) or kind)(items)


def _number(value: Any, kind: type) -> Any:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return _MISMATCH
    if kind is int and value != value // 1:  # also refuses nan and infinities
        return _MISMATCH
    return kind(value)


def _read(text: str, kind: Any) -> Any:
    """`text` as the Python value that `_convert` would accept for `kind`, else `text` itself."""
    if kind is types.NoneType:
        return None if text.lower() == "none" else text
    if kind is bool:
        return _BOOLEANS.get(text.lower(), text)
    if kind in (int, float):
        for number in (int, float):
            try:
                return number(text)
            except ValueError:
                continue
    return text
