"""Whatever breaks, the caller is told what, where and when, and nothing is left behind."""

import contextlib
import functools
import gc
import multiprocessing
import os
import random
import signal
import subprocess
import sys
import threading
import time
from multiprocessing import forkserver, resource_tracker
from pathlib import Path

import numpy as np
import psutil
import pytest
import vector_toys as toys

from pufferlib import vector
from pufferlib.exceptions import APIUsageError, WorkerError

HERE = str(Path(__file__).parent)
ZEROS = np.zeros(4, np.int64)
SHM = Path("/dev/shm")
# Fork everywhere; the others where starting or dying differs.
CONTEXTS = [
    "fork",
    *(pytest.param(name, marks=pytest.mark.slow) for name in ("spawn", "forkserver")),
]
DEADLINE = 2.0


def shared_memory():
    return {path.name for path in SHM.iterdir()} if SHM.exists() else set()


def open_files():
    folder = Path("/proc/self/fd")
    return len(list(folder.iterdir())) if folder.exists() else 0


def workers():
    return [worker.pid for worker in multiprocessing.active_children()]


def is_running(pid):
    with contextlib.suppress(psutil.NoSuchProcess):
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    return False


def wait_until(condition, seconds):
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        time.sleep(0.02)
    return condition()


@pytest.fixture(autouse=True)
def nothing_left():
    """No process, shared memory or open file outlives a test."""
    if "spawn" in multiprocessing.get_all_start_methods():
        resource_tracker.ensure_running()  # the standard library keeps these two for ever
        forkserver.ensure_running()
    gc.collect()
    before, files = shared_memory(), open_files()
    yield
    gc.collect()
    assert wait_until(lambda: not workers(), 1.0), workers()
    assert wait_until(lambda: shared_memory() <= before, 1.0), shared_memory() - before
    assert open_files() <= files


@contextlib.contextmanager
def fails_soon(error=WorkerError, match=None):
    """Expect `error` within the deadline."""
    start = time.monotonic()
    with toys.time_limit(20), pytest.raises(error, match=match) as caught:
        yield caught
    assert time.monotonic() - start < DEADLINE


def parallel(creators, **kwargs):
    kwargs = {"num_envs": 4, "num_workers": 2, "backend": vector.Multiprocessing} | kwargs
    return vector.make(creators, **kwargs)


def closings(folder):
    """Number of `close` calls of each environment, and that no two were the same process's."""
    return {path.name: len(path.read_text().splitlines()) for path in Path(folder).iterdir()}


ALL_ONCE = {"0": 1, "1": 1, "2": 1, "3": 1}


# -- environments that raise -------------------------------------------------------------------


@pytest.mark.parametrize("context", CONTEXTS)
def test_an_error_in_step_names_all_there_is_to_know(context, tmp_path):
    """Report O01."""
    vecenv = parallel(toys.faulty(folder=tmp_path), context=context)
    vecenv.reset(seed=[5, 6, 7, 8])
    vecenv.step(ZEROS)
    vecenv.step(ZEROS)
    with fails_soon() as caught:
        vecenv.step(ZEROS)
    text = str(caught.value)
    assert "environment 1 (seed 6) raised ValueError in step 3: boom in env 1" in text
    assert 'raise ValueError(f"boom in env {self.index}")' in text  # the worker's traceback
    assert "in step" in text
    assert closings(tmp_path) == ALL_ONCE
    with pytest.raises(APIUsageError, match="closed"):
        vecenv.step(ZEROS)
    vecenv.close()
    assert closings(tmp_path) == ALL_ONCE


def test_serial_tells_the_same_and_keeps_the_cause(tmp_path):
    vecenv = vector.make(toys.faulty(folder=tmp_path), num_envs=4)
    vecenv.reset(seed=[5, 6, 7, 8])
    vecenv.step(ZEROS)
    vecenv.step(ZEROS)
    with pytest.raises(
        WorkerError, match=r"environment 1 \(seed 6\) raised ValueError in step 3"
    ) as e:
        vecenv.step(ZEROS)
    assert isinstance(e.value.__cause__, ValueError)
    assert closings(tmp_path) == ALL_ONCE
    with pytest.raises(APIUsageError, match="closed"):
        vecenv.reset()


def drive(vecenv, steps=20):
    """Reset and step on, whatever the backend."""
    vecenv.async_reset(seed=1)
    for _ in range(steps):
        env_id = vecenv.recv()[5]
        vecenv.send(np.zeros(len(env_id), np.int64))


@pytest.mark.parametrize("backend", toys.USUAL)
@pytest.mark.parametrize("where", ["constructor", "reset", "step"])
def test_an_error_anywhere_on_every_backend(backend, where, tmp_path):
    what = {"constructor": "its constructor", "reset": "reset", "step": "step [345]"}[where]
    with fails_soon(match=f"environment 1 .*raised ValueError in {what}: boom in env 1"):
        drive(toys.make(toys.faulty(where=where, folder=tmp_path), backend), steps=10**6)
    counts = closings(tmp_path)
    if where == "constructor":  # environment 1 never came to be; later ones may not
        assert counts.pop("1", 0) == 0
        assert set(counts.values()) == {1}
    else:
        assert counts == ALL_ONCE


@pytest.mark.parametrize("backend", toys.USUAL)
def test_an_error_in_close_is_told_after_all_are_closed(backend, tmp_path):
    vecenv = toys.make(toys.faulty(where="close", folder=tmp_path), backend)
    drive(vecenv, 3)
    with fails_soon(match="environment 1 .*raised ValueError in close: boom in env 1"):
        vecenv.close()
    assert closings(tmp_path) == ALL_ONCE
    vecenv.close()


def test_an_error_does_not_wait_for_another_worker_that_hangs(tmp_path):
    creators = toys.faulty(folder=tmp_path)
    creators[3] = toys.faulty(folder=tmp_path, faulty=3, how="hang")[3]
    vecenv = parallel(creators)
    with fails_soon(match="boom in env 1"):
        drive(vecenv)
    assert closings(tmp_path) == {"0": 1, "1": 1}  # the one that hangs had to be killed


def test_an_exception_that_cannot_be_unpickled_is_told_all_the_same():
    vecenv = parallel(toys.faulty(how="exotic"))
    with fails_soon(match="environment 1 .*raised ExoticError in step 3: exotic"):
        drive(vecenv)


def test_a_call_that_raises_what_cannot_be_unpickled():
    with parallel(toys.faulty()) as vecenv:
        vecenv.set_attr("how", "exotic")
        with pytest.raises(WorkerError, match="ExoticError: exotic"):
            vecenv.call("fail", "step")
        drive(parallel(toys.faulty(faulty=None)), 3)


# -- processes that die ------------------------------------------------------------------------

DEATHS = {"exit": "exit code 3", "kill": r"signal SIGKILL \(out of memory\?\)"}


@pytest.mark.parametrize("how", DEATHS)
@pytest.mark.parametrize("where", ["constructor", "reset", "step"])
def test_a_worker_that_dies_is_named_with_its_environments(how, where, tmp_path):
    """Report O02."""
    with fails_soon(match=rf"worker 0 \(environments 0 to 1\) died .*: {DEATHS[how]}"):
        drive(parallel(toys.faulty(how=how, where=where, folder=tmp_path)))
    assert set(closings(tmp_path).values()) <= {1}
    if where != "constructor":
        assert closings(tmp_path) == {"2": 1, "3": 1}


@pytest.mark.parametrize("context", CONTEXTS[1:])
def test_a_worker_that_dies_under_other_start_methods(context):
    vecenv = parallel(toys.faulty(how="kill"), context=context)
    with fails_soon(match=f"worker 0 .*{DEATHS['kill']}"):
        drive(vecenv)


@pytest.mark.parametrize("backend", ["pool", "gather"])
def test_a_pool_notices_a_dead_worker_that_nobody_waits_for(backend):
    vecenv = toys.make(toys.faulty(how="kill"), backend)
    with fails_soon(match=r"worker 1 \(environment 1\) died"):
        drive(vecenv, steps=10**9)


def test_a_worker_killed_between_commands():
    vecenv = parallel(toys.make_draw)
    drive(vecenv, 2)
    vecenv.recv()
    os.kill(workers()[0], signal.SIGKILL)
    time.sleep(0.1)
    with fails_soon(match="signal SIGKILL"):
        vecenv.step(ZEROS)


@pytest.mark.parametrize("call", ["get_attr", "async_reset"])
def test_a_dead_worker_is_noticed_by_other_calls(call):
    vecenv = parallel(toys.make_draw)
    drive(vecenv, 2)
    vecenv.recv()
    for pid in workers():
        os.kill(pid, signal.SIGKILL)
    time.sleep(0.1)
    with fails_soon(match="signal SIGKILL"):
        getattr(vecenv, call)(*["t"] * (call == "get_attr"))
        vecenv.recv()


def test_close_after_a_worker_died_is_quiet():
    vecenv = parallel(toys.make_draw)
    os.kill(workers()[1], signal.SIGKILL)
    with toys.time_limit(5):
        vecenv.close()
    vecenv.close()


# -- life cycle --------------------------------------------------------------------------------


@pytest.mark.parametrize("backend", toys.USUAL)
def test_each_environment_is_closed_once_in_its_own_process(backend, tmp_path):
    """Report O04."""
    vecenv = toys.make(toys.faulty(faulty=None, folder=tmp_path), backend)
    drive(vecenv, 3)
    vecenv.close()
    vecenv.close()
    assert closings(tmp_path) == ALL_ONCE
    pids = {path.read_text() for path in tmp_path.iterdir()}
    assert (f"{os.getpid()}\n" in pids) == backend.startswith("serial")


@pytest.mark.parametrize("backend", toys.USUAL)
def test_close_without_reset_and_as_a_context(backend, tmp_path):
    with toys.make(toys.faulty(faulty=None, folder=tmp_path), backend):
        pass
    assert closings(tmp_path) == ALL_ONCE


def test_close_while_workers_are_busy(tmp_path):
    vecenv = parallel(toys.faulty(faulty=None, folder=tmp_path))
    vecenv.async_reset()
    vecenv.close()
    assert closings(tmp_path) == ALL_ONCE


@pytest.mark.parametrize("backend", toys.USUAL)
def test_dropping_the_last_reference_closes_everything(backend, tmp_path):
    vecenv = toys.make(toys.faulty(faulty=None, folder=tmp_path), backend)
    drive(vecenv, 3)
    pids = workers()
    del vecenv
    gc.collect()
    assert wait_until(lambda: not any(map(is_running, pids)), 2)
    assert closings(tmp_path) == ALL_ONCE


def test_an_environment_that_hangs_in_close_is_killed(monkeypatch):
    from pufferlib.vector import workers as module

    monkeypatch.setattr(module.Workers.close, "__defaults__", (0.5,))
    vecenv = parallel(toys.faulty(where="close", how="hang"))
    start = time.monotonic()
    with toys.time_limit(10):
        vecenv.close()
    assert 0.4 < time.monotonic() - start < DEADLINE


def test_many_vecenvs_leave_no_files_open():
    before = open_files()
    for _ in range(5):
        with parallel(toys.make_draw) as vecenv:
            drive(vecenv, 2)
    assert open_files() <= before + 1  # the last one's memory
    del vecenv
    gc.collect()
    assert open_files() <= before


def test_two_vecenvs_live_side_by_side():
    with parallel(toys.make_draw) as one, parallel(toys.make_draw) as two:
        drive(one, 3)
        drive(two, 3)
        one.close()
        two.recv()
        assert two.get_attr("name") == ["draw"] * 4


# -- signals -----------------------------------------------------------------------------------

SCRIPT = f"""
import multiprocessing, os, sys, time
sys.path.insert(0, {HERE!r})
import vector_toys as toys
import numpy as np
from pufferlib import vector

def main(folder, context, ending):
    creators = toys.faulty(faulty=1 if ending == "busy" else None, how="hang", folder=folder)
    vecenv = vector.make(creators, num_envs=4, num_workers=2, backend="multiprocessing",
                         context=context)
    print(*[worker.pid for worker in multiprocessing.active_children()], flush=True)
    vecenv.async_reset()
    end = time.monotonic() + (1e9 if ending in ("loop", "busy") else 0.2)
    while time.monotonic() < end:
        env_id = vecenv.recv()[5]
        vecenv.send(np.zeros(len(env_id), np.int64))
    if ending == "error":
        raise RuntimeError("the user's own")

if __name__ == "__main__":
    main(*sys.argv[1:])
"""


class Script:
    """A program with two workers, in a process group of its own."""

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
        time.sleep(0.3)  # into the loop

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


def soak(seconds, seed):
    """Random vecenvs, random deaths at random moments: how many were noticed."""
    rng = random.Random(seed)
    deaths = 0
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        vecenv = toys.make(toys.make_draw, rng.choice(["sync", "sync4", "pool", "gather"]))
        pids = workers()
        number = rng.choice([signal.SIGKILL, signal.SIGUSR1, signal.SIGTERM])
        killer = threading.Timer(rng.random() / 20, os.kill, (rng.choice(pids), number))
        killer.start()
        message = None
        with toys.time_limit(10):
            try:
                drive(vecenv, steps=rng.randrange(1, 2000))
                vecenv.get_attr("t")
            except WorkerError as error:
                message = str(error)
            killer.join()
            vecenv.close()
        if message is not None:
            deaths += 1
            assert f"signal {number.name}" in message
        assert not any(map(is_running, pids))
    return deaths


def test_short_soak():
    assert soak(3, seed=0) > 0


@pytest.mark.slow
def test_soak():
    assert soak(10, seed=1) > 5
