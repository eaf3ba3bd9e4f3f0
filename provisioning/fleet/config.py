"""The file that names the machines and who is assigned to which: fleet.toml."""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

from tank.errors import TankError
from tank.store import USER_NAME, Quota

ALL = "all"
"""The group that every machine is in."""

NAME = re.compile(r"[a-z0-9][a-z0-9._-]*")
QUOTAS = ("cpus", "memory", "shm", "gpus", "disk")
KEYS: dict[str, dict[str, type | tuple[type, ...]]] = {
    "": {"checkout": str, "minutes": (int, float), "machines": dict, "users": dict},
    "machines": {"host": str, "user": str, "port": int, "groups": list},
    "users": {
        "key": str,
        "machines": list,
        "cpus": (int, float, str),
        "memory": str,
        "shm": str,
        "gpus": (int, str),
        "disk": str,
        "image": str,
        "tailscale": str,
    },
}


@dataclass(frozen=True)
class Machine:
    """Where a machine is reached; user and port are those of ~/.ssh/config unless given."""

    name: str
    host: str
    user: str | None = None
    port: int | None = None
    groups: tuple[str, ...] = ()


@dataclass(frozen=True)
class Assignment:
    """A user, and the machines (by name) that the user is on.

    `key` is the file with the public keys, `tailscale` the login whose devices let the user in;
    with both, both are asked for. `quota` has what fleet.toml says; the rest is left to each
    machine's tank.conf.
    """

    name: str
    key: Path | None = None
    machines: frozenset[str] = frozenset()
    quota: Mapping[str, float | str] = field(default_factory=dict)
    image: str | None = None
    tailscale: str | None = None


@dataclass(frozen=True)
class Fleet:
    """All of the file. `checkout` is where provisioning lies on every machine."""

    machines: tuple[Machine, ...]
    users: Mapping[str, Assignment] = field(default_factory=dict)
    checkout: str = "/opt/puffertank"
    minutes: float = 60

    def choose(self, names: str) -> tuple[Machine, ...]:
        """The machines of these names and groups, separated by commas; all if there are none.

        Raises:
            SystemExit: there is no such machine or group.
        """
        chosen = _resolve(self.machines, [name for name in names.split(",") if name], "--on")
        return tuple(m for m in self.machines if not chosen or m.name in chosen)


def load(path: Path) -> Fleet:
    """Read fleet.toml.

    Raises:
        SystemExit: it cannot be read, or has something without a meaning; the message says where.
    """
    try:
        found = tomllib.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise SystemExit(f"error: cannot read {path}: {error}") from None
    try:
        return _fleet(found, path.parent)
    except SystemExit as error:
        raise SystemExit(f"{error}\n  in {path}") from None


def _fleet(found: dict[str, Any], directory: Path) -> Fleet:
    _check(found, "", "")
    machines = tuple(_machine(*item) for item in found.get("machines", {}).items())
    if not machines:
        _refuse("expected at least one machine: [machines.NAME] with host = ...")
    _refuse_twice(machines)
    users = {
        name: _user(name, entry, machines, directory)
        for name, entry in found.get("users", {}).items()
    }
    settings = {name: found[name] for name in ("checkout", "minutes") if name in found}
    if not settings.get("checkout", "/").startswith("/"):
        _refuse(f"checkout: expected a path from /, got {settings['checkout']!r}")
    if settings.get("minutes", 1) <= 0:
        _refuse(f"minutes: expected more than 0, got {settings['minutes']}")
    return Fleet(machines, users, **settings)


def _machine(name: str, entry: object) -> Machine:
    where = f"machines.{name}"
    entry = _check(entry, "machines", where)
    if not NAME.fullmatch(name) or name == ALL:
        _refuse(f"{where}: expected a name of small letters, digits and . _ - (not {ALL!r})")
    if not entry.get("host") or entry["host"].startswith("-"):
        _refuse(f"{where}: expected host = its address, or its name in ~/.ssh/config")
    groups = _strings(entry.pop("groups", []), f"{where}.groups")
    return Machine(name, groups=groups, **entry)


def _refuse_twice(machines: Iterable[Machine]) -> None:
    places: dict[tuple[str, int | None], str] = {}
    names = {machine.name for machine in machines}
    for machine in machines:
        place = (machine.host, machine.port)
        if place in places:
            _refuse(f"machines {places[place]} and {machine.name} have the same host {place[0]}")
        places[place] = machine.name
        for group in names.intersection(machine.groups):
            _refuse(f"machines.{machine.name}.groups: {group} is the name of a machine")


def _user(name: str, entry: object, machines: Iterable[Machine], directory: Path) -> Assignment:
    where = f"users.{name}"
    entry = _check(entry, "users", where)
    if not USER_NAME.fullmatch(name):
        _refuse(f"{where}: expected a name of small letters, digits, - and _, at most 31")
    if "key" not in entry and "tailscale" not in entry:
        _refuse(
            f"{where}: expected key = the file with the user's public ssh keys, "
            "or tailscale = the login whose devices let the user in"
        )
    quota = {n: str(entry[n]) if n == "gpus" else entry[n] for n in QUOTAS if n in entry}
    _check_quota(quota, where)
    assigned = _strings(entry.get("machines", []), f"{where}.machines")
    return Assignment(
        name,
        directory / Path(entry["key"]).expanduser() if "key" in entry else None,
        frozenset(_resolve(machines, assigned, f"{where}.machines")),
        quota,
        entry.get("image"),
        entry.get("tailscale"),
    )


def _check_quota(quota: Mapping[str, Any], where: str) -> None:
    limits = {name: value for name, value in quota.items() if value != "none" or name == "gpus"}
    if isinstance(limits.get("cpus"), str):
        _refuse(f'{where}.cpus: expected a number or "none", got {limits["cpus"]!r}')
    try:
        Quota(**limits)
    except TankError as error:
        _refuse(f"{where}.{error.args[0]}")


def _resolve(machines: Iterable[Machine], names: Iterable[str], where: str) -> set[str]:
    members: dict[str, set[str]] = {ALL: {machine.name for machine in machines}}
    for machine in machines:
        for name in (machine.name, *machine.groups):
            members.setdefault(name, set()).add(machine.name)
    chosen: set[str] = set()
    for name in names:
        if name not in members:
            _refuse(f"{where}: expected machines or groups, got {name!r}{_nearest(name, members)}")
        chosen |= members[name]
    return chosen


def _check(entry: object, kind: str, where: str) -> dict[str, Any]:
    """The table, if it has only the keys of its kind and values of their types."""
    if not isinstance(entry, dict):
        _refuse(f"{where}: expected a table, [{where}]")
    for key, value in entry.items():
        place = f"{where}.{key}" if where else key
        if key not in KEYS[kind]:
            _refuse(f"{place}: unknown key{_nearest(key, KEYS[kind])}")
        # bool is an int to Python, and to nobody else.
        if not isinstance(value, KEYS[kind][key]) or isinstance(value, bool):
            _refuse(f"{place}: expected {_types(KEYS[kind][key])}, got {value!r}")
    return dict(entry)


def _types(types: type | tuple[type, ...]) -> str:
    names = {int: "a number", float: "a number", str: "a text", dict: "a table", list: "a list"}
    kinds = types if isinstance(types, tuple) else (types,)
    return " or ".join(dict.fromkeys(names[kind] for kind in kinds))


def _strings(value: list[object], where: str) -> tuple[str, ...]:
    for each in value:
        if not isinstance(each, str):
            _refuse(f"{where}: expected a list of texts, got {each!r} in it")
    return tuple(map(str, value))


def _nearest(name: str, known: Iterable[str]) -> str:
    near = difflib.get_close_matches(name, known, 1)
    return f"; did you mean {near[0]}?" if near else f"; there are {', '.join(sorted(known))}"


def _refuse(message: str) -> NoReturn:
    raise SystemExit(f"error: {message}")
