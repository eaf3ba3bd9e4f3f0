"""Gym 0.21 environments as Gymnasium ones: infos, seeds, and one flag as two."""

import pickle

import numpy as np
import pytest
from old_spaces import BOX, DISCRETE
from toys import Echo

from pufferlib.emulation import GymnasiumPufferEnv
from pufferlib.exceptions import APIUsageError
from pufferlib.wrappers import GymToGymnasium


class OldGym:
    """The API of Gym 0.21: an observation of length 2 alone, 4-tuples, `seed()` apart."""

    observation_space, action_space = BOX, DISCRETE
    metadata = {"render.modes": ["human"]}

    def __init__(self, length=2, by_limit=False):
        self.length, self.by_limit = length, by_limit
        self.seeds, self.clock, self.closed = [], 0, 0

    def seed(self, seed=None):
        self.seeds.append(seed)

    def reset(self):
        self.clock = 0
        return np.zeros(2, np.float32)

    def step(self, action):
        self.clock += 1
        done = self.clock == self.length
        info = {"TimeLimit.truncated": True} if done and self.by_limit else {}
        return np.full(2, 0.5, np.float32), 1, done, info

    def render(self):
        return "drawn"

    def close(self):
        self.closed += 1


class OldGymWithSeed(OldGym):
    """Gym 0.23: `reset` takes a seed and options, still without an info."""

    def reset(self, seed=None, options=None):
        self.seeds.append((seed, options))
        return super().reset()


class OldGymThatHearsTheMode(OldGym):
    """Gym 0.21 as most environments were written: a window, unless told otherwise."""

    def render(self, mode="human"):
        return mode


@pytest.mark.parametrize(("by_limit", "flags"), [(False, (True, False)), (True, (False, True))])
def test_old_gym_speaks_gymnasium(by_limit, flags):
    old = OldGym(by_limit=by_limit)
    env = GymToGymnasium(old)
    observation, info = env.reset(seed=3)
    assert (observation.tolist(), info, old.seeds) == ([0, 0], {}, [3])
    assert env.step(0)[1:4] == (1.0, False, False)
    observation, reward, *ended, _ = env.step(0)
    assert tuple(ended) == flags
    assert env.render() == "drawn"
    env.close()
    env.close()
    assert old.closed == 1
    env.reset()
    env.close()
    assert old.closed == 2, "a reset may have opened it again"


def test_a_seed_goes_where_the_old_environment_takes_it():
    old = OldGymWithSeed()
    GymToGymnasium(old).reset(seed=3, options={"level": 1})
    assert old.seeds == [(3, {"level": 1})]
    with pytest.raises(APIUsageError, match="the environment takes none; leave them out"):
        GymToGymnasium(OldGym()).reset(options={"level": 1})


def test_the_mode_is_told_where_an_old_environment_draws():
    env = GymToGymnasium(OldGymThatHearsTheMode(), render_mode="rgb_array")
    assert (env.render_mode, env.render()) == ("rgb_array", "rgb_array")
    assert GymToGymnasium(OldGym(), render_mode="rgb_array").render() == "drawn"


def test_the_adapter_passes_gymnasium_unchanged():
    env = GymToGymnasium(Echo(7, length=1))
    observation, info = env.reset(seed=3)
    assert (observation.tolist(), info) == ([7, -1], {})
    assert env.step(2)[1:] == (1.0, True, False, {})


def test_adapted_old_gym_emulates_and_travels():
    env = GymnasiumPufferEnv(pickle.loads(pickle.dumps(GymToGymnasium(OldGym()))))
    env.reset(seed=1)
    observation, reward, terminal, truncation, info = env.step(2)
    assert observation.tolist() == [0.5, 0.5]
    assert (reward, terminal, truncation, info) == (1.0, False, False, {})
