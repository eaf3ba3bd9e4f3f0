"""Verbs of `tank` about the containers of one user."""

import argparse
import json
import os
import time

from tank import containers, engine, gpus, store
from tank.engine import docker
from tank.errors import USAGE, TankError
from tank.store import CONTAINER_NAME, Container, State
from tank.table import table

MOST_CONTAINERS = 8


def _user(arguments: argparse.Namespace) -> str:
    if not arguments.user:
        raise TankError("expected --user USER: whose container?", status=USAGE)
    return arguments.user


def new(arguments: argparse.Namespace) -> None:
    """Make another container for the user."""
    user, name = _user(arguments), arguments.name
    if not CONTAINER_NAME.fullmatch(name):
        raise TankError(
            f"expected a name of small letters, digits, - and _, got {name!r}", status=USAGE
        )
    with store.change() as state:
        mine = state.user(user).containers
        if name in mine:
            raise TankError(
                f"there is a container {name} already", f"To enter it: tank enter {name}"
            )
        if len(mine) >= MOST_CONTAINERS:
            raise TankError(f"{user} has {len(mine)} containers, which is the most", "tank rm NAME")
        image = arguments.image or store.load_configuration().image
        if engine.image(image).lock_hash is None:
            raise TankError(f"expected a PufferTank image, or one made from it, got {image}")
        mine[name] = Container(image)
        containers.ensure_running(user, name, state)
    print(f"{name} runs, from {image}. To enter it: tank enter {name}")


def ls(arguments: argparse.Namespace) -> None:
    """Print the containers of one user, or of all."""
    print(listing(store.load(), arguments.user))


def listing(state: State, user: str | None) -> str:
    """The table of containers: of one user, or of all if None."""
    chosen = {user: state.user(user)} if user else state.users
    running = _statuses()
    rows = []
    for name, each in sorted(chosen.items()):
        for container, made in sorted(each.containers.items()):
            rows.append(
                (
                    name,
                    container + (" *" if container == each.default else ""),
                    running.get(containers.name_of(name, container), "not made"),
                    made.image,
                    describe_quota(each.quota),
                    _gpus_of(state, name, container),
                )
            )
    heading = ("USER", "CONTAINER", "STATUS", "IMAGE", "CPUS/MEMORY/SHM", "GPUS")
    return table(heading, rows)


def describe_quota(quota: store.Quota) -> str:
    """CPUs, memory and shared memory in one cell."""
    cpus = f"{quota.cpus:g}" if quota.cpus else "all"
    return f"{cpus}/{quota.memory or 'all'}/{quota.shm or 'half'}"


def _gpus_of(state: State, user: str, container: str) -> str:
    held = [
        gpu
        for gpu, lease in gpus.current(state).items()
        if (lease.user, lease.container) == (user, container)
    ]
    return f"{len(held)} leased" if held else state.user(user).quota.gpus.replace("all", "shared")


def _statuses() -> dict[str, str]:
    filters = ("--all", "--filter", "label=io.puffertank.user")
    lines = docker("ps", *filters, "--format", "{{.Names}}\t{{.Status}}").splitlines()
    return dict(line.split("\t", 1) for line in lines)


def enter(arguments: argparse.Namespace) -> None:
    """Put an administrator's terminal into a user's container."""
    user = _user(arguments)
    state = store.load()
    container = containers.choose(state, user, arguments.name)
    containers.ensure_running(user, container, state)
    name = containers.name_of(user, container)
    terminal = ["--tty"] if os.isatty(0) and os.isatty(1) else []
    os.execvp("docker", ["docker", "exec", "--interactive", *terminal, name, "bash", "--login"])


def default(arguments: argparse.Namespace) -> None:
    """Say which container ssh enters, or change it."""
    user = _user(arguments)
    if arguments.name is None:
        print(store.load().user(user).default)
        return
    with store.change() as state:
        state.user(user).default = containers.choose(state, user, arguments.name)
    print(f"ssh enters {arguments.name} from the next connection on")


def reset(arguments: argparse.Namespace) -> None:
    """Make a container anew, with the quota of now."""
    user = _user(arguments)
    state = store.load()
    name = containers.choose(state, user, arguments.name)
    refuse_if_busy(user, name, arguments.yes)
    containers.reset(user, name, state)
    print(f"{name} is new; the home is as it was")


def refuse_if_busy(user: str, container: str, yes: bool) -> None:
    """Nothing that runs is ended without being told so.

    Raises:
        TankError: something runs in it.
    """
    if not yes and containers.is_busy(user, container):
        raise TankError(
            f"programs run in {container} of {user}, and this would end them",
            "See them with 'ps x' in it. To go on: add --yes",
        )


def rm(arguments: argparse.Namespace) -> None:
    """Remove a container that is not the default."""
    user = _user(arguments)
    with store.change() as state:
        name = containers.choose(state, user, arguments.name)
        if name == state.user(user).default:
            raise TankError(
                f"{name} is the container that ssh enters",
                "Choose another one first (tank default NAME), or make it anew: tank reset",
            )
        refuse_if_busy(user, name, arguments.yes)
        containers.remove(user, name)
        del state.user(user).containers[name]
        for gpu, lease in list(state.leases.items()):
            if (lease.user, lease.container) == (user, name):
                del state.leases[gpu]
    print(f"{name} is gone; the home is as it was")


def logs(arguments: argparse.Namespace) -> None:
    """Print the end of what the container's start said, both its outputs in order."""
    user = _user(arguments)
    container = containers.choose(store.load(), user, arguments.name)
    name = containers.name_of(user, container)
    if engine.find(name) is None:
        raise TankError(f"{container} has not been started yet", f"tank enter {container}")
    print(engine.both_outputs("logs", "--tail", "100", name), end="")


def stats(arguments: argparse.Namespace) -> None:
    """Print what running containers use."""
    prefix = f"tank.{arguments.user}." if arguments.user else "tank."
    names = [
        name for name in docker("ps", "--format", "{{.Names}}").split() if name.startswith(prefix)
    ]
    rows = []
    if names:
        answer = docker("stats", "--no-stream", "--format", "{{json .}}", *sorted(names))
        for line in answer.splitlines():
            found = json.loads(line)
            _, user, container = found["Name"].split(".", 2)
            rows.append((user, container, found["CPUPerc"], found["MemUsage"], found["PIDs"]))
    print(table(("USER", "CONTAINER", "CPU", "MEMORY", "PROCESSES"), rows))


def gpu_lease(arguments: argparse.Namespace) -> None:
    """Take GPUs and make the container anew with them."""
    user = _user(arguments)
    if arguments.count < 1:
        raise TankError(f"expected 1 GPU or more, got {arguments.count}", status=USAGE)
    with store.change() as state:
        name = containers.choose(state, user, arguments.name)
        refuse_if_busy(user, name, arguments.yes)
        taken = gpus.lease(state, user, name, arguments.count, arguments.hours)
        containers.reset(user, name, state)
    print(f"{name} has GPU {', '.join(gpu.index for gpu in taken)} for itself")


def gpu_release(arguments: argparse.Namespace) -> None:
    """Give all leased GPUs back."""
    user = _user(arguments)
    with store.change() as state:
        freed = gpus.release(state, user)
    print(f"{len(freed)} GPUs are free again; 'tank reset' takes them from a running container")


def gpu_who(_: argparse.Namespace) -> None:
    """Print who has which GPU, and how busy it is."""
    leases = gpus.current(store.load())
    rows = []
    for gpu in gpus.installed():
        lease = leases.get(gpu.uuid)
        rows.append(
            (
                gpu.index,
                gpu.name,
                f"{gpu.utilization} %",
                f"{gpu.used}/{gpu.total} MiB",
                f"{lease.user} ({lease.container})" if lease else "shared",
                _clock(lease.until) if lease else "",
            )
        )
    print(table(("GPU", "MODEL", "BUSY", "MEMORY", "WHO", "UNTIL"), rows))


def _clock(seconds: float | None) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(seconds)) if seconds else "released"
