"""Password: its rules worked out by hand, and how fast it becomes harder with its length."""

import itertools

import numpy as np
import pytest

from pufferlib.environments.ocean import cells
from pufferlib.environments.ocean.password import Password
from pufferlib.exceptions import ConfigError


def play(env, guesses):
    """The observations, rewards and ends of an episode, and its last info."""
    env.reset()
    steps = [env.step(guess) for guess in guesses]
    observations, rewards, ends = ([step[i] for step in steps] for i in range(3))
    return [o.tolist() for o in observations], rewards, ends, steps[-1][4]


@pytest.mark.smoke
def test_the_whole_password_earns_one_at_the_end():
    env = Password(length=5)
    first, info = env.reset(seed=0)
    assert (first.tolist(), first.dtype, info) == ([0, 0, 0, 0, 0], np.float32, {})
    observations, rewards, ends, info = play(env, [1, 0, 0, 0, 0])
    assert observations == [
        [1, 0, 0, 0, 0],
        [1, -1, 0, 0, 0],
        [1, -1, -1, 0, 0],
        [1, -1, -1, -1, 0],
        [1, -1, -1, -1, -1],
    ]
    assert rewards == [0, 0, 0, 0, 1]
    assert ends == [False] * 4 + [True]
    assert info == {"score": 1.0}


def test_one_wrong_digit_earns_nothing():
    for wrong in range(5):
        guesses = [1, 0, 0, 0, 0]
        guesses[wrong] = 1 - guesses[wrong]
        _, rewards, ends, info = play(Password(length=5), guesses)
        assert rewards == [0] * 5
        assert ends[-1]
        assert info == {"score": 0.0}


@pytest.mark.parametrize("length", range(1, 9))
def test_each_further_digit_makes_a_success_twice_as_rare(length):
    """Of all 2^length strings, which random guessing plays equally often, one is right."""
    env = Password(length)
    scores = [play(env, guess)[3]["score"] for guess in itertools.product((0, 1), repeat=length)]
    assert np.mean(scores) == 2.0**-length
    assert set(scores) == {0.0, 1.0}


def test_the_password_is_that_of_its_seed_in_every_episode_of_every_environment():
    """Fixed for ever: another implementation of these rules must give the same."""
    password = [1, 0, 0, 0, 0, 1, 0, 1]
    for env in (Password(8), Password(8, hard_fixed_seed=42)):
        for seed in (0, 1, None):
            env.reset(seed=seed)
            assert play(env, password)[3] == {"score": 1.0}
    passwords = {tuple(Password(8, hard_fixed_seed=seed)._password) for seed in range(20)}
    assert len(passwords) > 10


def test_a_length_below_one_is_refused():
    with pytest.raises(ConfigError, match="length: expected at least 1, got 0"):
        Password(length=0)


def test_rendering_shows_guesses_and_verdicts():
    env = Password(length=3)  # 1, 0, 0
    env.reset()
    assert env.render() == cells.show([[cells.GREY] * 3] * 2)
    env.step(1)
    env.step(1)
    assert env.render() == cells.show(
        [
            [cells.YELLOW, cells.YELLOW, cells.GREY],
            [cells.GREEN, cells.RED, cells.GREY],
        ]
    )
