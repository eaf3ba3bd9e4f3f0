"""GPUs: who has which one, and the flags that give them to a container."""

import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

from tank import audit
from tank.errors import TankError
from tank.store import Lease, State

DEVICES = Path("/dev")
# Beside a GPU's own device.
SHARED_DEVICES = ("nvidiactl", "nvidia-uvm", "nvidia-uvm-tools", "nvidia-modeset")
QUERY = "index,uuid,name,utilization.gpu,memory.used,memory.total"


@dataclass(frozen=True)
class Gpu:
    """A GPU of this machine, as nvidia-smi reports it."""

    index: str
    uuid: str
    name: str
    utilization: str  # per cent
    used: str  # MiB
    total: str  # MiB


def installed() -> list[Gpu]:
    """The machine's GPUs; none without a driver that answers."""
    command = ["nvidia-smi", f"--query-gpu={QUERY}", "--format=csv,noheader,nounits"]
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=20
        )
    except (FileNotFoundError, subprocess.TimeoutExpired):
        return []
    if done.returncode:
        return []
    return [Gpu(*map(str.strip, line.split(",", 5))) for line in done.stdout.splitlines() if line]


def flags(state: State, user: str, container: str) -> list[str]:
    """The flags of `docker create` for the GPUs of a container.

    The device nodes are named one by one beside --gpus: systemd rewrites the device rules of a
    running container at each daemon-reload, and keeps only what the engine was told of.
    """
    found = installed()
    if not found:
        return []
    leased = {gpu for gpu, lease in current(state).items() if lease.user == user}
    mine = {g for g in leased if state.leases[g].container == container}
    if state.user(user).quota.gpus == "all":
        others = set(current(state)) - leased
        chosen = [gpu for gpu in found if gpu.uuid not in others]
    else:
        chosen = [gpu for gpu in found if gpu.uuid in mine]
    if not chosen:
        return []
    nodes = [*SHARED_DEVICES, *(f"nvidia{gpu.index}" for gpu in chosen)]
    words = ["--gpus", '"device=' + ",".join(gpu.uuid for gpu in chosen) + '"']
    for node in nodes:
        if (DEVICES / node).exists():
            words += ["--device", str(DEVICES / node)]
    return words


def current(state: State) -> dict[str, Lease]:
    """Leases that have not run out."""
    now = time.time()
    return {gpu: each for gpu, each in state.leases.items() if not each.until or each.until > now}


def lease(state: State, user: str, container: str, count: int, hours: float | None) -> list[Gpu]:
    """Take `count` GPUs that nobody has; the container gets them when it is made anew.

    Raises:
        TankError: the user may not have so many, or too few are free.
    """
    state.leases = current(state)
    most = state.user(user).quota.gpus
    held = sum(each.user == user for each in state.leases.values())
    if most != "all" and held + count > int(most):
        raise TankError(f"{user} may lease {most} GPUs and has {held}: expected fewer than {count}")
    free = [gpu for gpu in installed() if gpu.uuid not in state.leases]
    if len(free) < count:
        raise TankError(
            f"expected {count} free GPUs, got {len(free)}", "Who has them: tank gpu who"
        )
    now = time.time()
    until = now + hours * 3600 if hours else None
    for gpu in free[:count]:
        state.leases[gpu.uuid] = Lease(user, container, now, until)
    audit.record("lease", user=user, container=container, gpus=[gpu.uuid for gpu in free[:count]])
    return free[:count]


def release(state: State, user: str) -> list[str]:
    """Give back all GPUs of a user; returns their UUIDs."""
    freed = [gpu for gpu, each in state.leases.items() if each.user == user]
    for gpu in freed:
        del state.leases[gpu]
    if freed:
        audit.record("release", user=user, gpus=freed)
    return freed
