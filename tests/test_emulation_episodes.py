"""Seeds, signatures of older APIs, and the two ways an episode ends.

Tests named `test_oNN_…` answer public reports about other libraries, by their number there.
"""

import numpy as np
import pytest
from gymnasium.spaces import Discrete, Tuple
from toys import Echo, GlobalRandom, OwnRandom, emulate, vectorize

from pufferlib.exceptions import APIUsageError, WorkerError

BACKENDS = ["serial", "multiprocessing"]


# -- O14: randomness ------------------------------------------------------------------------------


@pytest.mark.parametrize("backend", BACKENDS)
def test_o14_environments_draw_apart_and_reproducibly(backend):
    def play(seed):
        with vectorize(OwnRandom, n=4, backend=backend, num_workers=2, copy=True) as vecenv:
            return np.stack([vecenv.reset(seed)[0]] + [vecenv.step([0] * 4)[0] for _ in range(3)])

    first = play(seed=5)
    assert len(np.unique(first)) == first.size
    np.testing.assert_array_equal(play(seed=5), first)
    assert not np.intersect1d(play(seed=6), first).size


@pytest.mark.filterwarnings("ignore:num_workers=4 is more than")
def test_o14_global_generators_differ_between_workers():
    def play(seed):
        options = {"backend": "multiprocessing", "num_workers": 4, "copy": True, "seed": seed}
        with vectorize(GlobalRandom, n=4, **options) as vecenv:
            return np.concatenate([vecenv.reset()[0], vecenv.step([0] * 4)[0]])

    first = play(seed=5)
    assert len(np.unique(first)) == first.size
    np.testing.assert_array_equal(play(seed=5), first)


def test_o14_serial_leaves_the_callers_generators_alone():
    np.random.seed(3)  # noqa: NPY002
    expected = np.random.random(4)  # noqa: NPY002
    np.random.seed(3)  # noqa: NPY002
    with vectorize(OwnRandom, n=2) as vecenv:
        vecenv.reset(seed=1)
        vecenv.step([0, 0])
    np.testing.assert_array_equal(np.random.random(4), expected)  # noqa: NPY002


# -- O15: older signatures ------------------------------------------------------------------------


class ObservationOnly(Echo):
    def reset(self, *, seed=None, options=None):
        return super().reset(seed=seed, options=options)[0]  # of length 2, as (observation, info)


class PairOnly(ObservationOnly):
    observation_space = Tuple([Discrete(2), Discrete(2)])

    def reset(self, *, seed=None, options=None):
        return (1, 0)


class FourTuple(Echo):
    def step(self, action):
        observation, reward, terminal, _, info = super().step(action)
        return observation, reward, terminal, info


class Seedless(Echo):
    def reset(self):
        return super().reset()


@pytest.mark.parametrize("cls", [ObservationOnly, PairOnly])
def test_o15_a_reset_without_info_is_detected(cls):
    with pytest.raises(
        APIUsageError, match=r"reset\(\): expected \(observation, info\).*GymToGymn"
    ):
        emulate(cls()).reset()
    with vectorize(cls) as vecenv, pytest.raises(WorkerError, match="GymToGymnasium"):
        vecenv.reset()


def test_o15_a_four_tuple_is_detected():
    env = emulate(FourTuple())
    env.reset()
    with pytest.raises(
        APIUsageError, match=r"step\(\): expected .*, got tuple of 4; .*GymToGymnas"
    ):
        env.step(0)
    with vectorize(FourTuple) as vecenv:
        vecenv.reset()
        with pytest.raises(WorkerError, match="got tuple of 4"):
            vecenv.step([0])


def test_o15_a_reset_without_seed_is_detected_at_construction():
    with pytest.raises(APIUsageError, match=r"got a reset without seed; .*GymToGymnasium"):
        emulate(Seedless())
    with pytest.raises(WorkerError, match="reset without seed"):
        vectorize(Seedless)


def test_o15_options_for_an_environment_without_them_are_refused():
    class NoOptions(Echo):
        def reset(self, seed=None):
            return super().reset(seed=seed)

    env = emulate(NoOptions())
    env.reset(seed=1)
    env.reset(options={})  # as some wrappers pass it
    with pytest.raises(APIUsageError, match="got {'level': 1}, but the environment takes none"):
        env.reset(options={"level": 1})


class Buggy(Echo):
    def reset(self, *, seed=None, options=None):
        self.resets += 1
        raise TypeError("reset() got an unexpected keyword argument 'seed'")


def test_o15_a_type_error_inside_reset_is_the_users_own():
    env = emulate(Buggy())
    with pytest.raises(TypeError, match="unexpected keyword argument 'seed'"):
        env.reset(seed=1)
    assert env.env.resets == 1
    with vectorize(Buggy) as vecenv, pytest.raises(WorkerError, match="raised TypeError in reset"):
        vecenv.reset()


# -- O17: both ways to end ------------------------------------------------------------------------


@pytest.mark.parametrize("truncates", [False, True])
@pytest.mark.parametrize("backend", BACKENDS)
def test_o17_both_flags_end_an_episode_and_are_told_apart(truncates, backend):
    with vectorize(lambda: Echo(length=3, truncates=truncates), 2, backend) as vecenv:
        vecenv.reset()
        flags, clocks = [], []
        for _ in range(9):
            _, _, terminals, truncations, _ = vecenv.step([0, 0])
            flags.append((terminals.tolist(), truncations.tolist()))
            clocks.append(vecenv.get_attr("clock"))
        resets = vecenv.get_attr("resets")
    no, yes = [False] * 2, [True] * 2
    last = (no, yes) if truncates else (yes, no)
    assert flags == [
        (no, no),
        (no, no),
        last,
        (no, no),
        (no, no),
        (no, no),
        last,
        (no, no),
        (no, no),
    ]
    assert clocks == [[t, t] for t in (1, 2, 3, 0, 1, 2, 3, 0, 1)]
    assert resets == [3, 3]
