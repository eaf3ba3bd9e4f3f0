"""Learning, by the commands and the settings that users get, on the CPU.

One seed each, ended by its number of steps, so that a busy machine changes nothing. Scores over
more seeds, from which these thresholds were chosen, are in `pufferlib/config`. What a score costs
in time is measured by hand: the marks `bench`.
"""

import multiprocessing
import os
import subprocess
import sys

import numpy as np
import pytest
import torch

from pufferlib.environments.ocean.native import NativeConnectFour, NativePong
from pufferlib.pytorch import sample_logits
from pufferlib.trainer import checkpoint
from pufferlib.trainer.evaluate import bootstrap_interval, evaluate_policy
from pufferlib.trainer.runs import find_checkpoint
from pufferlib.trainer.setup import config_of_checkpoint, make_vecenv, policy_of_checkpoint

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


def train(name, data_dir, *options):
    """Run `puffer train NAME` and return the path of its last checkpoint.

    Niced, since other tests run beside it and some of them wait for the clock.
    """
    puffer = ["nice", "-n", "10", sys.executable, "-m", "pufferlib"]
    subprocess.run(
        [*puffer, "train", name, "--train.data-dir", data_dir, *options],
        check=True,
        env={**os.environ, "CUDA_VISIBLE_DEVICES": ""},
    )
    return find_checkpoint("latest", name, data_dir)


def play(name, path, episodes, random=False, seed=1234, **sizes):
    """Scores of the policy in a checkpoint, or of random actions, on ten fresh environments."""
    content = checkpoint.read(path)
    config = config_of_checkpoint(content, str(path), name)
    with make_vecenv(config, backend="serial", **({"num_envs": 10} | sizes)) as envs:
        policy = None if random else policy_of_checkpoint(content, str(path), config, envs)
        return evaluate_policy(envs, policy, episodes, seed=seed, score_key=config.score_key)


def play_twice(name, path, episodes):
    """Scores of the policy and of random actions, each from two processes that share the work."""
    halves = [(name, path, episodes // 2, random, seed) for random in (0, 1) for seed in (1, 2)]
    with multiprocessing.get_context("fork").Pool(2) as pool:
        found = [result.scores for result in pool.starmap(play, halves, chunksize=1)]
    return np.array(found[0] + found[1]), np.array(found[2] + found[3])


def test_squared_reaches_nine_tenths_of_its_best_score(tmp_path):
    path = train("squared", str(tmp_path))
    assert play("squared", path, 400).mean >= 0.9


def test_native_squared_is_solved(tmp_path):
    path = train("squared_native", str(tmp_path))
    assert play("squared_native", path, 400).mean >= 0.95


@pytest.mark.bench
@pytest.mark.parametrize("seed", range(1, 6))
def test_native_squared_is_solved_in_twenty_seconds(tmp_path, seed):
    limits = ("--train.seed", str(seed), "--train.max-seconds", "20")
    path = train("squared_native", str(tmp_path), *limits)
    assert play("squared_native", path, 400).mean >= 0.95


@pytest.mark.bench
@pytest.mark.parametrize("seed", range(1, 6))
def test_native_breakout_reaches_half_its_points_in_five_minutes(tmp_path, seed):
    limits = ("--train.seed", str(seed), "--train.max-seconds", "300")
    path = train("breakout_native", str(tmp_path), *limits)
    assert play("breakout_native", path, 200, num_envs=1, num_agents=200).mean >= 0.5


def wins_against_random(path, end, games=400):
    """The share of games of Pong that the policy in a checkpoint wins, playing the left end (0)
    or the right one (1) against random actions; the first episode of each game counts."""
    content = checkpoint.read(path)
    config = config_of_checkpoint(content, str(path), "pong_native")
    env, rng = NativePong(2 * games), np.random.default_rng(0)
    with make_vecenv(config, backend="serial", num_envs=1) as envs:
        policy = policy_of_checkpoint(content, str(path), config, envs).eval()
    env.reset(seed=1234)
    torch.manual_seed(1234)
    scores = np.full(2 * games, np.nan)
    while np.isnan(scores).any():
        actions = rng.integers(3, size=2 * games)
        with torch.no_grad():
            logits, _ = policy(torch.as_tensor(env.observations[end::2]))
        actions[end::2] = sample_logits(logits)[0].numpy()
        for info in env.step(actions):
            ended = np.flatnonzero(env.terminals | env.truncations)
            scores[ended] = np.where(np.isnan(scores[ended]), info["score"], scores[ended])
    return scores[end::2].mean()


@pytest.mark.bench
@pytest.mark.parametrize("seed", range(1, 6))
def test_native_pong_beats_random_play_from_either_end(tmp_path, seed):
    path = train("pong_native", str(tmp_path), "--train.seed", str(seed))
    assert wins_against_random(path, end=0) >= 0.95
    assert wins_against_random(path, end=1) >= 0.95


@pytest.mark.bench
def test_native_maze_is_searched_faster_than_by_hand(tmp_path):
    path = train("maze_native", str(tmp_path))
    sizes = {"num_envs": 1, "num_agents": 500}
    assert play("maze_native", path, 2000, **sizes).mean >= 0.7
    assert play("maze_native", path, 2000, **sizes, size=8).mean >= 0.65


def wins_at_connect_four(path, games=10_000):
    """The mean scores of the policy in a checkpoint against random play, where it moves first and
    where it moves second; the first episode of each game counts."""
    content = checkpoint.read(path)
    config = config_of_checkpoint(content, str(path), "connect_four_native")
    env = NativeConnectFour(games, opponent="random")
    with make_vecenv(config, backend="serial", num_envs=1) as envs:
        policy = policy_of_checkpoint(content, str(path), config, envs).eval()
    env.reset(seed=1234)
    moves_first = ~env.observations[:, 7:49].any(1)
    scores = np.full(games, np.nan)
    while np.isnan(scores).any():
        with torch.no_grad():
            logits, _ = policy(torch.as_tensor(env.observations))
        for info in env.step(sample_logits(logits)[0].numpy()):
            scores[env.terminals] = np.where(
                np.isnan(scores[env.terminals]), info["score"], scores[env.terminals]
            )
    return scores[moves_first].mean(), scores[~moves_first].mean()


@pytest.mark.bench
def test_native_connect_four_beats_random_play_whoever_begins(tmp_path):
    first, second = wins_at_connect_four(train("connect_four_native", str(tmp_path)))
    assert first >= 0.95
    assert second >= 0.95


def test_cartpole_is_solved(tmp_path):
    path = train("cartpole", str(tmp_path))
    assert play("cartpole", path, 100).mean >= 475


def test_nethack_beats_random_play(tmp_path):
    pytest.importorskip("nle")
    path = train("nethack", str(tmp_path), "--train.max-seconds", "inf")
    trained, random = play_twice("nethack", path, 60)
    variance = trained.var(ddof=1) / len(trained) + random.var(ddof=1) / len(random)
    welch = (trained.mean() - random.mean()) / np.sqrt(variance)
    print(f"NetHack score: {trained.mean():.1f}, random {random.mean():.1f}, Welch's t {welch:.1f}")
    assert len(trained) >= 60
    assert len(random) >= 60
    assert welch > 2  # about 4 is expected


@pytest.mark.bench
def test_nethack_beats_random_play_after_three_minutes(tmp_path):
    pytest.importorskip("nle")
    trained, random = play_twice("nethack", train("nethack", str(tmp_path)), 100)
    intervals = [bootstrap_interval(scores) for scores in (trained, random)]
    print(f"NetHack score: {trained.mean():.1f}, random {random.mean():.1f}, 95 % {intervals}")
    assert intervals[0][0] > intervals[1][1]
