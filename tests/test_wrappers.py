"""Adapters of older APIs: Gym to Gymnasium, `dones` to two flags, turns to parallel steps."""

import pickle

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from pettingzoo.test import parallel_api_test
from pettingzoo.utils.env import AECEnv
from toys import PAIR, Echo, pair_game

from pufferlib.emulation import GymnasiumPufferEnv, PettingZooPufferEnv
from pufferlib.exceptions import APIUsageError
from pufferlib.wrappers import (
    GymToGymnasium,
    PettingZooTruncatedWrapper,
    accepts,
    aec_to_parallel,
    to_gymnasium_space,
)


def old_space(kind, **attributes):
    """A stand-in for a space of the `gym` package: the same class name and attributes."""
    return type(kind, (), attributes)()


BOX = old_space(
    "Box", low=np.zeros(2, np.float32), high=np.ones(2, np.float32), shape=(2,), dtype=np.float32
)
DISCRETE = old_space("Discrete", n=3)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (BOX, spaces.Box(0, 1, (2,), np.float32)),
        (DISCRETE, spaces.Discrete(3)),
        (old_space("Discrete", n=3, start=2), spaces.Discrete(3, start=2)),
        (old_space("MultiDiscrete", nvec=np.array([2, 3])), spaces.MultiDiscrete([2, 3])),
        (old_space("MultiBinary", n=4), spaces.MultiBinary(4)),
        (old_space("Dict", spaces={"a": BOX}), spaces.Dict(a=spaces.Box(0, 1, (2,), np.float32))),
        (old_space("Tuple", spaces=[DISCRETE]), spaces.Tuple([spaces.Discrete(3)])),
    ],
    ids=lambda value: type(value).__name__,
)
def test_old_spaces_become_todays(old, new):
    assert to_gymnasium_space(old) == new


@pytest.mark.smoke
def test_todays_spaces_pass_and_others_are_refused():
    assert to_gymnasium_space(PAIR) is PAIR
    with pytest.raises(APIUsageError, match="expected a Gym or Gymnasium space, got .*str"):
        to_gymnasium_space("Box")


class OldGym:
    """The API of Gym 0.21: an observation of length 2 alone, 4-tuples, `seed()` apart."""

    observation_space, action_space = BOX, DISCRETE
    metadata = {"render.modes": ["human"]}

    def __init__(self, length=2, by_limit=False):
        self.length, self.by_limit = length, by_limit
        self.seeds, self.clock, self.closed = [], 0, False

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
        self.closed = True


class OldGymWithSeed(OldGym):
    """Gym 0.23: `reset` takes a seed and options, still without an info."""

    def reset(self, seed=None, options=None):
        self.seeds.append((seed, options))
        return super().reset()


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
    assert old.closed


def test_a_seed_goes_where_the_old_environment_takes_it():
    old = OldGymWithSeed()
    GymToGymnasium(old).reset(seed=3, options={"level": 1})
    assert old.seeds == [(3, {"level": 1})]
    old = OldGym()
    GymToGymnasium(old).reset(options={"level": 1})
    assert old.seeds == []


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


class OldPettingZoo:
    """The API of PettingZoo 1.22: dicts of spaces, observations alone, `dones` with `__all__`."""

    possible_agents = ["a", "b"]
    observation_spaces = {"a": BOX, "b": BOX}
    action_spaces = {"a": DISCRETE, "b": DISCRETE}

    def __init__(self):
        self.seeds = []

    def seed(self, seed=None):
        self.seeds.append(seed)

    def reset(self):
        self.agents, self.clock = ["a", "b"], 0
        return {agent: np.zeros(2, np.float32) for agent in self.agents}

    def step(self, actions):
        self.clock += 1
        acting = self.agents
        done = self.clock == 2
        self.agents = [] if done else acting
        observations = {agent: np.ones(2, np.float32) for agent in acting}
        dones = dict.fromkeys(acting, done) | {"__all__": done}
        return observations, dict.fromkeys(acting, 1.0), dones, {agent: {} for agent in acting}

    def render(self):
        return "drawn"

    def close(self):
        self.agents = []


def test_old_pettingzoo_speaks_todays():
    old = OldPettingZoo()
    env = PettingZooTruncatedWrapper(old)
    assert env.observation_space("a") == spaces.Box(0, 1, (2,), np.float32)
    assert env.observation_space("a") is env.observation_space("a")
    assert env.action_space("b") == spaces.Discrete(3)
    observations, infos = env.reset(seed=5, options={"ignored": 1})
    assert set(observations) == {"a", "b"}
    assert (infos, old.seeds) == ({"a": {}, "b": {}}, [5])
    env.step({"a": 0, "b": 0})
    _, _, terminals, truncations, _ = env.step({"a": 0, "b": 0})
    assert terminals == {"a": True, "b": True}
    assert truncations == {"a": False, "b": False}
    assert env.agents == []
    assert env.render() == "drawn"


def test_adapted_old_pettingzoo_emulates():
    env = PettingZooPufferEnv(PettingZooTruncatedWrapper(OldPettingZoo()))
    env.reset(seed=1)
    env.step({"a": 0, "b": 1})
    observations, rewards, terminals, truncations, _ = env.step({"a": 2, "b": 1})
    assert terminals == {"a": True, "b": True}
    assert truncations == {"a": False, "b": False}
    assert rewards == {"a": 1.0, "b": 1.0}
    assert observations["b"].tolist() == [1, 1]


def test_todays_pettingzoo_passes_unchanged():
    env = PettingZooTruncatedWrapper(pair_game(length=2))
    parallel_api_test(env, num_cycles=10)


def test_turns_become_parallel_steps(requires):
    requires("mpe2")
    from mpe2 import simple_spread_v3

    env = PettingZooPufferEnv(aec_to_parallel(simple_spread_v3.env(N=2, max_cycles=3)))
    observations, _ = env.reset(seed=1)
    assert list(observations) == ["agent_0", "agent_1"]
    for _ in range(3):
        _, _, terminals, truncations, _ = env.step({"agent_0": 0, "agent_1": 1})
    assert truncations == {"agent_0": True, "agent_1": True}


class Turns(AECEnv):
    metadata = {"is_parallelizable": False}


def test_turns_that_depend_on_each_other_are_refused():
    with pytest.raises(
        APIUsageError, match="expected metadata.* True, got False; .*turn_based_aec"
    ):
        aec_to_parallel(Turns())


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (lambda: None, False),
        (lambda seed: None, True),
        (lambda *, seed=None: None, True),
        (lambda **kwargs: None, True),
        (gymnasium.Env.reset, True),
        (dict, True),
    ],
)
def test_accepts(function, expected):
    assert accepts(function, "seed") is expected
