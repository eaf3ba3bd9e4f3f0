"""What a run uses of the machine. Sampled when asked: no thread, nothing to shut down."""

from __future__ import annotations

import time
from dataclasses import dataclass

import psutil

GIB = 1024**3


@dataclass(frozen=True)
class Usage:
    """One sample. Memory in GiB, shares in percent; GPU fields are None where there is none."""

    cpu_percent: float
    """Use of all cores of the machine: 100 means every core is busy."""
    ram_used: float
    ram_total: float
    gpu_percent: float | None = None
    vram_used: float | None = None
    vram_total: float | None = None


class Monitor:
    """Samples the machine at most once per `interval` seconds; between samples repeats the last.

    The GPU's memory comes from CUDA, its load from NVML where that library is installed.
    """

    def __init__(self, interval: float = 1.0) -> None:
        self._interval = interval
        self._next = 0.0
        psutil.cpu_percent()  # starts the measurement that the first sample ends
        self._usage = self._measure()

    def sample(self) -> Usage:
        """The latest usage."""
        if time.monotonic() >= self._next:
            self._usage = self._measure()
        return self._usage

    def _measure(self) -> Usage:
        self._next = time.monotonic() + self._interval
        memory = psutil.virtual_memory()
        return Usage(
            psutil.cpu_percent(),
            (memory.total - memory.available) / GIB,
            memory.total / GIB,
            *_gpu(),
        )


def _gpu() -> tuple[float | None, float | None, float | None]:
    """Load in percent, memory in use and memory in all (GiB) of the current CUDA device."""
    import torch

    if not torch.cuda.is_available():
        return None, None, None
    free, total = torch.cuda.mem_get_info()
    return _gpu_load(), (total - free) / GIB, total / GIB


def _gpu_load() -> float | None:
    import torch

    try:
        return float(torch.cuda.utilization())
    except Exception:  # NVML is optional and fails in its own ways; the load is only shown
        return None
