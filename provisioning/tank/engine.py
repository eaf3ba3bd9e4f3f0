"""The Docker engine, through its command line."""

import json
import re
import subprocess
from dataclasses import dataclass

from tank.errors import UNAVAILABLE, TankError

QUICK = 20  # seconds; an engine that does not answer by then counts as down
SLOW = 120


def docker(*arguments: str, timeout: float = QUICK, missing_ok: bool = False) -> str:
    """Run `docker ARGUMENTS...` without input; returns what it printed.

    With `missing_ok`, what the engine does not have gives "".

    Raises:
        TankError: it failed, or the engine is down.
    """
    try:
        done = subprocess.run(
            ["docker", *arguments],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=timeout,
        )
    except subprocess.TimeoutExpired:
        raise engine_down(f"it did not answer within {timeout:.0f} seconds") from None
    except FileNotFoundError:
        raise engine_down("docker is not installed") from None
    if done.returncode == 0:
        return done.stdout
    message = done.stderr.strip()
    if "Cannot connect to the Docker daemon" in message or "Is the docker daemon" in message:
        raise engine_down("it does not run")
    if missing_ok and re.search("no such|not found", message, re.IGNORECASE):
        return ""
    raise TankError(f"docker {arguments[0]} failed: {message}", status=UNAVAILABLE)


def engine_down(why: str) -> TankError:
    """The error of an engine that cannot be reached."""
    return TankError(
        f"the container engine of this machine is down ({why})",
        "Administrators: systemctl status docker; sudo systemctl restart docker",
        status=UNAVAILABLE,
    )


@dataclass(frozen=True)
class Found:
    """A container that the engine has."""

    image: str  # the name that it was made from
    running: bool
    started: str
    pid: int


def find(container: str) -> Found | None:
    """What the engine knows about a container; None if there is none of that name."""
    answer = docker("container", "inspect", container, missing_ok=True)
    if not answer.strip():
        return None
    found = json.loads(answer)[0]
    state = found["State"]
    return Found(found["Config"]["Image"], state["Running"], state["StartedAt"], state["Pid"])


@dataclass(frozen=True)
class Image:
    """What of an image matters here."""

    path: str  # its PATH
    version: str
    lock_hash: str | None  # None: not a PufferTank, nor made from one


def image(name: str) -> Image:
    """Look at an image of this machine.

    Raises:
        TankError: it is not there; nothing is ever pulled.
    """
    answer = docker("image", "inspect", name, missing_ok=True)
    if not answer.strip():
        raise TankError(
            f"the image {name} is not on this machine",
            "Administrators: load or build it (invoke load, invoke build-stage3), or move the user",
            "to one that is there: tank upgrade USER --image IMAGE",
            status=UNAVAILABLE,
        )
    found = json.loads(answer)[0]["Config"]
    environment = dict(entry.split("=", 1) for entry in found.get("Env") or ())
    labels = found.get("Labels") or {}
    return Image(
        path=environment.get("PATH", "/usr/local/bin:/usr/bin:/bin"),
        version=labels.get("org.opencontainers.image.version", ""),
        lock_hash=labels.get("io.puffertank.lock-hash"),
    )


def both_outputs(*arguments: str) -> str:
    """Run `docker ARGUMENTS...`; returns standard output and error as one text."""
    done = subprocess.run(
        ["docker", *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        timeout=QUICK,
    )
    return done.stdout
