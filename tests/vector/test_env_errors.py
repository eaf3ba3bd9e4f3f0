"""Environments that raise: the caller is told what, where and when."""

import pytest
import vector_toys as toys
from fault_tools import ALL_ONCE, CONTEXTS, ZEROS, closings, drive, fails_soon, parallel

from pufferlib import vector
from pufferlib.exceptions import APIUsageError, WorkerError

pytestmark = pytest.mark.usefixtures("nothing_left")


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
