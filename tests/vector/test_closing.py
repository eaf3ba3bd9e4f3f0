"""Every environment is closed once, in its own process, however its vecenv ends."""

import gc
import os
import time

import pytest
import vector_toys as toys
from fault_tools import (
    ALL_ONCE,
    closings,
    drive,
    fails_soon,
    is_running,
    parallel,
    wait_until,
    workers,
)

pytestmark = pytest.mark.usefixtures("nothing_left")


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


@pytest.mark.parametrize("steps", [0, 3])
def test_an_environment_that_hangs_in_close_is_killed_and_named(steps, tmp_path):
    vecenv = parallel(toys.faulty(where="close", how="hang", folder=tmp_path))
    drive(vecenv, steps)
    with fails_soon() as caught:
        vecenv.close(timeout=1)
    assert str(caught.value) == (
        "worker 0 (environments 0 to 1) hung in the close of environment 1 after 1 s and was "
        "killed; give it longer with close(timeout=...)"
    )
    assert closings(tmp_path) == ALL_ONCE  # the other worker's had the time
    vecenv.close()


def test_closing_waits_as_long_as_it_is_told(tmp_path):
    creators = toys.faulty(where="close", how="sleep", folder=tmp_path)
    vecenv = parallel(creators)
    with fails_soon(match=r"environments 0 to 1\) .* after 0.1 s and was killed"):
        vecenv.close(timeout=0.1)
    vecenv = parallel(creators)
    start = time.monotonic()
    with toys.time_limit(8):
        vecenv.close(timeout=10)
    assert time.monotonic() - start >= 0.5


def test_a_worker_that_is_still_busy_at_close_is_killed_and_named(tmp_path):
    vecenv = parallel(toys.faulty(how="hang", folder=tmp_path))
    toys.FAILED_AT[0] = 0
    drive(vecenv, 3)
    assert wait_until(lambda: toys.FAILED_AT[0] > 0, 20)  # else it closes in place of the step
    message = r"^worker 0 \(environments 0 to 1\) was still busy after 1 s and was killed.*\)$"
    with fails_soon(match=message):
        vecenv.close(timeout=1)
    assert closings(tmp_path) == {"2": 1, "3": 1}


def test_what_goes_wrong_where_nobody_called_close_is_a_warning():
    vecenv = parallel(toys.faulty(where="close"))
    message = r"environment 1 .*raised ValueError in close: boom"
    with pytest.warns(RuntimeWarning, match=message):  # noqa: PT031 - either may free it
        del vecenv
        gc.collect()


def test_two_vecenvs_live_side_by_side():
    with parallel(toys.make_draw) as one, parallel(toys.make_draw) as two:
        drive(one, 3)
        drive(two, 3)
        one.close()
        two.recv()
        assert two.get_attr("name") == ["draw"] * 4
