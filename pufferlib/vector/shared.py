"""Memory and flags that the driver and its workers share."""

from __future__ import annotations

import mmap
import os
import tempfile
from collections.abc import Callable
from multiprocessing.synchronize import Semaphore

from pufferlib.buffers import ALIGNMENT, Buffers, Layout
from pufferlib.exceptions import APIUsageError

# Tries before a waiting process blocks. Each gives the core away, so a longer spin helps when the
# other side is about to finish and costs little when it is not.
SPINS = 50
# Seconds between looks at whether the other side still lives, while blocked.
PATIENCE = 0.2

yield_core: Callable[[], object] = getattr(os, "sched_yield", lambda: None)


class Status:
    """What a worker's status byte says; the driver sets it back to BUSY."""

    BUSY, DONE, HAS_MESSAGE = range(3)


class Command:
    """What a worker's command byte asks for."""

    STEP, RESET, CALL, CLOSE = range(4)


def acquire(semaphore: Semaphore, on_idle: Callable[[], None]) -> None:
    """Take `semaphore`: spin briefly, then block; `on_idle` runs now and then meanwhile."""
    attempt = semaphore.acquire
    for _ in range(SPINS):
        if attempt(False):
            return
        yield_core()
    while not attempt(True, PATIENCE):
        on_idle()


def create_block(nbytes: int) -> int:
    """A file descriptor of `nbytes` of zeroed memory that no file system shows.

    The kernel frees it with the last process that maps it, however that process ends, and the
    size of /dev/shm does not limit it.

    Raises:
        APIUsageError: there is not that much memory.
    """
    if hasattr(os, "memfd_create"):
        fd = os.memfd_create("pufferlib", os.MFD_CLOEXEC)
    else:
        with tempfile.TemporaryFile() as file:
            fd = os.dup(file.fileno())
    try:
        os.ftruncate(fd, nbytes)
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(fd, 0, nbytes)
    except OSError as error:
        os.close(fd)
        raise APIUsageError(
            f"the buffers need {nbytes:,} bytes of shared memory, which this machine or container "
            f"does not have ({error.strerror}); use fewer environments or smaller observations, or "
            "give the container more memory (docker run --memory)"
        ) from error
    return fd


class SharedBlock:
    """One mapping with a command byte and a status byte per worker, and all rows.

    Args:
        fd: of `create_block`, at least `SharedBlock.nbytes(...)` long.
    """

    def __init__(self, fd: int, layout: Layout, num_workers: int) -> None:
        self.memory = mmap.mmap(fd, self.nbytes(layout, num_workers))
        view = memoryview(self.memory)
        control = num_workers * ALIGNMENT
        # A cache line each, so that workers do not slow each other down.
        self.commands = view[:control:ALIGNMENT]
        self.statuses = view[control : 2 * control : ALIGNMENT]
        self.buffers: Buffers = layout.map(view[2 * control :])

    @staticmethod
    def nbytes(layout: Layout, num_workers: int) -> int:
        """Bytes that a block needs."""
        return 2 * num_workers * ALIGNMENT + layout.nbytes
