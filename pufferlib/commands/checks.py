"""The judgement of `puffer doctor`: one line per part of the stack, with a remedy where it fails.

Every check is a pure function of the facts in `pufferlib.commands.machine`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from pufferlib import __version__, lock
from pufferlib.commands.machine import Machine

GIB = 2**30
MIB = 2**20

MIN_PYTHON = (3, 11)
MIN_SHM = 256 * MIB
MIN_FILES = 1024
MIN_MEMORY = 2 * GIB
MIN_DISK, LOW_DISK = GIB // 2, 5 * GIB

# What nvidia-smi says when it fails, and what helps.
GPU_REMEDIES = (
    (
        "Driver/library version mismatch",
        "the driver was upgraded under a loaded kernel module: reboot the host",
    ),
    (
        "Failed to initialize NVML: Unknown Error",
        "this container lost its GPU (systemd rewrote the device rules): restart the container",
    ),
    (
        "couldn't communicate with the NVIDIA driver",
        "the kernel module is not loaded: reboot the host; if it stays, see 'dkms status' and "
        "whether Secure Boot refuses it ('mokutil --sb-state')",
    ),
)

CPU_IMAGE = "or use the CPU variant"

Status = Literal["ok", "warning", "failed"]


@dataclass(frozen=True)
class Line:
    """One row of the table."""

    name: str
    status: Status
    found: str
    remedy: str = ""


def run_checks(machine: Machine) -> list[Line]:
    """All lines in the order they are shown."""
    return [check(machine) for check in CHECKS]


def check_python(machine: Machine) -> Line:
    """3.11 or newer."""
    version = tuple(int(part) for part in re.findall(r"\d+", machine.python)[:2])
    if version < MIN_PYTHON:
        return Line("Python", "failed", machine.python, "pufferlib needs Python 3.11 or newer")
    return Line("Python", "ok", machine.python)


def check_library(machine: Machine) -> Line:
    """Which pufferlib this is: several checkouts may be around."""
    return Line("pufferlib", "ok", f"{__version__} in {machine.library}")


def check_torch(machine: Machine) -> Line:
    """Importable; the line of the lock compares versions."""
    torch = machine.torch
    if torch.version is None:
        remedy = "install again under the lock: pip install -c constraints.txt torch"
        return Line("torch", "failed", f"cannot be imported: {torch.error}", remedy)
    variant = f"CUDA {torch.cuda}" if torch.cuda else "CPU"
    return Line("torch", "ok", f"{torch.version} ({variant} variant)")


def check_cuda(machine: Machine) -> Line:
    """The GPU of this machine, if it has one, computes."""
    torch = machine.torch
    if not machine.gpu_present or _gpu_stays_outside(machine):
        return Line("CUDA", "ok", "no NVIDIA GPU here, training runs on the CPU")
    if torch.cuda is None:
        remedy = "install torch's CUDA build, or use the CUDA image (invoke build-stage3 --cuda)"
        return Line("CUDA", "warning", "there is a GPU, but torch is the CPU variant", remedy)
    if torch.error is not None:
        remedy = "see the lines of the driver and the GPU below; they say what does not fit"
        return Line("CUDA", "failed", f"torch cannot use the GPU: {torch.error}", remedy)
    return Line("CUDA", "ok", f"{torch.cuda}, the GPU computes")


def check_driver(machine: Machine) -> Line:
    """Answers, and is not older than the lock's torch demands."""
    if machine.gpu_error is not None:
        remedies = [text for said, text in GPU_REMEDIES if said in machine.gpu_error]
        remedy = remedies[0] if remedies else "make 'nvidia-smi' work on the host first"
        return Line("NVIDIA driver", "failed", f"nvidia-smi says: {machine.gpu_error}", remedy)
    if not machine.gpus:
        return _driver_without_answer(machine)
    driver = machine.gpus[0].driver
    minimum = f"torch for CUDA {lock.TORCH_CUDA} needs {lock.MIN_DRIVER} or newer"
    if int(driver.partition(".")[0]) >= lock.MIN_DRIVER:
        return Line("NVIDIA driver", "ok", f"{driver} ({minimum})")
    status: Status = "failed" if machine.torch.cuda else "warning"
    remedy = f"upgrade the host's driver to {lock.MIN_DRIVER} or newer, {CPU_IMAGE}"
    return Line("NVIDIA driver", status, f"{driver}, but {minimum}", remedy)


def _driver_without_answer(machine: Machine) -> Line:
    if not machine.gpu_present or _gpu_stays_outside(machine):
        return Line("NVIDIA driver", "ok", "not needed")
    if machine.in_container:
        remedy = "start the container with the GPU: docker/run-tank.sh, or docker run --gpus all"
    else:
        remedy = f"install the driver, {lock.MIN_DRIVER} or newer, with its nvidia-smi"
    return Line("NVIDIA driver", "failed", "there is a GPU, but no nvidia-smi lists it", remedy)


def _gpu_stays_outside(machine: Machine) -> bool:
    """A CPU image on a host with a GPU: the kernel shows it, but nobody asked for it."""
    asked_for = machine.torch.cuda is not None or machine.gpus or machine.gpu_error is not None
    return machine.in_container and not asked_for


def check_capability(machine: Machine) -> Line:
    """Every GPU is of a generation that the lock's torch is compiled for."""
    name = "GPU"
    if not machine.gpus:
        return Line(name, "ok", "none")
    found = "; ".join(f"{gpu.name} (compute capability {gpu.capability})" for gpu in machine.gpus)
    old = [gpu for gpu in machine.gpus if _numbers(gpu.capability) < lock.MIN_COMPUTE_CAPABILITY]
    if not old:
        return Line(name, "ok", found)
    minimum = ".".join(map(str, lock.MIN_COMPUTE_CAPABILITY))
    remedy = f"torch {lock.TORCH} needs compute capability {minimum} (Turing) or newer"
    return Line(
        name, "failed" if machine.torch.cuda else "warning", found, f"{remedy}; {CPU_IMAGE}"
    )


def check_toolkit(machine: Machine) -> Line:
    """Docker can hand GPUs to containers, where both are there."""
    name = "container toolkit"
    if machine.toolkit is not None:
        return Line(name, "ok", machine.toolkit)
    if machine.in_container or not machine.docker or not machine.gpu_present:
        return Line(name, "ok", "not needed")
    remedy = "containers get no GPU: install nvidia-container-toolkit (provisioning does)"
    return Line(name, "warning", "Docker and a GPU, but no nvidia-ctk", remedy)


def check_shm(machine: Machine) -> Line:
    """Room for what processes exchange through /dev/shm, such as DataLoader workers."""
    name = "shared memory"
    if machine.shm_bytes is None:
        return Line(name, "ok", "no /dev/shm on this system")
    found = f"{_size(machine.shm_bytes)} at /dev/shm"
    if machine.shm_bytes >= MIN_SHM:
        return Line(name, "ok", found)
    remedy = (
        "docker run --shm-size=2g (docker/run-tank.sh and compose set it)"
        if machine.in_container
        else "mount -o remount,size=2g /dev/shm"
    )
    return Line(name, "failed", f"{found}, expected {_size(MIN_SHM)} or more", remedy)


def check_files(machine: Machine) -> Line:
    """Many workers need many open files."""
    found = f"{machine.nofile}" if machine.nofile < 2**30 else "unlimited"
    if machine.nofile >= MIN_FILES:
        return Line("open files", "ok", found)
    remedy = f"ulimit -n {MIN_FILES}; in containers docker run --ulimit nofile={MIN_FILES}"
    return Line("open files", "warning", found, remedy)


def check_cores(machine: Machine) -> Line:
    """Cores and memory that this process may use."""
    cores = f"{machine.cores}" if machine.quota is None else f"{machine.quota:g} of {machine.cores}"
    found = f"{cores} cores, {_size(machine.memory_bytes)} of memory"
    if machine.memory_bytes >= MIN_MEMORY:
        return Line("cores and memory", "ok", found)
    remedy = "give it more (docker run --memory), or train with few, small environments"
    return Line("cores and memory", "warning", found, remedy)


def check_disk(machine: Machine) -> Line:
    """Room for runs in the working directory."""
    found = f"{_size(machine.disk_free_bytes)} free here"
    if machine.disk_free_bytes >= LOW_DISK:
        return Line("disk", "ok", found)
    status: Status = "failed" if machine.disk_free_bytes < MIN_DISK else "warning"
    return Line("disk", status, found, "free some: docker system prune, pip cache purge, old runs/")


def check_environments(machine: Machine) -> Line:
    """Which families are installed, and what brings each other one; none of them is a must."""
    rows = machine.environments.items()
    installed = [name for name, (state, _) in rows if state == "installed"]
    lines = [", ".join(installed)]
    for name, (state, remedies) in rows:
        if remedies:
            what = "cannot be installed here, " if state == "impossible" else ""
            lines.append(f"{name}: {what}{'; '.join(remedies)}")
    return Line("environments", "ok", "\n".join(lines))


def check_native(machine: Machine) -> Line:
    """Compiled, and from the sources that are there."""
    name = "native core"
    if machine.native == "stale":
        command = "tank install" if machine.image else "pip install --no-deps -e ."
        remedy = f"rebuild it in the repository: {command}"
        return Line(name, "failed", "older than its sources", remedy)
    if machine.native == "missing":
        remedy = "install a C++ compiler (apt install g++ python3-dev) and pufferlib again"
        return Line(name, "warning", "not built, the slower NumPy functions are used", remedy)
    return Line(name, "ok", "built from these sources")


def check_packages(machine: Machine) -> Line:
    """Installed versions are those of the lock."""
    if machine.lock is None:
        remedy = "install pufferlib from its wheel or a complete source tree"
        return Line("lock", "failed", "no constraints.txt beside this pufferlib", remedy)
    if not machine.differing:
        return Line("lock", "ok", f"{machine.lock}, all installed versions are its")
    shown = [f"{name} {got} instead of {pin}" for name, (got, pin) in machine.differing.items()]
    rest = f" and {len(shown) - 3} more" if len(shown) > 3 else ""
    remedy = "install again under the lock: pip install -c constraints.txt pufferlib"
    return Line("lock", "warning", f"{machine.lock}, but {', '.join(shown[:3])}{rest}", remedy)


def check_image(machine: Machine) -> Line:
    """The image was built from the lock of the library that runs in it."""
    image = machine.image
    if "version" not in image:
        return Line("image", "ok", "another container" if machine.in_container else "none")
    found = ", ".join(f"{key} {value}" for key, value in image.items())
    if image.get("lock", "unknown") in (machine.lock, "unknown"):
        return Line("image", "ok", found)
    remedy = "build or pull the image of this checkout: invoke build-stage3, invoke pull"
    return Line("image", "failed", f"{found}; the library's lock is {machine.lock}", remedy)


CHECKS: tuple[Callable[[Machine], Line], ...] = (
    check_python,
    check_library,
    check_torch,
    check_cuda,
    check_driver,
    check_capability,
    check_toolkit,
    check_shm,
    check_files,
    check_cores,
    check_disk,
    check_environments,
    check_native,
    check_packages,
    check_image,
)


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version))


def _size(count: int) -> str:
    return f"{count / GIB:.1f} GiB" if count >= GIB else f"{count / MIB:.0f} MiB"
