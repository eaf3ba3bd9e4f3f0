"""Masks that come in infos, as Gymnasium's Taxi gives them, become part of the observation."""

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Tuple
from toys import PAIR, Lives, Scripted, emulate, pair_game

from pufferlib.exceptions import APIUsageError, SpaceError
from pufferlib.wrappers import ActionMaskFromInfo, PadAgentSpaces, PerAgent


class Telling(Scripted):
    """Has the info that the next one of `infos` says."""

    def __init__(self, action_space, *infos):
        super().__init__(PAIR, [np.zeros(2, np.float32)], action_space, length=len(infos) - 1)
        self.infos = infos

    def reset(self, *, seed=None, options=None):
        observation, _ = super().reset(seed=seed)
        return observation, self.infos[0]

    def step(self, action):
        *result, _ = super().step(action)
        return *result, self.infos[self.clock]


def masks(action_space, *infos):
    env = ActionMaskFromInfo(Telling(action_space, *infos))
    observation, info = env.reset()
    assert env.observation_space.contains(observation)
    assert "action_mask" not in info
    last = env.step(env.action_space.sample())[0]
    return observation["action_mask"].tolist(), last["action_mask"].tolist()


@pytest.mark.smoke
def test_the_mask_is_moved():
    first = {"action_mask": np.array([0, 1, 1], np.int8), "hp": 2}
    assert masks(Discrete(3), first, {"action_mask": [1, 0, 0]}) == ([0, 1, 1], [1, 0, 0])
    assert ActionMaskFromInfo(Telling(Discrete(3), first)).reset()[1] == {"hp": 2}


def test_a_mask_of_several_choices_may_be_in_parts():
    info = {"action_mask": (np.array([True, False]), np.array([False, True, True]))}
    assert masks(MultiDiscrete([2, 3]), info, info)[0] == [1, 0, 0, 1, 1]


@pytest.mark.parametrize("last", [{}, {"action_mask": None}])
def test_the_last_info_of_an_episode_may_lack_it(last):
    assert masks(Discrete(2), {"action_mask": [0, 1]}, last) == ([0, 1], [0, 0])


@pytest.mark.parametrize("info", [{}, {"action_mask": [1, 1, 1]}, {"action_mask": ["a", "b"]}])
def test_a_missing_or_wrong_mask_is_named(info):
    env = ActionMaskFromInfo(Telling(Discrete(2), info, {}))
    with pytest.raises(APIUsageError, match=r"expected info\['action_mask'\] with 2 elements"):
        env.reset()


def test_continuous_actions_have_no_mask():
    with pytest.raises(SpaceError, match="expected Discrete or MultiDiscrete actions"):
        ActionMaskFromInfo(Scripted(PAIR, [], Box(-1, 1, (2,), np.float32)))


def test_taxi_is_played_by_its_mask():
    env = emulate(ActionMaskFromInfo(gymnasium.make("Taxi-v3")), check="always")
    assert env.emulated.action_mask.nvec == (6,)
    row, _ = env.reset(seed=0)
    structs = row[None].view(env.emulated.observation_dtype)[:, 0]
    expected = env.unwrapped.action_mask(int(structs["observation"][0])) != 0
    assert env.emulated.action_mask.allowed(structs)[0].tolist() == expected.tolist()
    assert 0 < expected.sum() < 6


def test_it_takes_the_infos_of_each_agent():
    env = PerAgent(pair_game(), ActionMaskFromInfo)
    with pytest.raises(APIUsageError, match=r"with 4 elements.*got None"):
        env.reset()


class Masked(Lives):
    """Agents `a` and `b` with these actions, all of which are allowed."""

    def __init__(self, actions, masks):
        super().__init__([("ab", "", "")] * 5, possible="ab")
        self.actions = dict(zip("ab", actions, strict=True))
        self.spaces = {
            agent: Dict(observation=PAIR, action_mask=mask)
            for agent, mask in zip("ab", masks, strict=True)
        }

    def observation_space(self, agent):
        return self.spaces[agent]

    def action_space(self, agent):
        return self.actions[agent]

    def observe(self, agents):
        spaces = {agent: self.spaces[agent]["action_mask"] for agent in agents}
        masks = {
            agent: tuple(np.ones(part.n, np.int8) for part in space)
            if isinstance(space, Tuple)
            else np.ones(space.n, np.int8)
            for agent, space in spaces.items()
        }
        rows = super().observe(agents)
        return {agent: {"observation": rows[agent], "action_mask": masks[agent]} for agent in rows}


def bits(*sizes):
    return Tuple([MultiBinary(size) for size in sizes])


@pytest.mark.parametrize(
    ("actions", "masks", "of_a"),
    [
        ([Discrete(2), Discrete(4)], [MultiBinary(2), MultiBinary(4)], [1, 1, 0, 0]),
        (
            [MultiDiscrete([1, 3]), MultiDiscrete([2, 3])],
            [bits(1, 3), bits(2, 3)],
            [1, 0, 1, 1, 1],
        ),
    ],
)
def test_padding_rules_out_what_an_agent_has_not(actions, masks, of_a):
    env = emulate(PadAgentSpaces(Masked(actions, masks)))
    rows = np.stack([*env.reset()[0].values()]).view(env.emulated.observation_dtype)[:, 0]
    assert env.emulated.action_mask.allowed(rows).tolist() == [
        [bit == 1 for bit in of_a],
        [True] * len(of_a),
    ]


def test_padding_refuses_a_mask_that_it_would_take_apart():
    game = Masked([MultiDiscrete([1, 3]), MultiDiscrete([2, 3])], [MultiBinary(4), MultiBinary(5)])
    with pytest.raises(SpaceError, match=r"'action_mask'\] of 'a': expected a mask nested as"):
        PadAgentSpaces(game)
