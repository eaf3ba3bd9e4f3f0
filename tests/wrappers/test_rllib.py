"""RLlib's multi-agent environments in PettingZoo's parallel API."""

import pickle

import numpy as np
import pytest
from gymnasium.spaces import Discrete
from pettingzoo.test import parallel_api_test
from toys import PAIR, emulate

from pufferlib.exceptions import APIUsageError, SpaceError
from pufferlib.wrappers import RLlibToPettingZoo


class Rounds:
    """RLlib's API: agents come and go by a script of (agents shown, terminated, truncated).

    Observes `[place, round]`, pays the round; the flags are strings of agents, `*` for `__all__`.
    """

    possible_agents = ["a", "b", "c"]
    observation_spaces = dict.fromkeys("abc", PAIR)
    action_spaces = dict.fromkeys("abc", Discrete(3))

    def __init__(self, script):
        self.script = script
        self.received, self.seeds, self.closed = [], [], False

    def observe(self):
        shown = self.script[self.clock][0]
        return {a: np.float32(["abc".index(a), self.clock]) for a in shown}

    def reset(self, *, seed=None, options=None):
        self.seeds.append(seed)
        self.clock = 0
        return self.observe(), {}

    def step(self, action_dict):
        self.received.append(action_dict)
        self.clock += 1
        _, *ended = self.script[self.clock]
        flags = [{a: a in some for a in action_dict} | {"__all__": "*" in some} for some in ended]
        rewards = {a: float(self.clock) for a in action_dict}
        return self.observe(), rewards, *flags, {"a": {"round": self.clock}, "__common__": {"x": 1}}

    def render(self):
        return "drawn"

    def close(self):
        self.closed = True


@pytest.mark.smoke
@pytest.mark.parametrize(
    ("last", "terminals", "truncations"),
    [
        (("ab", "*", ""), [True, True], [False, False]),
        (("ab", "", "*"), [False, False], [True, True]),
        (("ab", "a*", "b"), [True, False], [False, True]),
        (("ab", "a", "b"), [True, False], [False, True]),
        (("", "*", ""), [True, True], [False, False]),
    ],
)
def test_the_end_of_all(last, terminals, truncations):
    env = RLlibToPettingZoo(Rounds([("ab", "", ""), ("ab", "", ""), last]))
    observations, infos = env.reset(seed=3)
    assert (list(observations), infos, env.agents) == (["a", "b"], {"a": {}, "b": {}}, ["a", "b"])
    assert env.env.seeds == [3]
    _, rewards, *flags, infos = env.step({"a": 1, "b": 2})
    assert flags == [{"a": False, "b": False}] * 2
    assert (rewards, infos) == ({"a": 1.0, "b": 1.0}, {"a": {"round": 1}, "b": {}})
    _, _, terminal, truncated, _ = env.step({"a": 1, "b": 2})
    assert terminal == dict(zip("ab", terminals, strict=True))
    assert truncated == dict(zip("ab", truncations, strict=True))
    assert env.agents == []


def test_agents_come_and_go():
    script = [("ab", "", ""), ("abc", "b", ""), ("ac", "", ""), ("ac", "*", "")]
    env = RLlibToPettingZoo(Rounds(script))
    env.reset()
    env.step({"a": 0, "b": 0})
    assert env.agents == ["a", "c"]
    env.step({"a": 0, "c": 0})
    *_, terminals, _, _ = env.step({"a": 0, "c": 0})
    assert terminals == {"a": True, "c": True}


def test_it_emulates_and_travels():
    script = [("ab", "", ""), ("ab", "b", ""), ("a", "", "*")]
    env = emulate(pickle.loads(pickle.dumps(RLlibToPettingZoo(Rounds(script)))))
    rows, _ = env.reset(seed=1)
    assert {agent: row.tolist() for agent, row in rows.items()} == {
        "a": [0, 0],
        "b": [1, 0],
        "c": [0, 0],
    }
    _, _, terminals, _, _ = env.step({"a": 1, "b": 2})
    assert terminals == {"a": False, "b": True, "c": False}
    _, _, terminals, truncations, _ = env.step({"a": 1})
    assert (terminals["a"], truncations["a"], env.done) == (False, True, True)
    assert env.unwrapped.env.received == [{"a": 1, "b": 2}, {"a": 1}]
    assert env.render() == "drawn"
    env.close()
    assert env.unwrapped.env.closed


def test_games_of_turns_are_refused_by_emulation():
    env = emulate(RLlibToPettingZoo(Rounds([("ab", "", ""), ("b", "", "")])))
    env.reset()
    with pytest.raises(SpaceError, match="expected an observation of the living agent 'a'"):
        env.step({"a": 0, "b": 0})


def test_spaces_may_come_from_methods():
    class Methods(Rounds):
        observation_spaces = action_spaces = None

        def get_observation_space(self, agent):
            return PAIR

        def get_action_space(self, agent):
            return Discrete(3)

    env = RLlibToPettingZoo(Methods([("abc", "", "")] * 3 + [("abc", "*", "")]))
    parallel_api_test(env, 10)


def test_unknown_agents_are_refused():
    env = Rounds([])
    env.possible_agents = []
    with pytest.raises(APIUsageError, match="expected a list of possible_agents, got none"):
        RLlibToPettingZoo(env)
