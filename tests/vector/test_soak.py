"""Over many vecenvs and many deaths nothing piles up."""

import gc
import os
import random
import signal
import threading
import time

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


def soak(rounds, seed):
    """Random vecenvs, random deaths at random moments: how many were noticed."""
    rng = random.Random(seed)
    deaths = 0
    for _ in rounds:
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
    assert soak(range(8), seed=0) > 0


@pytest.mark.slow
def test_soak():
    assert soak(for_seconds(60), seed=1) > 30
