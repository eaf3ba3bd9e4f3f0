"""PettingZoo with `dones` as today's parallel API, and turns as parallel steps."""

import numpy as np
import pytest
from gymnasium import spaces
from old_spaces import BOX, DISCRETE
from pettingzoo.test import parallel_api_test
from pettingzoo.utils.env import AECEnv
from toys import pair_game

from pufferlib.emulation import PettingZooPufferEnv
from pufferlib.exceptions import APIUsageError
from pufferlib.wrappers import PettingZooTruncatedWrapper, aec_to_parallel


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


@pytest.mark.parametrize("own", [{}, {"a": False, "b": True}])
def test_a_done_of_all_is_everyones(own):
    class Ending(OldPettingZoo):
        def step(self, actions):
            observations, rewards, _, infos = super().step(actions)
            return observations, rewards, {**own, "__all__": True}, infos

    env = PettingZooPufferEnv(PettingZooTruncatedWrapper(Ending()))
    env.reset()
    _, _, terminals, truncations, _ = env.step({"a": 0, "b": 0})
    assert terminals == {"a": True, "b": True}
    assert truncations == {"a": False, "b": False}
    assert env.done


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


def test_turns_become_parallel_steps():
    pytest.importorskip("mpe2")
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
        APIUsageError, match="expected metadata.* True, got False; .*TurnsToParallel"
    ):
        aec_to_parallel(Turns())
