"""Stable-retro: an emulator per process, what a seed decides, frames, score and cartridges."""

import numpy as np
import pytest

from pufferlib import vector
from pufferlib.environments import retro
from pufferlib.exceptions import APIUsageError, EnvironmentSetupError

pytestmark = pytest.mark.slow

FIRE = 1  # of the third choice of buttons


def play(env, seed, steps=25):
    """The bytes of all frames of random play."""
    rng = np.random.default_rng(0)
    rows = [env.reset(seed=seed)[0].tobytes()]
    for _ in range(steps):
        action = rng.integers(env.single_action_space.nvec)
        rows.append(env.step(action)[0].tobytes())
    return rows


@pytest.fixture
def env():
    env = retro.make_env(frame_skip=2)
    yield env
    env.close()


def test_a_seed_decides_which_buttons_stay_pressed(env):
    assert play(env, 1) == play(env, 1)
    assert play(env, 1) != play(env, 2)


def test_without_repeated_buttons_every_episode_begins_alike():
    env = retro.make_env(repeat_action_probability=0.0)
    assert play(env, 1) == play(env, 2)
    env.close()


def test_statistics_are_of_the_true_score():
    env = retro.make_env(max_episode_steps=42, repeat_action_probability=0.0)
    env.reset(seed=0)
    steps = [env.step(np.array([0, 0, FIRE if step % 2 else 0])) for step in range(42)]
    assert [step[1] for step in steps if step[1]] == [1.0], "clipped for the learner"
    assert [step[2:4] for step in steps] == [(False, False)] * 41 + [(False, True)]
    assert steps[-1][4] == {"episode_return": 20.0, "episode_length": 42}
    env.close()


@pytest.mark.parametrize(
    ("buttons", "shape"),
    [("multi_discrete", (3,)), ("discrete", ()), ("filtered", (12,)), ("all", (12,))],
)
def test_buttons_can_be_chosen_in_other_ways(buttons, shape):
    env = retro.make_env(buttons=buttons, framestack=2, screen_size=40)
    assert env.single_action_space.shape == shape
    assert env.single_observation_space.shape == (2, 40, 40)
    env.close()


def test_every_environment_gets_a_fresh_process(env):
    """Also where this one has an emulator, which a fork would take along."""
    with vector.make(retro.env_creator(), num_envs=2) as vecenv:
        assert isinstance(vecenv, vector.Multiprocessing)
        observations, _ = vecenv.reset(seed=1)
        assert (observations[0] == observations[1]).all()


def test_two_in_one_process_are_refused():
    with pytest.raises(APIUsageError, match="creators demand one per process, got 2"):
        vector.make(retro.env_creator(), num_envs=2, backend="serial")
    with pytest.raises(APIUsageError, match="expected 'spawn'"):
        vector.make(retro.env_creator(), num_envs=2, backend="multiprocessing", context="fork")


def test_a_game_without_its_cartridge_says_how_to_import_it():
    with pytest.raises(EnvironmentSetupError, match=r"python -m stable_retro\.import FOLDER"):
        retro.make_env("SonicTheHedgehog-Genesis-v0")
