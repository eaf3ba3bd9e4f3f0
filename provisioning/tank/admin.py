"""Verbs of `tank` that only administrators have."""

import argparse
import dataclasses
import json
import subprocess
import sys
from pathlib import Path

from tank import audit, containers, gpus, own, store, users
from tank.engine import SLOW, docker
from tank.errors import USAGE, TankError
from tank.store import State
from tank.table import table

QUOTAS = ("memory", "shm", "gpus")


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
            "expected --key FILE: without one nobody can log in as the user", status=USAGE
        )
    image = arguments.image or configuration.image
    with store.change() as state:
        users.add(state, arguments.name, keys, quota, image, arguments.tailscale)
    print(f"{arguments.name} may log in: ssh {arguments.name}@THIS-MACHINE")


def _read_keys(file: str | None) -> str:
    if file is None:
        return ""
    try:
        return sys.stdin.read() if file == "-" else Path(file).read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise TankError(f"--key: cannot read {file}: {error}") from None


def user_set(arguments: argparse.Namespace) -> None:
    """Change a quota, or the identity in the tailnet."""
    with store.change() as state:
        user = state.user(arguments.name)
        users.set_quota(state, arguments.name, users.with_changes(user.quota, _changes(arguments)))
        if arguments.tailscale is not None:
            user.tailscale = None if arguments.tailscale == "none" else arguments.tailscale
    print(f"{arguments.name} gets it with the next 'tank reset --user {arguments.name}'")


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
        _disk(user.home),
        user.tailscale,
    )


def _disk(home: str) -> str:
    """Reported, not limited: the size of the home on its own file system."""
    done = subprocess.run(
        ["du", "--one-file-system", "--summarize", "--human-readable", home],
        stdin=subprocess.DEVNULL, capture_output=True, text=True,
    )  # fmt: skip
    return done.stdout.split("\t")[0] if done.stdout else "?"


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
