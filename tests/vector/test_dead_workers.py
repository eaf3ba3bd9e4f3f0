"""Worker processes that die: the caller is told which, with its environments, and how."""

import os
import signal
import time

import pytest
import vector_toys as toys
from fault_tools import CONTEXTS, ZEROS, closings, drive, fails_soon, parallel, workers

pytestmark = pytest.mark.usefixtures("nothing_left")


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
