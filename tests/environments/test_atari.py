"""Atari: real games, whole-game statistics, one life at a time."""

import numpy as np
import pytest
import torch

from pufferlib import vector
from pufferlib.environments import atari
from pufferlib.exceptions import ConfigError
from pufferlib.trainer.evaluate import evaluate_policy

pytestmark = pytest.mark.slow


def play(env, seed, steps):
    """Random actions: observations, rewards, ends and the summaries of games."""
    generator = np.random.default_rng(0)
    observation, _ = env.reset(seed=seed)
    seen, rewards, ends, summaries = [observation.copy()], [], [], []
    for step in range(steps):
        observation, reward, terminal, truncation, info = env.step(int(generator.integers(4)))
        if terminal or truncation:
            ends.append(step)
            observation, reset_info = env.reset()
            info = info | reset_info
        seen.append(observation.copy())
        rewards.append(reward)
        summaries += [info] if "episode_return" in info else []
    return np.stack(seen), rewards, ends, summaries


@pytest.fixture
def breakout():
    env = atari.make_env("breakout")
    yield env
    env.close()


def test_an_observation_is_a_stack_of_small_grey_frames(breakout):
    seen, *_ = play(breakout, 1, 20)
    assert (seen.shape, seen.dtype) == ((21, 4, 84, 84), np.uint8)
    assert (seen[10, 1:] == seen[11, :-1]).all(), "each step pushes one frame in"
    assert breakout.single_action_space.n == 4


def test_a_seed_decides_the_game():
    games = []
    for seed in (1, 1, 2):
        env = atari.make_env("breakout")
        games.append(play(env, seed, 150)[0])
        env.close()
    assert (games[0] == games[1]).all()
    assert (games[0] != games[2]).any()


def test_every_life_is_an_episode_and_statistics_are_of_the_game(breakout):
    _, rewards, ends, summaries = play(breakout, 1, 600)
    first = summaries[0]
    lives = [end for end in ends if end < first["episode_length"]]
    assert len(lives) == 5, "Breakout has five lives"
    assert first["episode_return"] == sum(rewards[: ends[4] + 1])
    assert set(first) == {"episode_return", "episode_length"}


def test_a_reset_in_the_middle_of_a_life_begins_a_new_game(breakout):
    console = breakout.unwrapped.ale
    breakout.reset(seed=1)
    is_lost = False
    while not is_lost:
        _, _, is_lost, _, info = breakout.step(0)
    breakout.reset()
    assert (info, console.lives()) == ({"ended_part": "life"}, 4), "the same game goes on"
    breakout.step(0)
    breakout.reset()
    assert console.lives() == 5


def test_an_evaluation_counts_games_and_no_lives():
    """Five lives a game; a life alone lasts some twenty steps."""
    with vector.make(atari.env_creator("breakout"), num_envs=2) as envs:
        result = evaluate_policy(envs, None, episodes=4)
    assert result.episodes == 4
    assert min(result.lengths) > 80


def test_a_whole_game_is_an_episode_where_asked():
    env = atari.make_env("breakout", episodic_life=False)
    _, _, ends, summaries = play(env, 1, 600)
    env.close()
    assert len(ends) == len(summaries)


def test_the_learner_sees_clipped_rewards_and_the_statistics_the_score():
    totals = {}
    for clip in (1.0, None):
        env = atari.make_env("ALE/SpaceInvaders-v5", episodic_life=False, reward_clip=clip)
        _, rewards, ends, summaries = play(env, 3, 1_000)
        env.close()
        totals[clip] = sum(rewards[: ends[0] + 1])
        assert summaries[0]["episode_return"] % 5 == 0
        assert max(rewards) == 1.0 if clip else max(rewards) > 1.0
    assert totals[None] == summaries[0]["episode_return"] > totals[1.0]


def test_names():
    assert atari.env_creator("space_invaders").args == ("ALE/SpaceInvaders-v5",)
    assert atari.env_creator("ALE/Pong-v5").args == ("ALE/Pong-v5",)
    with pytest.raises(ConfigError, match="did you mean 'ALE/Breakout-v5'"):
        atari.env_creator("ALE/Braekout-v5")
    with pytest.raises(ConfigError, match="did you mean 'space_invaders'"):
        atari.env_creator("space_invader")


def test_policies_fit(breakout):
    observation, _ = breakout.reset(seed=1)
    rows = torch.from_numpy(np.stack([observation] * 2))
    policy = atari.Policy(breakout)
    logits, value = policy(rows)
    assert (logits.shape, value.shape) == ((2, 4), (2, 1))
    logits, value, state = atari.Recurrent(breakout, policy)(rows)
    assert (logits.shape, state[0].shape) == ((2, 4), (1, 2, 512))
