"""The native contract: what a subclass must say, what `bind` gives it, when it resets."""

import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete, MultiDiscrete
from gymnasium.vector import AutoresetMode
from toys import PAIR, Counters, SameStepCounters

import pufferlib
from pufferlib.buffers import Buffers
from pufferlib.exceptions import APIUsageError, SpaceError

GOOD = {"single_observation_space": PAIR, "single_action_space": Discrete(4), "num_agents": 2}


class Bare(pufferlib.PufferEnv):
    def __init__(self, **attributes):
        vars(self).update(attributes)
        super().__init__()

    def reset(self, seed=None, options=None):
        return []

    def step(self, actions):
        return []


@pytest.mark.parametrize("missing", GOOD)
def test_a_missing_attribute_is_named(missing):
    given = {name: value for name, value in GOOD.items() if name != missing}
    with pytest.raises(APIUsageError, match=rf"Bare must set self\.{missing} before super"):
        Bare(**given)


@pytest.mark.parametrize(
    ("name", "value", "error", "message"),
    [
        ("single_observation_space", Dict(a=PAIR), SpaceError, "expected a flat space .* got Dict"),
        ("single_action_space", Dict(a=PAIR), SpaceError, "expected a flat space .* got Dict"),
        (
            "single_action_space",
            Discrete(3, start=1),
            APIUsageError,
            "counted from 0, got Discrete",
        ),
        ("single_action_space", MultiDiscrete([2], start=[1]), APIUsageError, "counted from 0"),
        ("num_agents", 0, APIUsageError, "num_agents: expected an int of at least 1, got 0"),
        ("num_agents", 2.0, APIUsageError, "num_agents: expected an int of at least 1, got 2.0"),
    ],
)
def test_an_impossible_attribute_is_refused(name, value, error, message):
    with pytest.raises(error, match=message):
        Bare(**GOOD | {name: value})


@pytest.mark.smoke
def test_without_reset_and_step_there_is_no_environment():
    with pytest.raises(TypeError, match="abstract"):
        pufferlib.PufferEnv()


def test_an_environment_alone_has_buffers_of_its_own():
    env = Counters(num_agents=3)
    assert env.observations.shape == (3, 2)
    assert env.actions.shape == (3,)
    assert env.masks.tolist() == [True] * 3
    assert env.final_observations is None
    assert env.emulated is None
    assert env.autoreset_mode is AutoresetMode.NEXT_STEP
    assert env.render() is None


def test_bound_rows_are_the_only_ones_written():
    env = Counters(num_agents=2)
    buffers = Buffers.allocate(PAIR, Discrete(4), 4)
    rows = buffers.view(1, 3)
    assert env.bind(rows) is env
    env.reset(seed=0)
    env.step(np.array([3, 1]))
    assert buffers.observations.tolist() == [[0, 0], [0, 1], [1, 1], [0, 0]]
    assert buffers.rewards.tolist() == [0, 3, 1, 0]
    assert buffers.masks.tolist() == [False, True, True, False]


@pytest.mark.parametrize("truncates", [False, True])
def test_next_step_reset_shows_the_end_and_then_the_beginning(truncates):
    env = Counters(num_agents=2, length=2, truncates=truncates)
    env.reset(seed=0)
    clocks, ends, infos = [], [], []
    for _ in range(5):
        infos += env.step(np.array([2, 3]))
        clocks.append(env.observations[:, 1].tolist())
        ends.append((env.terminals.tolist(), env.truncations.tolist(), env.rewards.tolist()))
    no, yes = [False] * 2, [True] * 2
    end = ([no, yes] if truncates else [yes, no]) + [[2, 3]]
    assert clocks == [[1, 1], [2, 2], [0, 0], [1, 1], [2, 2]]
    assert ends == [(no, no, [2, 3]), tuple(end), (no, no, [0, 0]), (no, no, [2, 3]), tuple(end)]
    assert infos == [{"episode_length": 2}] * 2


def test_same_step_reset_keeps_the_last_observation_apart():
    env = SameStepCounters(num_agents=2, length=2, truncates=True)
    assert env.final_observations.shape == (2, 2)
    env.reset(seed=0)
    env.step(np.array([2, 3]))
    env.step(np.array([2, 3]))
    assert env.truncations.tolist() == [True, True]
    assert env.rewards.tolist() == [2, 3]
    assert env.observations.tolist() == [[0, 0], [1, 0]]
    assert env.final_observations.tolist() == [[0, 2], [1, 2]]
    env.step(np.array([1, 1]))
    assert env.observations.tolist() == [[0, 1], [1, 1]]
    assert env.truncations.tolist() == [False, False]


def test_any_flat_observation_space_will_do():
    env = Bare(**GOOD | {"single_observation_space": Box(0, 255, (4, 4, 3), np.uint8)})
    assert env.observations.shape == (2, 4, 4, 3)
    assert env.observations.dtype == np.uint8
