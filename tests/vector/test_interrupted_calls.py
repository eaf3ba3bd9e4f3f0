"""A Ctrl-C within a call of a notebook: at random moments, and at every single line."""

import contextlib
import functools
import itertools
import linecache
import os
import signal
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
import vector_toys as toys
from fault_tools import drive

from pufferlib import vector
from pufferlib.exceptions import APIUsageError
from pufferlib.vector.order import State

pytestmark = pytest.mark.usefixtures("nothing_left")

FOLDER = str(Path(vector.__file__).parent)
# Python looks for signals at calls and at jumps back, but not between the return of a call and an
# assignment that follows it.
NEVER = "self._state = "


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
    for delay in (0.01, 0.02, 0.03):
        with toys.make(creator, backend) as vecenv:
            with toys.time_limit(20), pytest.raises(KeyboardInterrupt):
                interrupt(vecenv, delay)
            check_usable_or_closed(vecenv)


@contextlib.contextmanager
def interrupt_at(n):
    """Raise KeyboardInterrupt at the `n`th line that vectorization executes in this block."""
    lines = itertools.count(1)

    def trace(frame, event, _):
        name = frame.f_code.co_filename
        if not name.startswith(FOLDER) or name.endswith("shared.py"):  # which spins
            return None
        line = linecache.getline(name, frame.f_lineno).strip()
        if event == "line" and not line.startswith(NEVER) and next(lines) == n:
            raise KeyboardInterrupt
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        yield
    finally:
        sys.settrace(before)


def use(vecenv):
    """Every call of a session, once."""
    vecenv.async_reset(seed=1)
    for _ in range(3):
        vecenv.recv()
        vecenv.send(np.zeros(vecenv.agents_per_batch, np.int64))
    vecenv.get_attr("t")
    vecenv.recv()
    vecenv.call("double", 2)


def check_usable_or_closed(vecenv):
    """That it says it is closed, or that every environment still steps and tells its own time."""
    if vecenv._state is State.CLOSED:
        with pytest.raises(APIUsageError, match="closed: make a new one"):
            vecenv.recv()
        return
    zeros = np.zeros(vecenv.agents_per_batch, np.int64)
    if vecenv._state is State.CREATED:
        vecenv.async_reset()
    elif vecenv._state is State.READY:
        vecenv.send(zeros)
    seen = set()
    with toys.time_limit(5):
        while len(seen) < 4:
            observations, *_, env_id, _ = vecenv.recv()
            assert vecenv.get_attr("t", env_id.tolist()) == observations[:, 1].tolist()
            seen |= set(env_id.tolist())
            vecenv.send(zeros)


def lines_that_were_interrupted(backend, start, stride):
    """Interrupt a session at line `start` and every `stride` lines after it, till none are left."""
    creator = functools.partial(toys.make_emulated, toys.Talker, {"n": 1})
    vecenv = toys.make(creator, backend)
    lines = 0
    for n in itertools.count(start, stride):
        try:
            with toys.time_limit(20), interrupt_at(n):
                use(vecenv)
            break
        except KeyboardInterrupt:
            check_usable_or_closed(vecenv)
            lines += 1
        if vecenv._state is State.CLOSED:
            vecenv = toys.make(creator, backend)
    vecenv.close()
    return lines


@pytest.mark.parametrize(
    ("backend", "stride"),
    [
        ("serial_pool", 31),
        ("sync", 61),
        *(pytest.param(name, 43, marks=pytest.mark.slow) for name in toys.USUAL),
        *(pytest.param(name, 1, marks=pytest.mark.bench) for name in toys.USUAL),
    ],
)
def test_a_ctrl_c_at_any_line(backend, stride):
    """Nothing is lost in silence, and nothing waits for a result that was lost.

    At every line it takes minutes, so the other tiers take some of them.
    """
    assert (
        lines_that_were_interrupted(backend, start=1 + stride // 10, stride=stride) > 100 / stride
    )
