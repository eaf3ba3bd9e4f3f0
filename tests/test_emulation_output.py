"""What environments print: out of sight if asked for, and in the message when they fail."""

import contextlib
import copy
import ctypes
import io
import os
import pickle
import subprocess
import sys
from pathlib import Path

import pytest
from toys import Echo, Lives, emulate, pair_game

import pufferlib.vector
from pufferlib.emulation import GymnasiumPufferEnv
from pufferlib.emulation.output import KEPT
from pufferlib.exceptions import WorkerError

LIBC = ctypes.CDLL(None)


class Noisy(Echo):
    """Prints in every way at every call; its step raises after `length` of them."""

    def __init__(self, length=10):
        super().__init__(length=None)
        self.limit = length
        print("made")

    def reset(self, *, seed=None, options=None):
        print("reset", file=sys.stderr)
        return super().reset(seed=seed, options=options)

    def step(self, action):
        print("python", self.clock)
        LIBC.puts(b"from C")
        os.write(2, b"descriptor\n")
        if self.clock == self.limit:
            raise ZeroDivisionError("over")
        return super().step(action)

    def render(self):
        print("drawn")
        return super().render()

    def close(self):
        print("closed")
        super().close()


class NoisyLives(Lives):
    def step(self, actions):
        print("lives")
        return super().step(actions)


def play(env):
    env.reset()
    env.step(0)
    env.render()
    env.close()


@pytest.mark.smoke
def test_nothing_is_seen_and_all_is_kept(capfd):
    env = GymnasiumPufferEnv(Noisy, suppress_output=True)
    play(env)
    assert capfd.readouterr() == ("", "")
    lines = sorted(env.printed.split("\n"))
    expected = ["made", "reset", "python 0", "from C", "descriptor", "drawn", "closed", ""]
    assert lines == sorted(expected)


def test_all_is_seen_by_default(capfd):
    env = GymnasiumPufferEnv(Noisy)
    play(env)
    LIBC.fflush(None)
    out, err = capfd.readouterr()
    assert sorted(out.split()) == sorted(["made", "python", "0", "from", "C", "drawn", "closed"])
    assert err.split() == ["reset", "descriptor"]
    assert env.printed == ""


def test_what_the_program_prints_itself_stays_its_own(capfd):
    env = GymnasiumPufferEnv(Noisy, suppress_output=True)
    LIBC.printf(b"before ")  # still in C's buffer when the environment begins to print
    print("mine", end=" ")
    env.reset()
    print("after", flush=True)
    LIBC.fflush(None)
    assert sorted(capfd.readouterr().out.split()) == ["after", "before", "mine"]
    assert env.printed == "made\nreset\n"


def test_programs_that_an_environment_starts_are_silent_too(capfd):
    class Starting(Echo):
        def step(self, action):
            subprocess.run(["echo", "child"], check=True)
            return super().step(action)

    env = emulate(Starting(), suppress_output=True)
    play(env)
    assert capfd.readouterr() == ("", "")
    assert env.printed == "child\n"


def test_streams_without_a_descriptor_are_silent_too():
    """As in a notebook, or under a live display."""
    env = emulate(Noisy(), suppress_output=True)
    with contextlib.redirect_stdout(io.StringIO()) as seen:
        env.reset()
        env.step(0)
        print("mine")
    assert seen.getvalue() == "mine\n"
    assert "python 0\n" in env.printed


@pytest.mark.parametrize("backend", ["serial", "multiprocessing"])
def test_a_failing_environment_says_what_it_printed(backend, capfd):
    options = {"env_kwargs": {"length": 1}, "suppress_output": True}
    with pufferlib.vector.make(
        GymnasiumPufferEnv, [Noisy], options, backend=backend, num_envs=2
    ) as vecenv:
        vecenv.reset()
        vecenv.step([0, 0])
        assert all("python 0\n" in text for text in vecenv.get_attr("printed"))
        with pytest.raises(WorkerError, match="ZeroDivisionError: over") as caught:
            vecenv.step([0, 0])
    assert "the environment printed (the last of it):\n" in str(caught.value)
    assert "python 1\n" in str(caught.value)
    assert capfd.readouterr() == ("", "")


def test_a_failing_constructor_says_what_it_printed():
    class Failing(Noisy):
        def __init__(self):
            super().__init__()
            raise FileNotFoundError("no map")

    with pytest.raises(FileNotFoundError) as caught:
        GymnasiumPufferEnv(Failing, suppress_output=True)
    assert caught.value.__notes__ == ["the environment printed (the last of it):\nmade\n"]


def test_the_last_of_much_is_kept():
    class Chatty(Echo):
        def step(self, action):
            print(f"{self.clock:07d}" * 1000)
            return super().step(action)

    env = emulate(Chatty(), suppress_output=True)
    env.reset()
    for _ in range(30):
        env.step(0)
        assert os.fstat(env._output._file.fileno()).st_size <= 4 * KEPT
    assert len(env.printed) == KEPT
    assert env.printed.endswith("0000029\n")


def test_descriptors_do_not_leak():
    env = emulate(Noisy(), suppress_output=True)
    env.reset()
    before = len(list(Path("/dev/fd").iterdir()))
    for _ in range(5):
        env.step(0)
    assert len(list(Path("/dev/fd").iterdir())) == before


def test_many_agents_are_silenced_alike(capfd):
    env = emulate(NoisyLives(pair_game().script, "ab"), suppress_output=True)
    env.reset()
    env.step({"a": 0, "b": 0})
    assert capfd.readouterr() == ("", "")
    assert env.printed == "lives\n"


@pytest.mark.parametrize("travel", [copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))])
def test_silence_travels(travel, capfd):
    env = emulate(Noisy(), suppress_output=True)
    env.reset()
    twin = travel(env)
    twin.step(0)
    assert capfd.readouterr() == ("made\n", "")
    assert "python 0\n" in twin.printed
    assert "reset" not in twin.printed
