"""Verbs of `tank` that only administrators have."""

import argparse
import dataclasses
import json
import subprocess
import sys
from pathlib import Path

from tank import audit, containers, disk, gpus, own, store, tailnet, users
from tank.engine import SLOW, docker
from tank.errors import USAGE, TankError
from tank.store import BOTH, KEY, TAILNET, State, User
from tank.table import table

QUOTAS = ("memory", "shm", "gpus", "disk")


def _changes(arguments: argparse.Namespace) -> dict[str, object]:
    """The quota's fields that the command line names; "none" takes a limit away."""
    changes: dict[str, object] = {
        name: getattr(arguments, name) for name in QUOTAS if getattr(arguments, name) is not None
    }
    if arguments.cpus is not None:
        changes["cpus"] = _number("--cpus", arguments.cpus)
    return changes


def _number(flag: str, text: str) -> float | str:
    if text == "none":
        return text
    try:
        return float(text)
    except ValueError:
        raise TankError(f"{flag}: expected a number or none, got {text!r}", status=USAGE) from None


def user_add(arguments: argparse.Namespace) -> None:
    """Add a user and start the user's container."""
    configuration = store.load_configuration()
    quota = users.with_changes(configuration.quota, _changes(arguments))
    keys = users.key_lines(_read_keys(arguments.key))
    if not keys and not arguments.tailscale:
        raise TankError(
            "expected --key FILE, --tailscale LOGIN or both: what lets the user in?", status=USAGE
        )
    image = arguments.image or configuration.image
    with store.change() as state:
        user = users.add(state, arguments.name, keys, quota, image, arguments.tailscale)
    print(f"{arguments.name} may log in{_way(user)}: ssh {arguments.name}@THIS-MACHINE")
    _warn_of_disk(user)


def _way(user: User) -> str:
    devices = f"from a device of {user.tailscale or 'nobody'}"
    return {KEY: "", TAILNET: f" {devices}", BOTH: f" {devices}, with a key"}[user.credential]


def _warn_of_disk(user: User) -> None:
    if user.quota.disk and not disk.kinds(user.home):
        print(f"the file system of {user.home} has no quotas: {user.quota.disk} is only reported")


def _read_keys(file: str | None) -> str:
    if file is None:
        return ""
    try:
        return sys.stdin.read() if file == "-" else Path(file).read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise TankError(f"--key: cannot read {file}: {error}") from None


def user_set(arguments: argparse.Namespace) -> None:
    """Change a quota, or what lets the user in; sessions that it does not let in end."""
    name, changes = arguments.name, _changes(arguments)
    credential = (arguments.tailscale, arguments.credential)
    if not changes and credential == (None, None):
        raise TankError("expected something to change: tank user set --help", status=USAGE)
    with store.change() as state:
        user = state.user(name)
        if changes:
            users.set_quota(state, name, users.with_changes(user.quota, changes))
        if credential != (None, None):
            users.set_credential(state, name, *credential)
    if changes.keys() - {"disk"}:
        print(f"{name} gets it with the next 'tank reset --user {name}'")
    if "disk" in changes:
        _warn_of_disk(user)
    if credential != (None, None):
        tailnet.end_sessions(name)
        print(f"{name} may log in{_way(user)}")


def user_rm(arguments: argparse.Namespace) -> None:
    """Close an account."""
    with store.change() as state:
        archive = users.remove(state, arguments.name)
    print(f"{arguments.name} is gone; the home is in {archive}")


def user_list(arguments: argparse.Namespace) -> None:
    """Print everybody in one table, or as JSON."""
    state = store.load()
    if arguments.json:
        print(json.dumps(dataclasses.asdict(state), indent=2))
        return
    print(table(("USER", "UID", "CONTAINERS", "CPUS/MEMORY/SHM", "GPUS", "DISK", "TAILNET"),
                [_row(state, name) for name in sorted(state.users)]))  # fmt: skip


def _row(state: State, name: str) -> tuple[object, ...]:
    user = state.users[name]
    leased = sum(lease.user == name for lease in gpus.current(state).values())
    return (
        name,
        user.uid,
        " ".join(sorted(user.containers)),
        own.describe_quota(user.quota),
        f"{leased} of {user.quota.gpus}",
        _disk(user),
        user.tailscale or (None if user.credential == KEY else "nobody"),
    )


def _disk(user: User) -> str:
    """The size of the home on its own file system, and its limit."""
    done = subprocess.run(
        ["du", "--one-file-system", "--summarize", "--human-readable", user.home],
        stdin=subprocess.DEVNULL, capture_output=True, text=True,
    )  # fmt: skip
    used = done.stdout.split("\t")[0] if done.stdout else "?"
    if not user.quota.disk:
        return used
    return f"{used} of {user.quota.disk}{'' if disk.kinds(user.home) else ' (not enforced)'}"


def upgrade(arguments: argparse.Namespace) -> None:
    """Move the containers of one user, or of all, to another image.

    Raises:
        TankError: some stayed where they were; the others have moved.
    """
    if bool(arguments.name) == arguments.all:
        raise TankError("expected USER, or --all", status=USAGE)
    stayed = []
    names = sorted(store.load().users) if arguments.all else [arguments.name]
    for user in names:
        for container in sorted(store.load().user(user).containers):
            try:
                print(_upgrade(user, container, arguments))
            except TankError as error:
                print(error, file=sys.stderr)
                stayed.append(f"{user}/{container}")
    if stayed:
        raise TankError(f"not upgraded: {' '.join(stayed)}")


def _upgrade(user: str, container: str, arguments: argparse.Namespace) -> str:
    own.refuse_if_busy(user, container, arguments.yes)
    with store.change() as state:
        made = state.user(user).containers[container]
        image = arguments.image or store.load_configuration().image
        if arguments.back:
            if made.previous is None:
                raise TankError(f"{container} of {user} has no image to go back to")
            image = made.previous
        containers.upgrade(user, container, image, state)
    return f"{container} of {user}: {made.image} -> {image}"


def close(arguments: argparse.Namespace) -> None:
    """Start no container until `open`, and stop those that run: for work on the machine."""
    with store.change() as state:
        state.closed = arguments.reason
    for name in _running():
        docker("stop", "--time", "10", name, timeout=SLOW)
    audit.record("close", why=arguments.reason)
    print("no container runs; to let users in again: tank open")


def _running() -> list[str]:
    names = docker("ps", "--filter", "label=io.puffertank.user", "--format", "{{.Names}}")
    return names.split()


def open_(_: argparse.Namespace) -> None:
    """Start containers again as users come."""
    with store.change() as state:
        state.closed = None
    audit.record("open")
    print("users' containers start again when they log in")
