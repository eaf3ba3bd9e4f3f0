"""Signals to a program with workers, and programs that end without closing anything."""

import contextlib
import functools
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
import vector_toys as toys
from fault_tools import ALL_ONCE, CONTEXTS, closings, drive, is_running, wait_until

from pufferlib.exceptions import APIUsageError

pytestmark = pytest.mark.usefixtures("nothing_left")

HERE = str(Path(__file__).parent)

SCRIPT = f"""
import multiprocessing, os, sys
sys.path.insert(0, {HERE!r})
import vector_toys as toys
import numpy as np
from pufferlib import vector

def main(folder, context, ending):
    toys.name_semaphores(os.getppid())
    creators = toys.faulty(faulty=1 if ending == "busy" else None, how="hang", folder=folder)
    vecenv = vector.make(creators, num_envs=4, num_workers=2, backend="multiprocessing",
                         context=context)
    vecenv.async_reset()
    for step in range(10**9 if ending in ("loop", "busy") else 4):
        env_id = vecenv.recv()[5]
        vecenv.send(np.zeros(len(env_id), np.int64))
        if step == 2:  # the step in which a busy one hangs
            print(*[worker.pid for worker in multiprocessing.active_children()], flush=True)
    if ending == "error":
        raise RuntimeError("the user's own")

if __name__ == "__main__":
    main(*sys.argv[1:])
"""


class Script:
    """A program with two workers, in a process group of its own, in the midst of its steps."""

    def __init__(self, folder, context="fork", ending="loop"):
        (folder / "closed").mkdir()
        path = folder / "script.py"
        path.write_text(SCRIPT)
        self.folder = folder / "closed"
        self.process = subprocess.Popen(
            [sys.executable, str(path), str(self.folder), context, ending],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        with toys.time_limit(60):
            self.workers = [int(pid) for pid in self.process.stdout.readline().split()]

    def ended_within(self, seconds):
        """Whether all its processes end, and what the program left on stderr."""
        end = time.monotonic() + seconds
        try:
            _, errors = self.process.communicate(timeout=seconds)
            gone = wait_until(
                lambda: not any(map(is_running, self.workers)), end - time.monotonic()
            )
            return gone, errors
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)


@pytest.mark.parametrize(
    ("context", "to_group"),
    [
        ("fork", False),
        ("fork", True),
        ("spawn", True),
        pytest.param("spawn", False, marks=pytest.mark.slow),
        pytest.param("forkserver", True, marks=pytest.mark.slow),
    ],
)
def test_ctrl_c(context, to_group, tmp_path):
    """Report O03: one traceback, of the driver; every environment closed once."""
    script = Script(tmp_path, context)
    (os.killpg if to_group else os.kill)(script.process.pid, signal.SIGINT)
    gone, errors = script.ended_within(5)
    assert gone
    assert script.process.returncode in (-signal.SIGINT, 1, 130)
    assert errors.count("Traceback") == 1
    assert errors.strip().endswith("KeyboardInterrupt")
    assert closings(script.folder) == ALL_ONCE


@pytest.mark.parametrize(
    ("number", "context"),
    [
        (signal.SIGTERM, "fork"),
        (signal.SIGKILL, "fork"),
        (signal.SIGKILL, "spawn"),
        pytest.param(signal.SIGTERM, "spawn", marks=pytest.mark.slow),
        pytest.param(signal.SIGKILL, "forkserver", marks=pytest.mark.slow),
    ],
)
def test_workers_leave_when_the_driver_is_killed(number, context, tmp_path):
    script = Script(tmp_path, context)
    os.kill(script.process.pid, number)
    gone, _ = script.ended_within(5)
    assert gone
    assert closings(script.folder) == ALL_ONCE


def test_a_termination_signal_to_the_whole_group(tmp_path):
    script = Script(tmp_path)
    os.killpg(script.process.pid, signal.SIGTERM)
    gone, _ = script.ended_within(5)
    assert gone
    assert closings(script.folder) == ALL_ONCE


def test_workers_leave_even_in_the_middle_of_a_step_that_hangs(tmp_path):
    script = Script(tmp_path, ending="busy")
    os.kill(script.process.pid, signal.SIGKILL)
    gone, _ = script.ended_within(5)
    assert gone
    assert closings(script.folder) == {"2": 1, "3": 1}


@pytest.mark.parametrize("context", CONTEXTS)
def test_a_program_that_ends_without_close(context, tmp_path):
    script = Script(tmp_path, context, ending="fall off")
    gone, errors = script.ended_within(5)
    assert gone
    assert script.process.returncode == 0
    assert errors == ""
    assert closings(script.folder) == ALL_ONCE


def test_a_program_that_fails_without_close(tmp_path):
    script = Script(tmp_path, ending="error")
    gone, errors = script.ended_within(5)
    assert gone
    assert script.process.returncode == 1
    assert errors.strip().endswith("RuntimeError: the user's own")
    assert closings(script.folder) == ALL_ONCE


def interrupt(vecenv, delay):
    """Step until a Ctrl-C comes."""
    timer = threading.Timer(delay, os.kill, (os.getpid(), signal.SIGINT))
    try:
        timer.start()
        drive(vecenv, 10**6)
    finally:
        timer.join()


@pytest.mark.parametrize("backend", ["serial", "sync", "pool"])
def test_a_notebook_goes_on_after_an_interrupt(backend):
    """A Ctrl-C leaves a vecenv that is either usable or says that it is closed."""
    creator = functools.partial(toys.make_emulated, toys.Slow, 0.005)
    vecenv = toys.make(creator, backend)
    for delay in (0.01, 0.02, 0.03):
        with toys.time_limit(20), pytest.raises(KeyboardInterrupt):
            interrupt(vecenv, delay)
        with toys.time_limit(5):
            try:
                drive(vecenv, 3)
            except APIUsageError as error:
                closed = str(error)
                vecenv = toys.make(creator, backend)
            else:
                closed = "closed: make a new one"
        assert "closed: make a new one" in closed
    vecenv.close()
