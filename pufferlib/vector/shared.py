"""Memory, flags and semaphores that the driver and its workers share."""

from __future__ import annotations

import contextlib
import mmap
import os
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.context import BaseContext
from multiprocessing.synchronize import Semaphore
from pathlib import Path
from time import perf_counter

import numpy as np
import psutil

from pufferlib.buffers import ALIGNMENT, Buffers, Layout
from pufferlib.exceptions import APIUsageError
from pufferlib.vector.sizes import CGROUP

# Seconds that a waiting process looks again and again before it blocks, giving its core away
# between any two looks. A block costs two context switches and, on a core that then idles, tens of
# microseconds until it runs again. Bounded by time and not by tries: where others compete for the
# core, a look comes only every few milliseconds, and a blocked process is woken sooner.
SPIN_SECONDS = 100e-6
# And where waits have lately been longer than that: spinning would only take the time of those
# that are waited for.
BRIEF_SPIN_SECONDS = 5e-6
# Seconds between looks at whether the other side still lives, while blocked.
PATIENCE = 0.2

yield_core: Callable[[], object] = getattr(os, "sched_yield", lambda: None)


class Command:
    """What a worker's command byte asks for. TELL: what a new worker has to say of an old one."""

    STEP, RESET, CALL, CLOSE, TELL = range(5)


class Status:
    """What a worker's status byte says. HAS_MESSAGE and FAILED: the pipe holds more."""

    BUSY, DONE, HAS_MESSAGE, FAILED = range(4)


class Waiter:
    """Takes a semaphore: spins as long as waits are short, else blocks soon."""

    def __init__(self, semaphore: Semaphore) -> None:
        self._attempt = semaphore.acquire
        self._spin = SPIN_SECONDS

    def wait(self, on_idle: Callable[[], bool]) -> None:
        """Return once the semaphore has been taken, or `on_idle` says that there is no need.

        `on_idle` runs now and then while this process is blocked.
        """
        attempt = self._attempt
        if attempt(False):
            return
        start = perf_counter()
        end = start + self._spin
        while perf_counter() < end:
            yield_core()
            if attempt(False):
                return
        while not attempt(True, PATIENCE) and not on_idle():
            pass
        is_short = perf_counter() - start < 2 * SPIN_SECONDS
        self._spin = SPIN_SECONDS if is_short else BRIEF_SPIN_SECONDS


def create_block(nbytes: int) -> int:
    """A file descriptor of `nbytes` of zeroed memory that no file system shows.

    The kernel frees it with the last process that maps it, however that process ends, and the
    size of /dev/shm does not limit it.

    Raises:
        APIUsageError: there is not that much memory.
    """
    # First, as the kernel would fill what there is before it noticed, or kill this process.
    if nbytes > available_memory(CGROUP):
        raise _no_memory(nbytes, "more than is free")
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
        raise _no_memory(nbytes, str(error.strerror)) from error
    return fd


def available_memory(cgroup: Path) -> int:
    """Bytes that this process may still use: the machine's, cut by the cgroup's limit (v2, v1)."""
    left = [int(psutil.virtual_memory().available)]
    with contextlib.suppress(OSError, ValueError):  # no limit, or "max"
        left.append(_below_limit(cgroup, "memory.max", "memory.current", "inactive_file"))
    with contextlib.suppress(OSError, ValueError):
        names = "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"
        left.append(_below_limit(cgroup / "memory", *names))
    return max(0, min(left))


def _below_limit(folder: Path, limit: str, used: str, cache: str) -> int:
    """What is left to a cgroup; files that were read and may be forgotten count as free."""
    statistics = (folder / "memory.stat").read_text().split()
    forgettable = int(statistics[statistics.index(cache) + 1])
    return int((folder / limit).read_text()) - int((folder / used).read_text()) + forgettable


def _no_memory(nbytes: int, reason: str) -> APIUsageError:
    return APIUsageError(
        f"the buffers need {nbytes:,} bytes of shared memory, which this machine or container does "
        f"not have ({reason}); use fewer environments or smaller observations, or give the "
        "container more memory (docker run --memory)"
    )


class SharedBlock:
    """One mapping with a line of flags per worker, and all rows.

    Args:
        fd: of `create_block`, at least `SharedBlock.nbytes(...)` long.

    Attributes:
        commands, statuses: a byte per worker.
        currents: by worker, the index among its environments of the one that it works on.
        restarts: by environment, how often it was made anew.
        finished: a byte per team, set by the team's last worker and cleared by the driver.
        buffers: the rows.
    """

    def __init__(self, fd: int, layout: Layout, num_workers: int, num_envs: int) -> None:
        self.memory = mmap.mmap(fd, self.nbytes(layout, num_workers, num_envs))
        view = memoryview(self.memory)
        flags = num_workers * ALIGNMENT
        rows = self.nbytes(layout, num_workers, num_envs) - layout.nbytes
        # A cache line for each worker, so that they do not slow each other down.
        self.commands = view[:flags:ALIGNMENT]
        self.statuses = view[1:flags:ALIGNMENT]
        self.currents = view[:flags].cast("I")[1 :: ALIGNMENT // 4]
        self.finished = view[flags : 2 * flags : ALIGNMENT]
        self.restarts = np.frombuffer(view[2 * flags : rows], np.uint32)[:num_envs]
        self.buffers: Buffers = layout.map(view[rows:])

    @staticmethod
    def nbytes(layout: Layout, num_workers: int, num_envs: int) -> int:
        """Bytes that a block needs."""
        lines = 2 * num_workers + -(-4 * num_envs // ALIGNMENT)
        return lines * ALIGNMENT + layout.nbytes


@dataclass(frozen=True)
class Signals:
    """The semaphores of one worker.

    Attributes:
        go: one token per command to this worker.
        ready: the driver's, one token per team that has finished.
        others: holds `team_size - 1` tokens. A worker that finishes takes one; who finds none is
            the last of its team and puts them back, so that the driver is woken once per team
            and not by every worker.
    """

    go: Semaphore
    ready: Semaphore
    others: Semaphore
    team_size: int

    @classmethod
    def create(cls, context: BaseContext, num_workers: int, team_size: int) -> list[Signals]:
        """Those of `num_workers` workers, in teams of `team_size` neighbours.

        Raises:
            APIUsageError: the system has no room for them.
        """
        try:
            ready = context.Semaphore(0)
            others = [context.Semaphore(team_size - 1) for _ in range(num_workers // team_size)]
            go = [context.Semaphore(0) for _ in range(num_workers)]
        except OSError as error:
            raise APIUsageError(
                f"{num_workers} workers need two semaphores each, which lie in /dev/shm, and one "
                f"could not be made ({error.strerror}); make room there (docker run "
                "--shm-size=64m), or use fewer workers"
            ) from error
        return [
            cls(go[worker], ready, others[worker // team_size], team_size)
            for worker in range(num_workers)
        ]

    def is_last_of_team(self) -> bool:
        """Whether all others have finished; to be asked once per command."""
        if self.others.acquire(False):
            return False
        for _ in range(self.team_size - 1):
            self.others.release()
        return True
