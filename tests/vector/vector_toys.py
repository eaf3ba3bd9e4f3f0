"""Environments of every kind that vectorization knows, small enough to see through."""

import contextlib
import functools
import mmap
import multiprocessing
import os
import signal
import time
from pathlib import Path

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Dict, Discrete, MultiDiscrete
from gymnasium.vector import AutoresetMode
from pettingzoo.utils.env import ParallelEnv

import pufferlib
from pufferlib import vector
from pufferlib.emulation import GymnasiumPufferEnv, PettingZooPufferEnv

# Four environments each; a pool's batch is two of them.
BACKENDS = {
    "serial": {"backend": vector.Serial},
    "serial_pool": {"backend": vector.Serial, "batch_size": 2},
    "sync": {"backend": vector.Multiprocessing, "num_workers": 2},
    "sync4": {"backend": vector.Multiprocessing, "num_workers": 4},
    "pool": {"backend": vector.Multiprocessing, "num_workers": 4, "batch_size": 2},
    "gather": {
        "backend": vector.Multiprocessing,
        "num_workers": 4,
        "batch_size": 2,
        "zero_copy": False,
    },
}

# What most tests run over; the differences of the rest are tested where they matter.
USUAL = [name for name in BACKENDS if name != "sync4"]

# The same on Ray, which not everybody has installed and which takes long.
RAY = {
    "ray": {"backend": "ray", "num_workers": 2},
    "ray_pool": {"backend": "ray", "num_workers": 2, "batch_size": 2},
    "ray_gather": {"backend": "ray", "num_workers": 4, "batch_size": 2, "zero_copy": False},
}


def make(creator, backend, **kwargs):
    """`vector.make` of four environments on a named backend."""
    return vector.make(creator, **({"num_envs": 4} | (BACKENDS | RAY)[backend] | kwargs))


class Draw(gymnasium.Env):
    """Observations from its own generator; episodes of random length, half of them truncated."""

    observation_space = Box(-1e6, 1e6, (3,), np.float32)
    action_space = Discrete(5)
    render_mode = "ansi"

    def __init__(self, name="draw"):
        self.name, self.t, self.episodes, self.options = name, 0, 0, None

    def observe(self, action):
        return np.array([self.np_random.random(), self.t, action], np.float32)

    def reset(self, seed=None, options=None):
        super().reset(seed=seed)
        self.seed, self.options = seed, options
        self.t, self.length = 0, int(self.np_random.integers(3, 8))
        self.episodes += 1
        return self.observe(-1), {}

    def step(self, action):
        self.t += 1
        end = self.t >= self.length
        terminal = bool(self.length % 2)
        info = {"t": self.t} if end else {}
        return self.observe(action), float(action), end and terminal, end and not terminal, info

    def render(self):
        return f"{self.name} at {self.t}"

    def double(self, value, plus=0):
        return 2 * value + plus

    def pid(self):
        return os.getpid()


def first_draw(seed):
    """What `Draw` observes first after a reset with `seed`."""
    generator = np.random.default_rng(seed)
    generator.integers(3, 8)
    return generator.random()


class Nested(Draw):
    """A composite observation of several dtypes and several actions at once."""

    observation_space = Dict(
        {
            "far": Box(-1, 1, (2, 2), np.float64),
            "near": Dict({"kind": Discrete(4, start=2), "count": Box(0, 255, (3,), np.uint8)}),
        }
    )
    action_space = MultiDiscrete([2, 3])

    def observe(self, action):
        return {
            "near": {"kind": 2 + self.t % 4, "count": self.np_random.integers(0, 256, 3, np.uint8)},
            "far": self.np_random.random((2, 2)),
        }

    def step(self, action):
        return super().step(action[0] + action[1])


class Herd(ParallelEnv):
    """Agent b dies at step 2, c is born at step 3, all end by truncation at step 5."""

    metadata = {"name": "herd"}
    render_mode = None
    possible_agents = ["a", "b", "c"]

    def __init__(self):
        self.generator = np.random.default_rng(0)

    def observation_space(self, agent):
        return Box(0, 10, (2,), np.float32)

    def action_space(self, agent):
        return Discrete(3)

    def observe(self, agents):
        return {
            agent: np.array([1 + self.t, self.generator.random()], np.float32) for agent in agents
        }

    def reset(self, seed=None, options=None):
        if seed is not None:
            self.generator = np.random.default_rng(seed)
        self.t, self.agents = 0, ["a", "b"]
        return self.observe(self.agents), {}

    def step(self, actions):
        assert set(actions) == set(self.agents), f"actions of {set(actions)}, not {self.agents}"
        self.t += 1
        acting = list(self.agents)
        self.agents = {2: ["a"], 3: ["a", "c"], 5: []}.get(self.t, acting)
        shown = sorted({*acting, *self.agents})
        return (
            self.observe(shown),
            {agent: 1.0 + actions[agent] for agent in acting},
            {agent: agent == "b" and self.t == 2 for agent in acting},
            dict.fromkeys(acting, self.t == 5),
            {agent: {"t": self.t} for agent in acting if self.t == 5},
        )


class Native(pufferlib.PufferEnv):
    """Two agents that write their rows themselves; `SAME_STEP` in its subclass."""

    def __init__(self):
        self.single_observation_space = Box(-1, 1e6, (2,), np.float32)
        self.single_action_space = Box(-1, 1, (2,), np.float32)
        self.num_agents = 2
        self.generator = np.random.default_rng(0)
        super().__init__()

    def reset(self, seed=None, options=None):
        if seed is not None:
            self.generator = np.random.default_rng(seed)
        self.t = np.zeros(2, int)
        self.lengths = self.generator.integers(2, 6, 2)
        self._write(0, False)
        return []

    def _write(self, rewards, ended):
        self.observations[:, 0] = self.t
        self.observations[:, 1] = self.generator.random(2)
        self.rewards[:] = rewards
        odd = self.lengths % 2 == 1
        self.terminals[:], self.truncations[:] = ended & odd, ended & ~odd

    def step(self, actions):
        begins = self.terminals | self.truncations
        self.t = np.where(begins, 0, self.t + 1)
        self._write(np.where(begins, 0, actions.sum(axis=1)), self.t >= self.lengths)
        return [{"agent": int(i)} for i in np.flatnonzero(self.t >= self.lengths)]


class NativeSameStep(Native):
    autoreset_mode = AutoresetMode.SAME_STEP

    def step(self, actions):
        self.t += 1
        ended = self.t >= self.lengths
        self._write(actions.sum(axis=1), ended)
        self.final_observations[ended] = self.observations[ended]
        self.t[ended] = 0
        self.observations[ended] = [0, 0.5]
        return []


def shared_page():
    """Memory that this process shares with its workers, however they start."""
    if not hasattr(os, "memfd_create"):
        return mmap.mmap(-1, mmap.PAGESIZE)
    is_worker = getattr(multiprocessing.current_process(), "_inheriting", False)
    if not is_worker:
        fd = os.memfd_create("toys", 0)
        os.ftruncate(fd, mmap.PAGESIZE)
        os.environ["VECTOR_TOYS_PAGE"] = f"/proc/{os.getpid()}/fd/{fd}"
    with Path(os.environ["VECTOR_TOYS_PAGE"]).open("r+b") as file:
        return mmap.mmap(file.fileno(), mmap.PAGESIZE)


# When an environment of this process or of its workers last failed on purpose: seconds of the
# monotonic clock, which all processes share.
FAILED_AT = np.frombuffer(shared_page(), np.float64, count=1)


class Faulty(Draw):
    """Fails on purpose, in one way at one place and step, if its index is the faulty one.

    Args:
        how: 'raise', 'exit', 'kill', 'exotic' (an exception that cannot be unpickled), 'hang' or
            'sleep' (half a second).
        where: 'constructor', 'reset', 'step' or 'close'.
        folder: where every environment that `close` closes leaves a line.
    """

    def __init__(self, index, faulty=1, how="raise", where="step", at=3, folder=None):
        super().__init__()
        self.length = 10**9
        self.index, self.at, self.folder = index, at, folder
        self.how, self.where = how if index == faulty else None, where
        self.fail("constructor")

    def fail(self, where):
        if self.how is None or self.where != where:
            return
        FAILED_AT[0] = time.monotonic()
        if self.how == "raise":
            raise ValueError(f"boom in env {self.index}")
        if self.how == "exotic":
            raise ExoticError(1, 2)
        if self.how == "exit":
            os._exit(3)
        if self.how == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(0.5 if self.how == "sleep" else 600)

    def reset(self, seed=None, options=None):
        self.fail("reset")
        result = super().reset(seed=seed)
        self.length = 10**9
        return result

    def step(self, action):
        if self.t + 1 == self.at:
            self.fail("step")
        return super().step(action)

    def close(self):
        if self.folder is not None:
            with (Path(self.folder) / f"{self.index}").open("a") as file:
                file.write(f"{os.getpid()}\n")
        self.fail("close")


class ExoticError(Exception):
    """Pickles, but cannot be unpickled."""

    def __init__(self, a, b):
        super().__init__("exotic")


class Global(Draw):
    """Observations from the generators that all environments of a process share."""

    def observe(self, action):
        import random

        return np.array([np.random.random(), random.random(), 0], np.float32)  # noqa: NPY002


class Slow(Draw):
    """Takes `seconds` for a step."""

    def __init__(self, seconds=0.0):
        super().__init__()
        self.seconds = seconds

    def step(self, action):
        time.sleep(self.seconds)
        return super().step(action)


class Talker(Draw):
    """Tells `info` at every step."""

    def __init__(self, info):
        super().__init__()
        self.info = info

    def step(self, action):
        return *super().step(action)[:4], self.info


def make_draw(**kwargs):
    return GymnasiumPufferEnv(Draw(**kwargs))


def make_nested():
    return GymnasiumPufferEnv(Nested())


def make_herd():
    return PettingZooPufferEnv(Herd())


def make_emulated(cls, *args, **kwargs):
    return GymnasiumPufferEnv(cls(*args, **kwargs))


def make_faulty(index, **kwargs):
    return GymnasiumPufferEnv(Faulty(index, **kwargs))


class Alone(Draw):
    """An emulator of which a process can have one."""

    alive = []

    def __init__(self):
        super().__init__()
        if self.alive:
            raise RuntimeError("this process has one already")
        self.alive.append(self)

    def close(self):
        self.alive.remove(self)


def make_alone(name="alone"):
    return make_emulated(Alone)


make_alone.one_per_process = True


def make_choosy(cls=Draw):
    """A binding whose library does not survive a fork."""
    return make_emulated(cls)


make_choosy.start_method = "spawn"


def faulty(n=4, **kwargs):
    """`n` creators, of which that of environment 1 (or `faulty`) makes a faulty one."""
    return [functools.partial(make_faulty, i, **kwargs) for i in range(n)]


KINDS = {
    "gymnasium": make_draw,
    "nested": make_nested,
    "pettingzoo": make_herd,
    "next_step": Native,
    "same_step": NativeSameStep,
}


def name_semaphores(pid):
    """Give the semaphores of this process and its workers names that tell for whom they are."""
    multiprocessing.current_process()._config["semprefix"] = f"/mp{pid}"


@contextlib.contextmanager
def time_limit(seconds):
    """Raise TimeoutError in this block after so long, so that no test hangs."""

    def stop(*_):
        raise TimeoutError(f"still waiting after {seconds} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
