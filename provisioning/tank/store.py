"""What is known about users, containers and leases: one JSON file, changed under a lock."""

import contextlib
import dataclasses
import fcntl
import json
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tank.errors import TankError

CONFIGURATION = Path("/etc/tank/users.json")
STATE = Path("/var/lib/tank/state.json")
RUN = Path("/run/tank/users")
VERBS = Path("/run/tank/verbs")  # where the socket of verbs.py is

USER_NAME = re.compile(r"[a-z][a-z0-9_-]{0,30}")
CONTAINER_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,30}")
SIZE = re.compile(r"[1-9][0-9]*[kmg]?")
DISK = re.compile(r"[1-9][0-9]*[kmgt]")
MAIN = "main"

# What lets a user in: a key of ~/.ssh/authorized_keys, a device of the user's in the tailnet, or
# both of them together.
KEY, TAILNET, BOTH = CREDENTIALS = ("key", "tailnet", "both")


@dataclass(frozen=True)
class Quota:
    """The most that each container of a user gets. None: as much as the machine has.

    `gpus` is "all" (shared with everybody), or how many a user may lease. `disk` is of the home.
    """

    cpus: float | None = None
    memory: str | None = None
    shm: str | None = None
    pids: int = 8192
    gpus: str = "all"
    disk: str | None = None

    def __post_init__(self) -> None:
        for name, value, pattern, example in (
            ("memory", self.memory, SIZE, "64g"),
            ("shm", self.shm, SIZE, "8g"),
            ("gpus", self.gpus, re.compile(r"all|[0-9]{1,3}"), "all or 2"),
            ("disk", self.disk, DISK, "100g"),
        ):
            if value is not None and not pattern.fullmatch(value):
                raise TankError(
                    f"{name}: expected something like {example}, got {value!r}", status=2
                )
        if self.cpus is not None and self.cpus <= 0:
            raise TankError(f"cpus: expected more than 0, got {self.cpus}", status=2)


@dataclass(frozen=True)
class Container:
    """A container of a user; `previous` is the image before the last upgrade."""

    image: str
    previous: str | None = None


@dataclass
class User:
    """A user of the machine. `default` is the container that `ssh` enters."""

    uid: int
    gid: int
    home: str
    quota: Quota = field(default_factory=Quota)
    default: str = MAIN
    containers: dict[str, Container] = field(default_factory=dict)
    credential: str = KEY
    tailscale: str | None = None  # the login whose devices they are; None: nobody's


@dataclass(frozen=True)
class Lease:
    """A GPU that one user's container has for itself; `until` in seconds since the epoch."""

    user: str
    container: str
    since: float
    until: float | None = None


@dataclass
class State:
    """All of the file. `leases` are by the GPU's UUID."""

    users: dict[str, User] = field(default_factory=dict)
    leases: dict[str, Lease] = field(default_factory=dict)
    closed: str | None = None  # why no container is started at the moment

    def user(self, name: str) -> User:
        """The user of that name.

        Raises:
            TankError: there is none.
        """
        if name not in self.users:
            raise TankError(
                f"expected a user of this machine, got {name!r}",
                f"There are: {' '.join(sorted(self.users)) or 'none'}.",
                "To add one: tank user add NAME --key FILE",
            )
        return self.users[name]


@dataclass(frozen=True)
class Configuration:
    """What provisioning wrote: the image and quota of new users, and whom they ask."""

    image: str = "puffertank/tank:cpu"
    contact: str = "your administrator"
    quota: Quota = field(default_factory=Quota)


def load_configuration() -> Configuration:
    """Read the configuration; the defaults where there is none."""
    if not CONFIGURATION.exists():
        return Configuration()
    found = json.loads(CONFIGURATION.read_text())
    return Configuration(**{**found, "quota": Quota(**found.get("quota", {}))})


def load() -> State:
    """Read the state as it is now."""
    try:
        found = json.loads(STATE.read_text())
    except FileNotFoundError:
        return State()
    users = {name: _user(entry) for name, entry in found["users"].items()}
    leases = {gpu: Lease(**entry) for gpu, entry in found["leases"].items()}
    return State(users, leases, found.get("closed"))


def _user(entry: dict) -> User:
    containers = {name: Container(**each) for name, each in entry["containers"].items()}
    return User(**{**entry, "quota": Quota(**entry["quota"]), "containers": containers})


@contextlib.contextmanager
def change() -> Iterator[State]:
    """The state, to be changed by one process at a time; written if nothing was raised."""
    STATE.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    with lock(STATE.with_suffix(".lock")):
        state = load()
        yield state
        new = STATE.with_suffix(".new")
        with new.open("w") as file:
            json.dump(dataclasses.asdict(state), file, indent=2)
            file.flush()
            os.fsync(file.fileno())
        new.replace(STATE)


@contextlib.contextmanager
def lock(path: Path) -> Iterator[None]:
    """Hold the file's lock; the kernel frees it with the process."""
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


@contextlib.contextmanager
def user_lock(user: str) -> Iterator[None]:
    """One process at a time makes or starts containers of a user."""
    RUN.mkdir(mode=0o755, parents=True, exist_ok=True)
    with lock(RUN / f"{user}.lock"):
        yield
