"""What this machine has and what is installed on it: facts for `puffer doctor`, no judgement.

Nothing here uses the network or changes anything, and nothing raises because a part is missing
or broken: that is a fact too.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import os
import platform
import shutil
import subprocess
import sys
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

import pufferlib
from pufferlib import environments, lock
from pufferlib.vector.sizes import CGROUP, cgroup_quota

GPU_FILES = ("proc/driver/nvidia/version", "dev/nvidia0", "dev/nvidiactl", "dev/dxg")
"""Below the root; the last one is WSL's."""

GPU_QUERY = (
    *("nvidia-smi", "--query-gpu=name,driver_version,compute_cap"),
    "--format=csv,noheader",
)

# In a process of its own: a broken CUDA may hang or crash, and torch should not slow the rest.
TORCH_PROBE = """
import json, torch
found = {"version": torch.__version__, "cuda": torch.version.cuda, "error": None}
if torch.version.cuda:
    try:
        torch.ones(2, device="cuda").sum().item()
    except Exception as error:
        found["error"] = str(error).splitlines()[0]
print(json.dumps(found))
"""


@dataclass(frozen=True)
class Torch:
    """The installed torch; `version` is None where it is missing or cannot be imported."""

    version: str | None
    cuda: str | None = None
    """CUDA version of the build; None: the CPU build."""
    error: str | None = None
    """Why it could not be imported, or could not compute on the GPU."""


@dataclass(frozen=True)
class Gpu:
    """One NVIDIA GPU as nvidia-smi describes it."""

    name: str
    driver: str
    capability: str


@dataclass(frozen=True)
class Machine:
    """The facts that `pufferlib.commands.checks` judges."""

    python: str
    library: str
    """Directory that pufferlib is imported from."""
    torch: Torch
    gpu_present: bool
    """The kernel shows an NVIDIA GPU."""
    gpus: tuple[Gpu, ...]
    gpu_error: str | None
    """What nvidia-smi said when it failed."""
    in_container: bool
    docker: bool
    toolkit: str | None
    """Version of the NVIDIA container toolkit."""
    shm_bytes: int | None
    """Size of /dev/shm; None where there is none (macOS)."""
    nofile: int
    cores: int
    quota: float | None
    memory_bytes: int
    disk_free_bytes: int
    environments: dict[str, tuple[str, tuple[str, ...]]]
    """State of each family (`installed`, `missing`, `impossible`) and what to do about it."""
    native: str
    """`fresh`, `stale` or `missing`."""
    lock: str | None
    differing: dict[str, tuple[str, str]]
    """Installed and locked version of packages where these are not the same."""
    image: dict[str, str]
    """What the image says about itself: version, revision, lock, id. Empty outside of one."""


def inspect() -> Machine:
    """Look at everything; takes about as long as importing torch."""
    gpus, gpu_error = nvidia_gpus()
    root = lock.find_root()
    return Machine(
        python=platform.python_version(),
        library=str(Path(pufferlib.__file__).parent),
        torch=installed_torch(),
        gpu_present=has_nvidia_gpu() or bool(gpus),
        gpus=gpus,
        gpu_error=gpu_error,
        in_container=in_container(),
        docker=shutil.which("docker") is not None,
        toolkit=_first_line(["nvidia-ctk", "--version"]),
        shm_bytes=shm_bytes(),
        nofile=open_files_limit(),
        cores=_affinity(),
        quota=cgroup_quota(CGROUP),
        memory_bytes=memory_bytes(CGROUP),
        disk_free_bytes=shutil.disk_usage(Path.cwd()).free,
        environments={row.name: (row.state, row.remedies) for row in environments.ROWS.values()},
        native=native_state(),
        lock=None if root is None else lock.lock_hash(root),
        differing={} if root is None else differing_packages(root),
        image=image_labels(os.environ),
    )


def has_nvidia_gpu(root: Path = Path("/")) -> bool:
    """Whether the kernel shows an NVIDIA GPU (WSL included); no driver tool is asked."""
    return any((root / name).exists() for name in GPU_FILES)


def nvidia_gpus() -> tuple[tuple[Gpu, ...], str | None]:
    """What nvidia-smi lists, and its message where it fails; neither where there is none."""
    if shutil.which(GPU_QUERY[0]) is None:
        return (), None
    try:
        result = subprocess.run(GPU_QUERY, capture_output=True, text=True, timeout=30)
    except (OSError, subprocess.TimeoutExpired) as error:
        return (), str(error)
    if result.returncode:
        return (), " ".join((result.stdout + result.stderr).split())
    rows = [line.rsplit(",", 2) for line in result.stdout.splitlines() if line.count(",") >= 2]
    return tuple(Gpu(*(part.strip() for part in row)) for row in rows), None


def installed_torch(probe: str = TORCH_PROBE) -> Torch:
    """Import torch in a new process and, if it is a CUDA build, compute on the GPU."""
    try:
        result = subprocess.run(
            [sys.executable, "-c", probe], capture_output=True, text=True, timeout=120
        )
    except subprocess.TimeoutExpired:
        return Torch(None, error="importing it took more than two minutes")
    if result.returncode:
        return Torch(None, error=(result.stderr.strip().splitlines() or ["it crashed"])[-1])
    return Torch(**json.loads(result.stdout.splitlines()[-1]))


def in_container() -> bool:
    """Whether this is a Docker or Podman container, or says that it is a PufferTank."""
    marks = (Path("/.dockerenv"), Path("/run/.containerenv"))
    return "PUFFERTANK_VERSION" in os.environ or any(mark.exists() for mark in marks)


def shm_bytes(path: Path = Path("/dev/shm")) -> int | None:
    """Size of the shared-memory file system."""
    if not path.is_dir():
        return None
    stats = os.statvfs(path)
    return stats.f_frsize * stats.f_blocks


def open_files_limit() -> int:
    """How many files a process may have open."""
    try:
        import resource
    except ImportError:  # Windows has no such limit
        return sys.maxsize
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return sys.maxsize if soft == resource.RLIM_INFINITY else soft


def memory_bytes(cgroup: Path) -> int:
    """Memory of the machine, cut by the limit of cgroup v2 or v1."""
    total = psutil.virtual_memory().total
    for name in ("memory.max", "memory/memory.limit_in_bytes"):
        try:
            return min(total, int((cgroup / name).read_text()))
        except (OSError, ValueError):  # no such file, or "max"
            continue
    return total


def native_state() -> str:
    """`fresh`, `stale` (the sources beside it have changed since) or `missing`."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from pufferlib import native
    return native.state()


def installed_packages() -> dict[str, str]:
    """Version of every installed distribution, by canonical name."""
    found = ((dist.metadata["Name"], dist.version) for dist in importlib.metadata.distributions())
    return dict(sorted((lock.canonical(name), version) for name, version in found if name))


def differing_packages(root: Path) -> dict[str, tuple[str, str]]:
    """Installed packages that the lock pins to another version; local versions do not count."""
    locked = lock.pins((root / lock.LOCK).read_text())
    return {
        name: (version, locked[name])
        for name, version in installed_packages().items()
        if name in locked and version.partition("+")[0] != locked[name]
    }


def image_labels(variables: Any) -> dict[str, str]:
    """What the image and the command that started it left in the environment."""
    names = {"version": "VERSION", "revision": "REVISION", "lock": "LOCK_HASH", "id": "IMAGE_ID"}
    found = {key: variables.get(f"PUFFERTANK_{name}", "") for key, name in names.items()}
    return {key: value for key, value in found.items() if value}


def describe_stack(machine: Machine) -> dict[str, Any]:
    """Everything that must be equal on two machines with the identical stack."""
    return {
        "pufferlib": pufferlib.__version__,
        "pufferlib sources": _hash_tree(Path(pufferlib.__file__).parent),
        "native core": machine.native,
        "lock": machine.lock,
        "python": f"{platform.python_implementation()} {machine.python}",
        "torch": machine.torch.version,
        "torch's CUDA": machine.torch.cuda,
        "system": f"{_os_name()} {platform.machine()}",
        "libc": " ".join(platform.libc_ver()),
        "image": machine.image,
        "packages": installed_packages(),
        # Outside an image they are the machine's own business.
        "system packages": _debian_packages() if machine.in_container else {},
    }


def _hash_tree(package: Path) -> str:
    digest = hashlib.sha256()
    for path in sorted(package.rglob("*")):
        # What source trees and wheels have in common; native sources and the lock stand elsewhere.
        if path.suffix in (".py", ".toml"):
            content = hashlib.sha256(path.read_bytes()).hexdigest()
            digest.update(f"{path.relative_to(package).as_posix()} {content}\n".encode())
    return digest.hexdigest()[:12]


def _os_name() -> str:
    try:
        return platform.freedesktop_os_release()["PRETTY_NAME"]
    except (OSError, KeyError):
        return f"{platform.system()} {platform.release()}"


def _debian_packages() -> dict[str, str]:
    text = _output(["dpkg-query", "-W", "-f", "${Package}:${Architecture}=${Version}\n"]) or ""
    return dict(sorted(line.split("=", 1) for line in text.splitlines() if "=" in line))


def _affinity() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _first_line(command: Sequence[str]) -> str | None:
    return (_output(command) or "").partition("\n")[0].strip() or None


def _output(command: Sequence[str]) -> str | None:
    try:
        result = subprocess.run(command, capture_output=True, text=True, timeout=30)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return result.stdout if result.returncode == 0 else None
