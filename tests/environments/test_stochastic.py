"""Stochastic: its rules worked out by hand, and which policy scores best."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pufferlib.environments.ocean import cells
from pufferlib.environments.ocean.sanity import BEST_SCORES
from pufferlib.environments.ocean.stochastic import Stochastic
from pufferlib.exceptions import ConfigError


def play(env, actions):
    """The rewards and ends of an episode, and its last info."""
    env.reset()
    steps = [env.step(action) for action in actions]
    return [step[1] for step in steps], [step[2] for step in steps], steps[-1][4]


@pytest.mark.smoke
def test_rewards_are_the_decrease_of_the_squared_excess():
    env = Stochastic(p=0.75, horizon=4)
    observation, info = env.reset(seed=0)
    assert (observation.tolist(), observation.dtype, info) == ([0], np.float32, {})
    # The excess of zeros is 0, 1/4, 1/2, 3/4, 0 in units of one action.
    rewards, ends, info = play(env, [0, 0, 0, 1])
    assert rewards == [-1 / 16, -3 / 16, -5 / 16, 9 / 16]
    assert ends == [False, False, False, True]
    assert info == {"score": 1.0}


def test_always_the_same_action_scores_nothing():
    env = Stochastic(p=0.75, horizon=4)
    assert play(env, [0] * 4)[2] == {"score": 0.0}  # a quarter more zeros than asked for: 1 - 1
    rewards, _, info = play(env, [1] * 4)
    assert sum(rewards) == -9
    assert info == {"score": 0.0}


@settings(max_examples=40, deadline=None)
@given(p=st.floats(0.01, 0.99), actions=st.lists(st.integers(0, 1), min_size=1, max_size=50))
def test_the_return_tells_the_share_and_nothing_else(p, actions):
    env = Stochastic(p=p, horizon=len(actions))
    rewards, ends, info = play(env, actions)
    share = actions.count(0) / len(actions)
    loss = ((share - p) / min(p, 1 - p)) ** 2
    assert sum(rewards) == pytest.approx(-loss, abs=1e-6 * (1 + loss))
    assert info["score"] == pytest.approx(max(0, 1 - loss), abs=1e-6)
    assert 0 <= info["score"] <= 1
    assert ends == [False] * (len(actions) - 1) + [True]


def test_the_expected_score_is_the_mean_over_all_episodes():
    env = Stochastic(p=0.6, horizon=5)
    for q in (0.0, 0.3, 0.6, 1.0):
        mean = 0.0
        for actions in itertools.product((0, 1), repeat=5):
            zeros = actions.count(0)
            mean += q**zeros * (1 - q) ** (5 - zeros) * play(env, actions)[2]["score"]
        assert env.expected_score(q) == pytest.approx(mean)


def test_without_memory_the_best_is_to_be_as_random_as_asked():
    env = Stochastic()
    shares = np.arange(101) / 100
    scores = [env.expected_score(share) for share in shares]
    assert shares[np.argmax(scores)] == 0.7
    # The variance of a binomial share: 1 - p (1 - p) / horizon / (1 - p)² = 1 - 7/300.
    assert BEST_SCORES["stochastic"] == pytest.approx(1 - 7 / 300, abs=1e-9)
    assert env.expected_score(0.5) == pytest.approx(0.5307, abs=1e-4)
    assert env.expected_score(1.0) == pytest.approx(0, abs=1e-9)
    assert env.expected_score(0.0) == 0


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"p": 0}, "p: expected more than 0 and less than 1, got 0"),
        ({"p": 1.0}, "p: expected more than 0 and less than 1, got 1.0"),
        ({"horizon": 0}, "horizon: expected at least 1, got 0"),
    ],
)
def test_what_cannot_be_is_refused(kwargs, message):
    with pytest.raises(ConfigError, match=message):
        Stochastic(**kwargs)


def test_rendering_shows_the_share_so_far_above_the_one_asked_for():
    env = Stochastic(p=0.7, horizon=100)
    env.reset()
    asked = [cells.GREEN] * 14 + [cells.GREY] * 6
    assert env.render() == cells.show([[cells.GREY] * 20, asked])
    for action in (0, 1, 0, 0):
        env.step(action)
    assert env.render() == cells.show([[cells.CYAN] * 15 + [cells.YELLOW] * 5, asked])
