"""Over many vecenvs and many deaths nothing piles up."""

import contextlib
import gc
import os
import random
import signal
import threading
import time

import numpy as np
import psutil
import pytest
import vector_toys as toys
from fault_tools import drive, is_running, open_files, parallel, workers

from pufferlib.exceptions import WorkerError

pytestmark = pytest.mark.usefixtures("nothing_left")


def test_many_vecenvs_leave_no_files_open():
    before = open_files()
    for _ in range(5):
        with parallel(toys.make_draw) as vecenv:
            drive(vecenv, 2)
    assert open_files() <= before + 1  # the last one's memory
    del vecenv
    gc.collect()
    assert open_files() <= before


def for_seconds(seconds):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        yield


def kill_later(rng, number):
    """Send a signal to some worker at a random moment; it may have ended by then."""
    pid = rng.choice(workers())

    def kill():
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)

    timer = threading.Timer(rng.random() / 20, kill)
    timer.start()
    return timer


def soak(rounds, seed):
    """Random vecenvs, random deaths at random moments: how many were noticed."""
    rng = random.Random(seed)
    deaths = 0
    for _ in rounds:
        vecenv = toys.make(toys.make_draw, rng.choice(["sync", "sync4", "pool", "gather"]))
        pids = workers()
        number = rng.choice([signal.SIGKILL, signal.SIGUSR1, signal.SIGTERM])
        killer = kill_later(rng, number)
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


def survive(vecenv, rng, steps):
    """Step with resets in between; how many environments were made anew meanwhile."""
    anew = 0
    for _ in range(steps):
        _, rewards, _, truncations, infos, _, mask = vecenv.recv()
        assert truncations[~mask].all()
        assert not rewards[~mask].any()
        anew += sum("restarted" in info for info in infos)
        if rng.random() < 0.01:
            vecenv.async_reset(seed=rng.choice([None, 5]))
        else:
            vecenv.send(np.ones(vecenv.agents_per_batch, np.int64))
    return anew


def soak_with_restarts(rounds, seed):
    """Workers are killed and replaced at full speed: how many environments were made anew."""
    rng = random.Random(seed)
    anew = 0
    for _ in rounds:
        backend = rng.choice(["sync", "sync4", "pool", "gather"])
        with toys.time_limit(60), toys.make(toys.make_draw, backend, restart=1000) as vecenv:
            vecenv.async_reset(seed=1)
            files = open_files()
            for _ in range(3):
                killer = kill_later(rng, rng.choice([signal.SIGKILL, signal.SIGUSR1]))
                anew += survive(vecenv, rng, rng.randrange(1, 1000))
                killer.join()
            for _ in range(2):  # a pool may go on without one that has died, but not reset twice
                vecenv.async_reset()
            assert open_files() <= files
            assert len(workers()) == vecenv.num_workers
    return anew


def memory():
    """Bytes that only this process has."""
    gc.collect()
    return psutil.Process().memory_full_info().uss


@pytest.mark.filterwarnings("ignore:environment . was made anew:RuntimeWarning")
@pytest.mark.parametrize(
    "seconds",
    [
        pytest.param(60, marks=pytest.mark.slow),
        pytest.param(600, marks=[pytest.mark.bench, pytest.mark.timeout(900)]),
    ],
)
def test_soak(seconds):
    soak(range(10), seed=1)
    soak_with_restarts(range(10), seed=1)
    before = memory()
    assert soak(for_seconds(seconds / 2), seed=2) > seconds / 10
    assert soak_with_restarts(for_seconds(seconds / 2), seed=2) > seconds / 10
    assert memory() < before + (4 << 20)
