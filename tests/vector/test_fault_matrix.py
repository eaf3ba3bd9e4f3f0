"""Every way to fail, at every place and start method: told in time, and nothing is left."""

import errno
import gc
import os
import re
import resource
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
import vector_toys as toys
from fault_tools import ALL_ONCE, CONTEXTS, closings, drive, fails_soon, parallel

from pufferlib import vector
from pufferlib.exceptions import APIUsageError
from pufferlib.vector.shared import Signals

pytestmark = pytest.mark.usefixtures("nothing_left")

TIMEOUT = 0.3  # seconds; one that lacks a core for so long is not what these tests mean
WHO = r"worker 0 \(environments 0 to 1\)"
WHERE = {"constructor": "its constructor", "reset": "reset", "step": "step 3", "close": "close"}
# An environment may take as long as it likes to be made.
CELLS = [
    (how, where)
    for how in ("raise", "exit", "kill", "hang")
    for where in WHERE
    if (how, where) != ("hang", "constructor")
]


def told(how, where):
    """What the error says."""
    if how == "raise":
        return rf"environment 1 \(seed .*\) raised ValueError in {WHERE[where]}: boom in env 1"
    if how == "hang":
        step = rf"was still busy with environment 1 after timeout={TIMEOUT} s"
        return WHO + (" hung in the close of environment 1" if where == "close" else f" {step}")
    when = {
        "constructor": "while making its environments",
        "close": "in the close of environment 1",
    }.get(where, "while it was busy with environment 1")
    exits = {"exit": "exit code 3", "kill": r"signal SIGKILL \(out of memory\?\)"}[how]
    return f"{WHO} died {when}: {exits}$"


def closed(how, where):
    """Which environments' `close` was called, once each."""
    if how == "raise" or where == "close":
        return ALL_ONCE
    return {"2": 1, "3": 1}  # those of the worker that lives


@pytest.mark.parametrize("context", CONTEXTS)
@pytest.mark.parametrize(("how", "where"), CELLS)
def test_a_failure_is_told_in_time_and_leaves_nothing(how, where, context, tmp_path):
    """Reports O01, O02."""
    toys.FAILED_AT[0] = 0
    creators = toys.faulty(how=how, where=where, folder=tmp_path)
    with fails_soon(match=told(how, where)):
        vecenv = parallel(creators, context=context, timeout=TIMEOUT if how == "hang" else None)
        drive(vecenv, 4)
        vecenv.close(timeout=0.5 if how == "hang" else 5)
    if where == "constructor":
        assert set(closings(tmp_path).values()) <= {1}
    else:
        assert closings(tmp_path) == closed(how, where)


@pytest.mark.parametrize("backend", ["pool", "gather"])
def test_a_pool_notices_one_that_hangs_and_that_nobody_waits_for(backend):
    vecenv = toys.make(toys.faulty(how="hang"), backend, timeout=TIMEOUT)
    with fails_soon(match=r"worker 1 \(environment 1\) was still busy with environment 1 after"):
        drive(vecenv, steps=10**9)


def test_all_that_hang_are_named():
    creators = [toys.faulty(faulty=i, how="hang")[i] for i in range(4)]
    with fails_soon() as caught:
        drive(parallel(creators, num_workers=4, timeout=TIMEOUT))
    assert re.findall(r"busy with environment (\d)", str(caught.value)) == ["0", "1", "2", "3"]


def test_one_that_hangs_can_be_made_anew():
    creators = toys.faulty(how="hang", at=4)
    with (
        parallel(creators, timeout=TIMEOUT, restart=1) as vecenv,
        pytest.warns(RuntimeWarning, match="environment . was made anew: worker .*timeout=0.3 s"),
    ):
        drive(vecenv, 5)


def test_slow_steps_within_the_timeout_are_no_failure():
    creator = toys.faulty(how="sleep", at=2)
    with parallel(creator, timeout=5) as vecenv:
        drive(vecenv, 3)


@pytest.mark.parametrize("timeout", [0, -1.0, float("nan")])
def test_a_timeout_is_a_time(timeout):
    with pytest.raises(APIUsageError, match="timeout: expected seconds above 0, or None, got"):
        vector.make(toys.make_draw, timeout=timeout)


# -- limits of the system ------------------------------------------------------------------------


def open_numbers():
    return {int(path.name) for path in Path("/proc/self/fd").iterdir()}


def is_open(number):
    return Path(f"/proc/self/fd/{number}").exists()  # the folder that was just read is not


def close_pipe_of_the_standard_library(used):
    """Its fork makes two pipes, and leaves the first open where the second finds no number."""
    gc.collect()
    left = {number for number in open_numbers() - used if is_open(number)}
    assert len(left) in (0, 2)
    for number in left:
        os.close(number)


@pytest.mark.parametrize("context", CONTEXTS[:2])  # the fork server itself ends of it
def test_too_few_files_may_be_open(context):
    parallel(toys.make_draw, context=context).close()  # so that what is kept for ever is there
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    used = open_numbers()
    free = [number for number in range(soft) if number not in used]
    resource.setrlimit(resource.RLIMIT_NOFILE, (free[8], hard))
    try:
        message = r"worker \d+ of 16 could not start: .*open no more files.*ulimit -n 4096"
        with fails_soon(APIUsageError, match=message):
            parallel(toys.make_draw, num_envs=16, num_workers=16, context=context)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    if context == "fork":
        close_pipe_of_the_standard_library(used)
    with parallel(toys.make_draw, context=context) as vecenv:
        drive(vecenv, 2)


class NoSemaphores:
    """A context on a system whose /dev/shm has no room."""

    def __init__(self, number):
        self.number = number

    def Semaphore(self, value):
        raise OSError(self.number, os.strerror(self.number))


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EACCES, errno.ENOENT])
def test_no_room_for_semaphores_names_the_flag(number):
    with pytest.raises(APIUsageError, match=r"/dev/shm.*docker run --shm-size=64m") as caught:
        Signals.create(NoSemaphores(number), 2, 2)
    assert os.strerror(number) in str(caught.value)


@pytest.mark.slow
@pytest.mark.parametrize("context", ["fork", "spawn", "forkserver"])
def test_a_full_dev_shm(context, tmp_path):
    """The real thing, in a mount namespace whose /dev/shm has one page."""
    script = tmp_path / "script.py"
    script.write_text(
        textwrap.dedent(
            f"""
            import sys; sys.path.insert(0, {str(Path(__file__).parent)!r})
            import vector_toys as toys
            if __name__ == "__main__":
                toys.make(toys.make_draw, "sync", context="{context}")
            """
        )
    )
    mount = "mount -t tmpfs -o size=4k none /dev/shm && head -c 4096 /dev/zero > /dev/shm/full"
    result = subprocess.run(
        ["unshare", "--mount", "sh", "-c", f"{mount} && exec {sys.executable} {script}"],
        capture_output=True,
        text=True,
        timeout=60,
    )
    if "unshare failed" in result.stderr:
        pytest.skip("needs the right to mount a small /dev/shm (root)")
    assert result.returncode == 1
    last = result.stderr.strip().splitlines()[-1]
    assert "--shm-size" in last
    assert "No space left on device" in last
