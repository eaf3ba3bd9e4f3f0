"""Emulation's compiled shortcuts: the same bytes and refusals as the Python that they shorten."""

import collections
import functools
import gc
import math
import subprocess
import sys
import weakref

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete, MultiDiscrete, Tuple
from hypothesis import given, settings
from strategies import spaces_and_samples
from toys import Echo, emulate, vectorize

from pufferlib import native
from pufferlib.buffers import Buffers
from pufferlib.emulation.single_agent import GymnasiumRows
from pufferlib.exceptions import APIUsageError, SpaceError
from pufferlib.flatten import ObservationPlan
from pufferlib.native import rows
from pufferlib.spaces import row_layout

CORE = rows._core
pytestmark = pytest.mark.skipif(CORE is None, reason=f"the native core is {native.state()}")

SPACE = Dict(
    a=Box(-9, 9, (2, 3), np.int16),
    b=Tuple([Box(-9, 9, (2,), np.float32), Discrete(5)]),
)


def written(space, sample, core=CORE):
    """The bytes of a poisoned row after `sample` was written with this core."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rows, "_core", core)
        plan = ObservationPlan(space)
        shape, dtype = row_layout(plan.row_space)
        row = np.ndarray(shape, dtype, np.full(math.prod(shape) * dtype.itemsize, 0x5A, np.uint8))
        plan.writer(row)(sample)
    return row.tobytes()


def sample(**changes):
    a = np.arange(6, dtype=np.int16).reshape(2, 3)
    return {"a": a, "b": (np.float32([7, 8]), 3)} | changes


@settings(max_examples=60, deadline=None)
@given(spaces_and_samples())
def test_samples_of_any_space_are_written_as_python_writes_them(pair):
    space, (observation,) = pair
    assert written(space, observation) == written(space, observation, core=None)


@pytest.mark.parametrize(
    "observation",
    [
        sample(),
        dict(reversed(sample().items())),
        collections.OrderedDict(sample()),
        sample(b=[np.float32([7, 8]), np.int64(3)]),
        sample(a=np.arange(6, dtype=np.int16).reshape(3, 2).T),
        sample(a=np.arange(6, dtype=">i2").reshape(2, 3)),
        sample(a=[[1, 2, 3], [4, 5, 6]]),
        sample(b=(np.float64([0.1, 8]), np.array(3))),
        sample(a=np.asfortranarray(sample()["a"])),
        sample(b=(np.float32([7, 0, 8])[::2], 3)),
        sample(a=np.arange(6, dtype=np.int16).reshape(1, 2, 3)[0]),
    ],
    ids=[
        *("plain", "order", "subclass", "list", "strided", "byte order", "lists", "float64"),
        *("fortran", "every other", "view"),
    ],
)
def test_what_does_not_fit_is_converted_as_python_converts_it(observation):
    assert written(SPACE, observation) == written(SPACE, observation, core=None)


@pytest.mark.parametrize(
    "observation",
    [
        sample(c=0),
        {"a": sample()["a"]},
        {"a": sample()["a"], "c": 0},
        sample(b=(np.zeros(2, np.float32),)),
        sample(a=np.zeros((3, 2), np.int16)),
        sample(a=np.full((2, 3), 40_000)),
        7,
    ],
    ids=["extra", "missing", "other", "short", "shape", "range", "number"],
)
def test_refusals_are_python_s(observation):
    with pytest.raises(SpaceError) as expected:
        written(SPACE, observation, core=None)
    with pytest.raises(SpaceError) as found:
        written(SPACE, observation)
    assert str(found.value) == str(expected.value)


def test_an_observation_may_be_the_row_itself():
    plan, row = ObservationPlan(Box(-9, 9, (4,), np.float32)), np.arange(4, dtype=np.float32)
    plan.writer(row)(row)
    assert row.tolist() == [0, 1, 2, 3]


class Varied(Echo):
    """Pays and flags in every type that environments use; an episode has `length` steps."""

    REWARDS = (1, 0.1, np.float32(0.3), np.float64(-2), np.array(5.0), True, np.int64(7))

    def step(self, action):
        observation, _, terminal, truncation, _ = super().step(action)
        reward = self.REWARDS[self.clock % len(self.REWARDS)]
        info = {"clock": self.clock} if self.clock % 3 == 0 else {}
        return observation, reward, np.bool_(terminal), int(truncation), info


def trajectory(creator, core, steps=25):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rows, "_core", core)
        with vectorize(creator, n=2) as vecenv:
            vecenv.reset(seed=0)
            results = [vecenv.step(np.array([i % 5, 3])) for i in range(steps)]
            return [[*(a.tobytes() for a in arrays), infos] for *arrays, infos in results]


@pytest.mark.parametrize("truncates", [False, True])
def test_trajectories_are_python_s(truncates):
    creator = functools.partial(Varied, length=7, truncates=truncates)
    assert trajectory(creator, CORE) == trajectory(creator, None)


class Telling(Echo):
    """Its infos hold the actions that it got, and their types."""

    def __init__(self, action_space):
        super().__init__()
        self.action_space = action_space

    def step(self, action):
        told = [type(action).__name__, np.asarray(action).dtype.str, np.ravel(action).tolist()]
        return self.observe(), 0.0, False, False, {"told": told}


@pytest.mark.parametrize(
    ("space", "row"),
    [
        (Discrete(5), 3),
        (Discrete(5, start=2), 3),
        (MultiDiscrete([5]), [3]),
        (MultiDiscrete([5, 4]), [3, 2]),
        (Tuple([Discrete(5)]), [3]),
        (Box(-1, 1, (1,), np.float32), [0.5]),
    ],
    ids=str,
)
def test_actions_are_python_s(space, row):
    told = []
    for core in (CORE, None):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(rows, "_core", core)
            with vectorize(functools.partial(Telling, space), n=1) as vecenv:
                vecenv.reset(seed=0)
                told.append([vecenv.step(np.array([row]))[-1] for _ in range(3)])
    assert told[0] == told[1]
    assert all(infos for infos in told[0])


class Counting(GymnasiumRows):
    """Counts the results that are taken in Python."""

    taken = 0
    begun = 0

    def _take_first(self, result):
        self.begun += 1
        return super()._take_first(result)

    def _take(self, result):
        self.taken += 1
        return super()._take(result)


def counting(env, **options):
    emulated = emulate(env, **options)
    spaces = emulated.single_observation_space, emulated.single_action_space
    bound = Counting(emulated, Buffers.allocate(*spaces, 1))
    bound.reset(seed=0)
    return bound


@pytest.mark.parametrize(
    ("check", "taken", "begun"), [("first", 1, 1), ("never", 0, 1), ("always", 5, 2)]
)
def test_only_what_is_checked_is_taken_in_python(check, taken, begun):
    bound = counting(Echo(length=5), check=check)
    for _ in range(5):
        bound.step(bound.buffers.actions)
    assert bound.ended
    assert (bound.buffers.rewards[0], bound.buffers.terminals[0]) == (1, True)
    bound.step(bound.buffers.actions)  # the reset
    assert (bound.taken, bound.begun, bound.ended) == (taken, begun, False)
    assert bound.buffers.observations.tolist() == [[0, -1]]
    assert (bound.buffers.rewards[0], bound.buffers.terminals[0]) == (0, False)


def test_a_broken_reset_fails_as_in_python():
    bound = counting(Echo(length=2))
    bound.step(bound.buffers.actions)
    bound.step(bound.buffers.actions)
    bound.env.env.observe = lambda action=-1: np.zeros(3)
    with pytest.raises(SpaceError, match=r"expected shape \(2,\)"):
        bound.step(bound.buffers.actions)


class Forgetful(Echo):
    """Its second reset is of the old API."""

    def reset(self, *, seed=None, options=None):
        result = super().reset(seed=seed, options=options)
        return result if self.resets == 1 else result[0]


def test_a_reset_of_an_old_api_is_refused():
    bound = counting(Forgetful(length=1), check="never")
    bound.step(bound.buffers.actions)
    with pytest.raises(APIUsageError, match=r"reset\(\): expected \(observation, info\)"):
        bound.step(bound.buffers.actions)


def test_actions_from_elsewhere_are_copied_in():
    bound = counting(Echo())
    for action in (1, 2, 3):
        bound.step(np.array([action]))
        assert bound.buffers.observations.tolist() == [[0, action]]


class Breaking(Echo):
    """Returns `result` at its third step, or calls it."""

    result = None

    def step(self, action):
        ordinary = super().step(action)
        if self.clock != 3:
            return ordinary
        return self.result() if callable(self.result) else self.result


@pytest.mark.parametrize(
    ("result", "error", "message"),
    [
        ((0, 0, False, {}), APIUsageError, "tuple of 4"),
        (None, APIUsageError, "NoneType"),
        ((np.zeros(3), 0, False, False, {}), SpaceError, r"expected shape \(2,\)"),
        ((np.zeros(2), "one", False, False, {}), TypeError, "invalid type for format 'f'"),
        ((np.zeros(2), 0, np.zeros(2), False, {}), ValueError, "ambiguous"),
        (lambda: 1 / 0, ZeroDivisionError, "division by zero"),
    ],
    ids=["old", "none", "shape", "reward", "flag", "raises"],
)
def test_a_broken_step_fails_as_in_python(result, error, message):
    env = Breaking()
    env.result = result
    bound = counting(env)
    bound.step(bound.buffers.actions)
    bound.step(bound.buffers.actions)
    with pytest.raises(error, match=message):
        bound.step(bound.buffers.actions)


def test_a_restored_environment_is_the_one_that_steps():
    bound = counting(Echo(length=9))
    for _ in range(3):
        bound.step(bound.buffers.actions)
    state = bound.get_state()
    bound.step(bound.buffers.actions)
    bound.set_state(state)
    bound.step(bound.buffers.actions)
    assert bound.env.env.clock == 4


def test_dropped_rows_and_their_environment_are_collected():
    bound = counting(Echo())
    env = weakref.ref(bound.env.env)
    del bound
    gc.collect()
    assert env() is None


@pytest.mark.slow
def test_rows_that_outlive_the_interpreter_are_no_news():
    script = (
        "import ctypes, gymnasium, pufferlib.vector\n"
        "from pufferlib.emulation import GymnasiumPufferEnv\n"
        "creator = lambda: GymnasiumPufferEnv(gymnasium.make('CartPole-v1'))\n"
        "vecenv = pufferlib.vector.make(creator)\n"
        "ctypes.pythonapi.Py_IncRef(ctypes.py_object(vecenv))\n"
    )
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True)
    assert (result.stdout, result.stderr) == (b"", b"")


class Masked(gymnasium.Env):
    """Allows nothing at its third step."""

    observation_space = Dict(action_mask=Box(0, 1, (2,), np.int8), x=Box(0, 1, (1,), np.float32))
    action_space = Discrete(2)
    clock = 0

    def observe(self):
        return {"action_mask": np.full(2, self.clock != 3, np.int8), "x": np.zeros(1, np.float32)}

    def reset(self, *, seed=None, options=None):
        return self.observe(), {}

    def step(self, action):
        self.clock += 1
        return self.observe(), 0.0, False, False, {}


def test_masks_are_checked_at_every_step():
    bound = counting(Masked())
    bound.step(bound.buffers.actions)
    bound.step(bound.buffers.actions)
    with pytest.raises(SpaceError, match="at least one allowed option"):
        bound.step(bound.buffers.actions)
