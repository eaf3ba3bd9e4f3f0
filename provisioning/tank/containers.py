"""Containers of users: the flags they run with, and their lives."""

import os
import resource
import shutil
import socket
from pathlib import Path

from tank import audit, engine, gpus, store
from tank.engine import SLOW, docker
from tank.errors import UNAVAILABLE, TankError
from tank.store import Container, State, User

# Where a container sees store.RUN / USER, and store.VERBS.
MOUNTED = "/run/tank"
MOUNTED_VERBS = "/run/tank-verbs"
MOST_FILES = 1048576


def name_of(user: str, container: str) -> str:
    """The engine's name of a container. Names of users and containers have no dot."""
    return f"tank.{user}.{container}"


def network_of(user: str) -> str:
    """The engine's name of a user's own network."""
    return f"tank.{user}"


def choose(state: State, user: str, wanted: str | None) -> str:
    """The container that was asked for, or the user's default.

    Raises:
        TankError: the user has none of that name.
    """
    containers = state.user(user).containers
    chosen = wanted or state.user(user).default
    if chosen not in containers:
        raise TankError(
            f"expected a container of {user}, got {chosen!r}",
            f"There are: {' '.join(sorted(containers)) or 'none'}. To make one: tank new NAME",
        )
    return chosen


def flags(user: str, container: str, state: State) -> list[str]:
    """All flags of `docker create` but the image: nobody is root inside, nor can become it."""
    account = state.user(user)
    quota = account.quota
    files = min(MOST_FILES, resource.getrlimit(resource.RLIMIT_NOFILE)[1])
    names = _names_directory(user, container)
    words = [
        "--name", name_of(user, container),
        "--hostname", f"{socket.gethostname().split('.')[0]}-{container}",
        "--label", f"io.puffertank.user={user}",
        "--label", f"io.puffertank.container={container}",
        "--user", f"{account.uid}:{account.gid}",
        "--init",
        "--cap-drop", "ALL",
        "--security-opt", "no-new-privileges",
        "--pids-limit", str(quota.pids),
        "--shm-size", quota.shm or _half_of_memory(),
        "--ulimit", f"nofile={files}:{files}",
        "--network", network_of(user),
        "--mount", f"type=bind,src={account.home},dst={account.home}",
        "--mount", f"type=bind,src={names}/passwd,dst=/etc/passwd,readonly",
        "--mount", f"type=bind,src={names}/group,dst=/etc/group,readonly",
        "--mount", f"type=bind,src={store.RUN}/{user},dst={MOUNTED},readonly",
        "--mount", f"type=bind,src={store.VERBS},dst={MOUNTED_VERBS},readonly",
        "--workdir", account.home,
        "--env", f"HOME={account.home}",
        "--env", f"USER={user}",
        "--env", f"LOGNAME={user}",
        "--env", "SHELL=/bin/bash",
    ]  # fmt: skip
    if quota.cpus:
        words += ["--cpus", f"{quota.cpus:g}"]
    if quota.memory:
        words += ["--memory", quota.memory, "--memory-swap", quota.memory]
    return words + gpus.flags(state, user, container)


def _half_of_memory() -> str:
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") >> 20
    return f"{min(memory // 2, 16384)}m"


def _names_directory(user: str, container: str) -> Path:
    return store.STATE.parent / "names" / user / container


def create(user: str, container: str, state: State) -> None:
    """Make the container, not running; the user's network and directories, too, if need be."""
    account = state.user(user)
    wanted = account.containers[container].image
    image = engine.image(wanted)
    _write_names(user, container, account, wanted)
    _ensure_network(user)
    ensure_run_directory(user, account)
    path = f"{image.path}:{account.home}/.local/bin"
    docker(
        "create", *flags(user, container, state), "--env", f"PATH={path}", wanted,
        "sleep", "infinity",
        timeout=SLOW,
    )  # fmt: skip
    audit.record("create", user=user, container=container, image=wanted)


def _ensure_network(user: str) -> None:
    name = network_of(user)
    if not docker("network", "inspect", name, missing_ok=True).strip():
        docker("network", "create", "--label", f"io.puffertank.user={user}", name)


def ensure_run_directory(user: str, account: User) -> None:
    """Where sockets go that a session shares with the container. /run is empty after a reboot."""
    store.VERBS.mkdir(mode=0o755, parents=True, exist_ok=True)
    directory = store.RUN / user
    sessions = directory / "sessions"
    sessions.mkdir(mode=0o755, parents=True, exist_ok=True)
    shutil.chown(sessions, account.uid, account.gid)
    sessions.chmod(0o700)


def _write_names(user: str, container: str, account: User, image: str) -> None:
    """The image's passwd and group with the user in them."""
    directory = _names_directory(user, container)
    directory.mkdir(mode=0o755, parents=True, exist_ok=True)
    read = ("run", "--rm", "--network", "none", "--entrypoint", "cat", image)
    entries = {
        "passwd": f"{user}:x:{account.uid}:{account.gid}::{account.home}:/bin/bash",
        "group": f"{user}:x:{account.gid}:",
    }
    printed = docker(*read, "/etc/passwd", "/etc/group", timeout=SLOW).splitlines()
    for name, entry in entries.items():
        fields = entry.count(":")
        theirs = [line for line in printed if line.count(":") == fields]
        # The container has the file itself mounted, so it is replaced, not rewritten.
        new = directory / f"{name}.new"
        new.write_text("\n".join([*without(theirs, entry), entry]) + "\n")
        new.chmod(0o644)
        new.replace(directory / name)


def without(lines: list[str], entry: str) -> list[str]:
    """Lines of a passwd or group file that share neither name nor id with `entry`."""
    name, _, number = entry.split(":")[:3]
    kept = []
    for line in lines:
        fields = line.split(":")
        if fields[0] != name and fields[2] != number:
            kept.append(line)
    return kept


def ensure_running(user: str, container: str, state: State) -> engine.Found:
    """Start the container if it does not run, and make it first if it is gone.

    Raises:
        TankError: it cannot be started, in words for the user.
    """
    name = name_of(user, container)
    found = engine.find(name)
    if found and found.running:
        return found
    if state.closed is not None:
        raise TankError(
            f"no container is started at the moment: {state.closed}", status=UNAVAILABLE
        )
    with store.user_lock(user):
        if engine.find(name) is None:
            create(user, container, state)
        ensure_run_directory(user, state.user(user))
        docker("start", name, timeout=SLOW)
    started = engine.find(name)
    if started is None or not started.running:
        raise TankError(
            f"the container {container} ended as soon as it was started",
            f"What it said: tank logs {container}. To make it anew (the home stays): "
            f"tank reset {container}",
            status=UNAVAILABLE,
        )
    audit.record("start", user=user, container=container)
    return started


def is_busy(user: str, container: str) -> bool:
    """Whether anything runs in the container besides its init and what keeps it open."""
    name = name_of(user, container)
    found = engine.find(name)
    if found is None or not found.running:
        return False
    return len(docker("top", name, "-eo", "pid").split()) > 3  # the heading and those two


def remove(user: str, container: str) -> None:
    """Stop and remove a container; its user's home stays."""
    docker("rm", "--force", name_of(user, container), timeout=SLOW, missing_ok=True)
    shutil.rmtree(_names_directory(user, container), ignore_errors=True)
    audit.record("remove", user=user, container=container)


def reset(user: str, container: str, state: State) -> None:
    """Replace a container by a new one of the same image, with the user's quota of now."""
    engine.image(state.user(user).containers[container].image)  # else the old one stays
    with store.user_lock(user):
        remove(user, container)
        create(user, container, state)
    ensure_running(user, container, state)


def upgrade(user: str, container: str, image: str, state: State) -> None:
    """Move a container to another image; if that fails its checks, the old one goes on.

    Raises:
        TankError: the new image does not start here; nothing has changed.
    """
    engine.image(image)
    name, spare = name_of(user, container), name_of(user, f"{container}.old")
    before = state.user(user).containers[container]
    with store.user_lock(user):
        docker("rm", "--force", spare, missing_ok=True, timeout=SLOW)
        had = engine.find(name)
        if had:
            docker("stop", "--time", "10", name, timeout=SLOW)
            docker("rename", name, spare)
        state.user(user).containers[container] = Container(image, previous=before.image)
        try:
            create(user, container, state)
            docker("start", name, timeout=SLOW)
            docker("exec", name, "python", "-c", "import pufferlib", timeout=SLOW)
        except TankError as error:
            state.user(user).containers[container] = before
            _restore(name, spare, had)
            raise TankError(
                f"{container} of {user} stays on {before.image}: {image} does not work here",
                *str(error).splitlines(),
                status=UNAVAILABLE,
            ) from error
        docker("rm", "--force", spare, missing_ok=True, timeout=SLOW)
    audit.record("upgrade", user=user, container=container, image=image, previous=before.image)


def _restore(name: str, spare: str, had: engine.Found | None) -> None:
    docker("rm", "--force", name, missing_ok=True, timeout=SLOW)
    if had:
        docker("rename", spare, name)
        if had.running:
            docker("start", name, timeout=SLOW)
