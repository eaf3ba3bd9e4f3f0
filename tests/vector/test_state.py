"""get_state and set_state on every backend: the same rows, then the same future."""

import gymnasium
import numpy as np
import pytest
from resumable import PROCESSES, Walk, make_dice, make_shift

import pufferlib.vector
from pufferlib.emulation import GymnasiumPufferEnv
from pufferlib.environment import PufferEnv
from pufferlib.environments.ocean import make_squared
from pufferlib.exceptions import APIUsageError, SnapshotError

NAMES = ("observations", "rewards", "terminals", "truncations", "masks")


def result(vecenv):
    *arrays, infos, _, masks = vecenv.recv()
    arrays.append(masks)
    return dict(zip(NAMES, (array.tolist() for array in arrays), strict=True)), infos


def future(vecenv, steps=15):
    results = []
    for i in range(steps):
        vecenv.send(np.arange(vecenv.num_agents) * (i + 1) % vecenv.single_action_space.n)
        results.append(result(vecenv))
    return results


@pytest.mark.parametrize(
    ("creator", "options"),
    [
        (Walk, {}),
        (Walk, PROCESSES),
        (make_shift, {}),
        (make_shift, PROCESSES),
        (make_squared, {}),
        (make_squared, PROCESSES | {"zero_copy": False}),
        (make_dice, PROCESSES),  # in Serial, the global generators are the caller's
    ],
)
def test_the_state_of_one_vecenv_is_the_future_of_another(creator, options):
    with (
        pufferlib.vector.make(creator, num_envs=4, seed=1, **options) as one,
        pufferlib.vector.make(creator, num_envs=4, seed=2, **options) as other,
    ):
        one.reset()
        last = future(one, 5)[-1][0]
        state = one.get_state()
        expected = future(one)
        other.reset()
        other.send(np.zeros(other.num_agents, np.int64))  # in flight: finished and dropped
        for _ in range(2):
            other.set_state(state)
            assert result(other) == (last, [])
            assert future(other) == expected


@pytest.mark.parametrize("options", [{}, PROCESSES])
def test_a_reset_after_a_restored_state_is_like_any_other(options):
    with pufferlib.vector.make(Walk, num_envs=4, **options) as vecenv:
        first, _ = vecenv.reset(seed=7)
        first = first.copy()
        state = vecenv.get_state()
        vecenv.set_state(state)
        np.testing.assert_array_equal(vecenv.reset(seed=7)[0], first)


@pytest.mark.parametrize("options", [{}, PROCESSES])
def test_a_state_is_taken_between_a_result_and_its_actions(options):
    with pufferlib.vector.make(Walk, num_envs=2, **options) as vecenv:
        with pytest.raises(APIUsageError, match=r"get_state\(\) came out of order: call reset"):
            vecenv.get_state()
        vecenv.async_reset()
        with pytest.raises(APIUsageError, match=r"a result is pending"):
            vecenv.get_state()


@pytest.mark.parametrize("options", [{}, PROCESSES])
def test_pools_have_no_state(options):
    with pufferlib.vector.make(Walk, num_envs=4, batch_size=2, **options) as vecenv:
        vecenv.async_reset()
        vecenv.recv()
        with pytest.raises(SnapshotError, match="batches have 4 of 8 agents"):
            vecenv.get_state()
        with pytest.raises(SnapshotError, match="batches have 4 of 8 agents"):
            vecenv.set_state({})


class Handle(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(0, 1, (1,))
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.handle = lambda: None
        return np.zeros(1, np.float32), {}

    def step(self, action):
        return np.zeros(1, np.float32), 0.0, False, False, {}


class Stateless(PufferEnv):
    """A native environment without the two methods: pickle would copy the rows it writes."""

    def __init__(self):
        self.single_observation_space = Handle.observation_space
        self.single_action_space = Handle.action_space
        self.num_agents = 1
        super().__init__()

    def reset(self, seed=None, options=None):
        return []

    def step(self, actions):
        self.rewards[:] = 0
        return []


@pytest.mark.parametrize("options", [{}, PROCESSES])
@pytest.mark.parametrize(
    ("creator", "message"),
    [
        (lambda: GymnasiumPufferEnv(env=Handle()), "the state of Handle cannot be pickled"),
        (Stateless, r"Stateless has no get_state\(\) and set_state\(state\)"),
    ],
)
def test_an_environment_without_a_state_says_so_and_goes_on(creator, message, options):
    with pufferlib.vector.make(creator, num_envs=2, **options) as vecenv:
        vecenv.reset()
        with pytest.raises(SnapshotError, match=message):
            vecenv.get_state()
        assert vecenv.step(np.zeros(2, np.int64))[1].tolist() == [0, 0]


def test_a_state_of_other_environments_is_refused():
    with (
        pufferlib.vector.make(Walk, num_envs=2) as two,
        pufferlib.vector.make(Walk, num_envs=4) as four,
        pufferlib.vector.make(make_squared, num_envs=2) as squared,
    ):
        for vecenv in (two, four, squared):
            vecenv.reset()
        with pytest.raises(SnapshotError, match="envs: expected 4, got 2"):
            four.set_state(two.get_state())
        with pytest.raises(SnapshotError, match="cannot be restored"):
            squared.set_state(two.get_state())
        squared.reset()  # as the contract says, they need one now
        assert len(squared.step(np.zeros(2, np.int64))) == 5
