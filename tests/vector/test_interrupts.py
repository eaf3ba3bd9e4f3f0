"""Signals to a program with workers, and programs that end without closing anything."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import vector_toys as toys
from fault_tools import ALL_ONCE, CONTEXTS, closings, is_running, wait_until

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
    if ending == "making":
        creators = toys.faulty(where="constructor", how="sleep", folder=folder)
        print(flush=True)
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
        pytest.param("spawn", True, marks=pytest.mark.slow),
        pytest.param("spawn", False, marks=pytest.mark.slow),
        pytest.param("forkserver", True, marks=pytest.mark.slow),
        pytest.param("forkserver", False, marks=pytest.mark.slow),
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


@pytest.mark.parametrize("context", CONTEXTS[:2])
def test_ctrl_c_while_workers_start(context, tmp_path):
    """They have no handler of their own yet; those that make environments close them."""
    script = Script(tmp_path, context, ending="making")
    time.sleep(0.1 if context == "fork" else 0.5)
    os.killpg(script.process.pid, signal.SIGINT)
    gone, errors = script.ended_within(5)
    assert gone
    assert errors.count("Traceback") == 1, errors
    assert errors.strip().endswith("KeyboardInterrupt")
    assert set(closings(script.folder).values()) <= {1}
    if context == "fork":
        assert closings(script.folder) == ALL_ONCE


@pytest.mark.parametrize(
    ("number", "context"),
    [
        (signal.SIGKILL, "fork"),
        pytest.param(signal.SIGTERM, "fork", marks=pytest.mark.slow),  # nothing catches it either
        pytest.param(signal.SIGKILL, "spawn", marks=pytest.mark.slow),
        pytest.param(signal.SIGTERM, "spawn", marks=pytest.mark.slow),
        pytest.param(signal.SIGKILL, "forkserver", marks=pytest.mark.slow),
        pytest.param(signal.SIGTERM, "forkserver", marks=pytest.mark.slow),
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


@pytest.mark.slow
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
