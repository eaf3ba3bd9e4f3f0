"""What the tests of failures share: environments that fail, deadlines, and what was left behind."""

import contextlib
import ctypes
import gc
import multiprocessing
import os
import sys
import time
from multiprocessing import forkserver, resource_tracker
from pathlib import Path

import numpy as np
import psutil
import pytest
import vector_toys as toys

from pufferlib import vector
from pufferlib.exceptions import WorkerError

ZEROS = np.zeros(4, np.int64)
# Fork everywhere; the others where starting or dying differs.
CONTEXTS = [
    "fork",
    *(pytest.param(name, marks=pytest.mark.slow) for name in ("spawn", "forkserver")),
]
DEADLINE = 2.0  # seconds in which a caller is told what broke
ALL_ONCE = {"0": 1, "1": 1, "2": 1, "3": 1}  # what `closings` should say
PR_SET_CHILD_SUBREAPER = 36  # of Linux's prctl


# -- doing ---------------------------------------------------------------------------------------


def parallel(creators, **kwargs):
    """Four environments in two workers."""
    kwargs = {"num_envs": 4, "num_workers": 2, "backend": vector.Multiprocessing} | kwargs
    return vector.make(creators, **kwargs)


def drive(vecenv, steps=20):
    """Reset and step on, whatever the backend."""
    vecenv.async_reset(seed=1)
    for _ in range(steps):
        env_id = vecenv.recv()[5]
        vecenv.send(np.zeros(len(env_id), np.int64))


@contextlib.contextmanager
def fails_soon(error=WorkerError, match=None):
    """Expect `error` within the deadline, from the failure on or, if none is known, the start."""
    toys.FAILED_AT[0] = time.monotonic()
    with toys.time_limit(20), pytest.raises(error, match=match) as caught:
        yield caught
    assert time.monotonic() - toys.FAILED_AT[0] < DEADLINE


# -- watching ------------------------------------------------------------------------------------


def closings(folder):
    """Number of `close` calls of each environment."""
    return {path.name: len(path.read_text().splitlines()) for path in Path(folder).iterdir()}


def workers():
    return [worker.pid for worker in multiprocessing.active_children()]


def is_running(pid):
    with contextlib.suppress(psutil.NoSuchProcess):
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    return False


def wait_until(condition, seconds):
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        time.sleep(0.01)
    return condition()


def open_files():
    folder = Path("/proc/self/fd")
    return len(list(folder.iterdir())) if folder.exists() else 0


def mapped_buffers():
    """How many vecenvs' buffers this process maps."""
    maps = Path("/proc/self/maps")
    return maps.read_text().count("memfd:pufferlib") if maps.exists() else 0


class Leftovers:
    """What this process and its descendants leave behind; other processes may do as they like.

    Descendants whose parents have died count (Linux: they become children of this process), and so
    do named semaphores: `name_semaphores` puts this process's pid into the names, here and in the
    programs that tests start.
    """

    def __init__(self):
        self.prefix = f"mp{os.getpid()}"
        self._adopt_orphans(True)
        toys.name_semaphores(os.getpid())
        if "spawn" in multiprocessing.get_all_start_methods():
            resource_tracker.ensure_running()  # the standard library keeps these two for ever
            forkserver.ensure_running()
        self.known = {process.pid for process in psutil.Process().children(recursive=True)}
        self.files, self.buffers = open_files(), mapped_buffers()

    def check(self):
        """Fail if anything is left that was not there before."""
        gc.collect()
        assert wait_until(lambda: not self.processes(), 2.0), self.processes()
        assert wait_until(lambda: not self.semaphores(), 2.0), self.semaphores()
        assert open_files() <= self.files
        assert mapped_buffers() <= self.buffers
        self._adopt_orphans(False)

    def processes(self):
        """New descendants; those that ended are reaped, as init would do it."""
        multiprocessing.active_children()
        left = []
        for process in psutil.Process().children(recursive=True):
            if process.pid in self.known or process.pid == forkserver._forkserver._forkserver_pid:
                continue
            with contextlib.suppress(psutil.NoSuchProcess):
                if process.status() != psutil.STATUS_ZOMBIE:
                    left.append(process)
                elif process.ppid() == os.getpid():
                    os.waitpid(process.pid, os.WNOHANG)
        return left

    def semaphores(self):
        folder = Path("/dev/shm")
        return [p.name for p in folder.glob(f"sem.{self.prefix}-*")] if folder.exists() else []

    @staticmethod
    def _adopt_orphans(adopt):
        if sys.platform == "linux":
            ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, int(adopt), 0, 0, 0)
