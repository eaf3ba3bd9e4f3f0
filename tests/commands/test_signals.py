"""The two-step exit: a grace period, then the end."""

import signal
import subprocess
import sys
import time

import pytest

from pufferlib.commands.signals import GracefulExit, Interrupted

# Takes signals in a stretch that must not be dropped, and says how far it got.
SCRIPT = """
import signal, sys, time
from pufferlib.commands.signals import GracefulExit, Interrupted
with GracefulExit(grace=0.2, limit=1.0):
    try:
        signal.raise_signal(signal.SIGTERM)
        if sys.argv[1] == "second":
            signal.raise_signal(signal.SIGINT)
        time.sleep(60)
    except Interrupted as interruption:
        print("cleanup", flush=True)
        if sys.argv[1] == "stuck":
            time.sleep(60)
if sys.argv[1] == "stuck at exit":
    time.sleep(60)
class SlowToGo:
    sleep = time.sleep
    def __del__(self):
        self.sleep(1)
if sys.argv[1] == "slow teardown":
    left_over = SlowToGo()
    sys.exit(143)
"""


@pytest.fixture(autouse=True)
def unsignalled():
    """Undoes what stays in force after a signal."""
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGALRM)
    handlers = [signal.getsignal(number) for number in numbers]
    yield
    signal.setitimer(signal.ITIMER_REAL, 0)
    for number, handler in zip(numbers, handlers, strict=True):
        signal.signal(number, handler)


def test_signal_is_taken_at_once_where_nothing_is_lost():
    def work(stop):
        with stop.interruptible():
            signal.raise_signal(signal.SIGTERM)
            pytest.fail("not interrupted")

    with GracefulExit() as stop, pytest.raises(Interrupted) as raised:
        work(stop)
    assert raised.value.exit_code == 143
    assert str(raised.value) == "stopped by SIGTERM"


def test_signal_waits_for_the_next_check_elsewhere():
    with GracefulExit() as stop:
        signal.raise_signal(signal.SIGINT)
        with pytest.raises(Interrupted) as raised:
            stop.check()
    assert raised.value.exit_code == 130


def test_work_that_is_not_dropped_ends_after_the_grace_period():
    with GracefulExit(grace=0.1):
        signal.raise_signal(signal.SIGINT)
        with pytest.raises(Interrupted):
            time.sleep(60)


def test_cleanup_after_a_signal_is_broken_off():
    done = False
    with GracefulExit() as stop:
        signal.raise_signal(signal.SIGINT)
        with pytest.raises(Interrupted):
            stop.check()
        with stop.cleanup(patience=0.1):
            time.sleep(5)
            done = True
    assert not done


def test_cleanup_without_a_signal_has_all_the_time():
    done = False
    with GracefulExit() as stop, stop.cleanup(patience=0.01):
        time.sleep(0.1)
        done = True
    assert done


def test_handlers_are_put_back_without_a_signal():
    before = [signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM, signal.SIGALRM)]
    with GracefulExit() as stop:
        stop.check()
        assert signal.getsignal(signal.SIGINT) != before[0]
    assert [signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM, signal.SIGALRM)] == before


@pytest.mark.parametrize(
    ("case", "output"), [("second", ""), ("stuck", "cleanup\n"), ("stuck at exit", "cleanup\n")]
)
def test_second_signal_and_stuck_cleanup_end_the_process(case, output):
    result = subprocess.run(
        [sys.executable, "-c", SCRIPT, case], capture_output=True, text=True, timeout=50
    )
    assert (result.returncode, result.stdout) == (143, output)


def test_a_slow_interpreter_does_not_change_the_exit_code():
    result = subprocess.run([sys.executable, "-c", SCRIPT, "slow teardown"], timeout=30)
    assert result.returncode == 143
