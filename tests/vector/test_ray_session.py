"""Programs that use Ray without having begun a session, and programs that end without closing."""

import contextlib
import os
import signal
import subprocess
import sys
import tempfile

import psutil
import pytest
from fault_tools import ALL_ONCE, closings, is_running, wait_until

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("ray_session"), pytest.mark.timeout(300)]

BEGIN = """
import functools, os, signal, sys
import ray
import vector_toys as toys

class Closed(toys.Faulty):
    def pid(self):
        return os.getpid()

def creator(index, folder):
    return toys.make_emulated(Closed, index, faulty=None, folder=folder)

creators = [functools.partial(creator, index, sys.argv[1]) for index in range(4)]
before = signal.getsignal(signal.SIGTERM)
"""

SHARED = """
one = toys.make(creators, "ray")
assert ray.is_initialized()
assert signal.getsignal(signal.SIGTERM) is before
two = toys.make(toys.make_draw, "ray")
one.close()
two.reset()  # the session is still there
two.close()
assert not ray.is_initialized()
"""

LEFT_OPEN = """
vecenv = toys.make(creators, "ray")
vecenv.reset()
print(*vecenv.call("pid"), flush=True)
sys.stdin.read()
"""


@contextlib.contextmanager
def program(text, *arguments, **env):
    """A running Python program that knows the toys."""
    path = os.pathsep.join(filter(None, sys.path))
    env = (
        {k: v for k, v in os.environ.items() if not k.startswith("RAY_")}
        | {"PYTHONPATH": path}
        | env
    )
    process = subprocess.Popen(
        [sys.executable, "-c", BEGIN + text, *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=env,
        text=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        process.stdin.close()
        process.stdout.close()


def processes_of(folder):
    """The Ray processes whose files are in `folder`."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if str(folder) in " ".join(process.cmdline()):
                found.append(process)
    return found


def test_without_a_session_one_begins_that_ends_with_the_last_vecenv(tmp_path):
    # In a folder of its own it finds no other cluster, and Ray leaves its token there.
    # (Not in tmp_path: the paths of sockets must be short.)
    with tempfile.TemporaryDirectory(prefix="puffer") as folder:
        with program(SHARED, tmp_path, RAY_TMPDIR=folder, HOME=folder) as process:
            assert process.wait() == 0
        assert closings(tmp_path) == ALL_ONCE
        assert wait_until(lambda: not processes_of(folder), 10)


@pytest.mark.parametrize("how", ["ends", "SIGKILL"])
def test_a_program_that_does_not_close_leaves_no_actor(how, tmp_path, ray_session):
    session = {"RAY_ADDRESS": ray_session.address} | ray_session.token
    with program(LEFT_OPEN, tmp_path, **session) as process:
        pids = set(map(int, process.stdout.readline().split()))
        assert len(pids) == 2
        if how == "SIGKILL":
            process.kill()
        else:
            process.stdin.close()
        assert process.wait() == {"ends": 0, "SIGKILL": -signal.SIGKILL}[how]
        assert wait_until(lambda: not any(map(is_running, pids)), 10)
        if how == "ends":  # else Ray may not give the actors the time
            assert closings(tmp_path) == ALL_ONCE
