"""Gymnasium's wrappers around each agent of a parallel environment."""

import copy
import pickle
from functools import partial

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box
from gymnasium.wrappers import (
    ClipReward,
    FrameStackObservation,
    RescaleAction,
    StickyAction,
    TimeLimit,
    TransformObservation,
)
from pettingzoo import ParallelEnv
from pettingzoo.test import parallel_api_test
from toys import COMINGS_AND_GOINGS, PAIR, Lives, emulate, pair_game

from pufferlib.exceptions import APIUsageError
from pufferlib.postprocess import EpisodeStats, MultiagentEpisodeStats
from pufferlib.wrappers import PerAgent


def step(env, action=0):
    return env.step(dict.fromkeys(env.agents, action))


@pytest.mark.smoke
def test_rewards_are_clipped_for_each_agent():
    env = PerAgent(MultiagentEpisodeStats(pair_game()), ClipReward, max_reward=1.5)
    env.reset()
    rewards = [step(env)[1] for _ in range(2)]
    assert rewards == [{"a": 1.0, "b": 1.0}, {"a": 1.5, "b": 1.5}]
    assert step(env)[4]["a"]["episode_return"] == 6.0  # 1 + 2 + 3: the statistics lie within


def test_each_life_has_a_stack_of_its_own():
    env = PerAgent(Lives(COMINGS_AND_GOINGS), FrameStackObservation, stack_size=2)
    assert env.observation_space("a").shape == (2, 2)
    assert env.observation_space("a") is env.observation_space("a")
    for _ in range(2):
        observations, infos = env.reset()
        assert observations["b"].tolist() == [[11, 0], [11, 0]]
        assert infos == {"a": {}, "b": {}}
        seen = [step(env)[0] for _ in range(4)]
        assert seen[1]["b"].tolist() == [[11, 1], [11, 2]]  # its last
        assert seen[2]["c"].tolist() == [[12, 3], [12, 3]]  # its first
        assert seen[3]["c"].tolist() == [[12, 3], [12, 4]]
        assert seen[3]["a"].tolist() == [[10, 3], [10, 4]]


class Age(gymnasium.ObservationWrapper):
    """Observes how many rows its life has had."""

    def reset(self, *, seed=None, options=None):
        self.age = 0
        return super().reset(seed=seed, options=options)

    def observation(self, observation):
        self.age += 1
        return np.array([self.age, 0], np.float32)


def test_a_second_life_begins_anew():
    script = [("ab", "", ""), ("b", "a", ""), ("ab", "", ""), ("ab", "", "")]
    env = PerAgent(Lives(script, possible="ab"), Age)
    env.reset()
    ages = [{agent: seen[0] for agent, seen in step(env)[0].items()} for _ in range(3)]
    assert ages == [{"a": 2, "b": 2}, {"b": 3, "a": 1}, {"a": 2, "b": 4}]


class Push(ParallelEnv):
    """Agents that are paid what they do, a number from 0 to 10."""

    metadata = {}
    possible_agents = ["a", "b"]

    def observation_space(self, agent):
        return PAIR

    def action_space(self, agent):
        return Box(0, 10, (1,), np.float32)

    def reset(self, seed=None, options=None):
        self.agents = list(self.possible_agents)
        return {a: np.zeros(2, np.float32) for a in self.agents}, {a: {} for a in self.agents}

    def step(self, actions):
        flags = dict.fromkeys(self.agents, False)
        observations = {a: np.zeros(2, np.float32) for a in self.agents}
        rewards = {agent: float(action[0]) for agent, action in actions.items()}
        return observations, rewards, flags, flags, {a: {} for a in self.agents}


def test_actions_pass_through_every_wrapper():
    def wrap(env):
        return ClipReward(RescaleAction(env, np.float32(-1), np.float32(1)), max_reward=9.0)

    env = PerAgent(Push(), wrap)
    assert env.action_space("a") == Box(-1, 1, (1,), np.float32)
    env.reset()
    rewards = env.step({"a": np.zeros(1, np.float32), "b": np.ones(1, np.float32)})[1]
    assert rewards == {"a": 5.0, "b": 9.0}


def test_each_agents_noise_is_its_own_and_seeded():
    def shown(seed):
        env = PerAgent(Push(), AddNoise)
        first, _ = env.reset(seed=seed)
        return np.stack([*first.values(), *env.step(dict.fromkeys("ab", np.zeros(1)))[0].values()])

    assert np.array_equal(shown(1), shown(1))
    assert len(np.unique(shown(1))) == 8
    assert not np.array_equal(shown(1), shown(2))


class AddNoise(gymnasium.ObservationWrapper):
    def observation(self, observation):
        return observation + self.np_random.random(2).astype(np.float32)


class Twice(gymnasium.Wrapper):
    def step(self, action):
        self.env.step(action)
        return self.env.step(action)


class Skipping(gymnasium.Wrapper):
    def step(self, action):
        return np.zeros(2), 0.0, False, False, {}


class Other(gymnasium.Wrapper):
    def step(self, action):
        return self.env.step(action + 1)


@pytest.mark.parametrize(
    ("wrapper", "message"),
    [
        (Twice, "wrapper of agent 'a': expected one step at a time, got more than one; PerAgent"),
        (Skipping, r"expected a step with the flags \(False, False\), got none"),
        (Other, "expected the action that was taken, 0, got 1"),
        (partial(TimeLimit, max_episode_steps=1), r"got none, or flags \(False, True\)"),
    ],
)
def test_wrappers_that_need_an_environment_of_their_own_are_refused(wrapper, message):
    env = PerAgent(pair_game(), wrapper)
    env.reset()
    with pytest.raises(APIUsageError, match=message):
        step(env)


def test_random_actions_are_refused():
    def play():
        env = PerAgent(pair_game(length=60), StickyAction, repeat_action_probability=0.5)
        env.reset(seed=0)
        for t in range(50):
            env.step({"a": t % 4, "b": t % 3})

    with pytest.raises(APIUsageError, match="expected the action that was taken"):
        play()


def halve(observation):
    return observation / 2


@pytest.mark.parametrize("clone", [copy.deepcopy, lambda env: pickle.loads(pickle.dumps(env))])
def test_wrapped_agents_travel(clone):
    env = PerAgent(pair_game(), partial(TransformObservation, func=halve, observation_space=PAIR))
    env.reset()
    twin = clone(env)
    step(env)
    assert step(twin)[0]["b"].tolist() == [5.5, 0.5]


def test_it_is_a_parallel_environment_that_emulates():
    def wrap(env):
        return FrameStackObservation(EpisodeStats(env), 3)

    env = PerAgent(pair_game(), wrap)
    parallel_api_test(env, num_cycles=10)
    emulated = emulate(env)
    emulated.reset()
    for _ in range(3):
        observations, *_, infos = emulated.step({"a": 0, "b": 1})
    assert observations["b"].tolist() == [[11, 1], [11, 2], [11, 3]]
    assert infos["b"] == {"episode_return": 6.0, "episode_length": 3, "clock": 2.0}


def test_what_the_environment_has_is_still_there():
    env = PerAgent(pair_game(), ClipReward, max_reward=1.0)
    env.reset()
    assert env.render() == "ab"
    assert env.wrapped["a"].render() == "ab"
    assert env.clock == 0
