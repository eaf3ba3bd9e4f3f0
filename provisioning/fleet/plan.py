"""What has to change on a machine so that it has the users whom fleet.toml assigns to it."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fleet.config import Assignment, Fleet


@dataclass(frozen=True)
class Plan:
    """Lines of shell, as root, in their order; and users that are left alone."""

    add: tuple[str, ...] = ()
    change: tuple[str, ...] = ()
    remove: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()

    @property
    def commands(self) -> tuple[str, ...]:
        """All of them; first what frees names and GPUs."""
        return (*self.remove, *self.change, *self.add)


def make(
    fleet: Fleet, machine: str, users: Mapping[str, Any], keys: Mapping[str, str], prune: bool
) -> Plan:
    """The plan for a machine.

    Args:
        fleet: what should be
        machine: its name
        users: what is, as in `tank user list --json`
        keys: public keys of each user that has some in fleet.toml
        prune: remove users that fleet.toml does not know, too
    """
    wanted = {name: user for name, user in fleet.users.items() if machine in user.machines}
    strangers = sorted(set(users) - set(fleet.users))
    gone = sorted(set(users) - set(wanted) - set(() if prune else strangers))
    return Plan(
        tuple(_add(user, keys.get(name)) for name, user in wanted.items() if name not in users),
        tuple(
            shlex.join(["tank", "user", "set", name, *options])
            for name, user in wanted.items()
            if name in users and (options := _options(user, users[name]))
        ),
        tuple(shlex.join(["tank", "user", "rm", name]) for name in gone),
        () if prune else tuple(strangers),
    )


def _add(user: Assignment, keys: str | None) -> str:
    key = [] if keys is None else ["--key", "-"]
    command = ["tank", "user", "add", user.name, *key, *_options(user, {"quota": {}})]
    if user.image is not None:
        command += ["--image", user.image]
    if keys is None:
        return shlex.join(command)
    return f"printf '%s\\n' {shlex.quote(keys.strip())} | {shlex.join(command)}"


def _options(user: Assignment, has: Mapping[str, Any]) -> Sequence[str]:
    """Options of `tank user` for all that the user should have and has not."""
    options = []
    for name, value in user.quota.items():
        if has["quota"].get(name, "") != (None if value == "none" else value):
            options += [f"--{name}", f"{value:g}" if isinstance(value, (int, float)) else value]
    if user.tailscale is not None and has.get("tailscale") != user.tailscale:
        options += ["--tailscale", user.tailscale]
    credential = "tailnet" if user.key is None else "both"
    # A new user has what was given; and what fleet.toml says nothing about stays.
    if user.tailscale is not None and has.get("credential", credential) != credential:
        options += ["--credential", credential]
    return options
