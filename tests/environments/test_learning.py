"""Learning, by the commands and the settings that users get: one seed each, on the CPU.

Scores over more seeds, from which these thresholds were chosen, are in `pufferlib/config`.
"""

import os
import subprocess
import sys

import pytest
import torch

from pufferlib.trainer import checkpoint
from pufferlib.trainer.evaluate import evaluate_policy
from pufferlib.trainer.runs import find_checkpoint
from pufferlib.trainer.setup import config_of_checkpoint, make_vecenv, policy_of_checkpoint

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.fixture(autouse=True)
def one_thread():
    """Networks this small are fastest on one thread, by far where the machine is busy."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def train(name, data_dir, *options):
    """Run `puffer train NAME` and return the path of its last checkpoint."""
    subprocess.run(
        [sys.executable, "-m", "pufferlib", "train", name, "--train.data-dir", data_dir, *options],
        check=True,
        env={**os.environ, "CUDA_VISIBLE_DEVICES": ""},
    )
    return find_checkpoint("latest", name, data_dir)


def play(name, path, episodes, random=False):
    """Scores of the policy in a checkpoint, or of random actions, on fresh environments."""
    content = checkpoint.read(path)
    config = config_of_checkpoint(content, str(path), name)
    with make_vecenv(config, num_envs=20, num_workers="auto", batch_size="auto") as envs:
        policy = None if random else policy_of_checkpoint(content, str(path), config, envs)
        return evaluate_policy(envs, policy, episodes, seed=1234, score_key=config.score_key)


def test_squared_reaches_nine_tenths_of_its_best_score_in_a_minute(tmp_path):
    path = train("squared", str(tmp_path), "--train.max-seconds", "60")
    assert play("squared", path, 400).mean >= 0.9


def test_cartpole_is_solved_in_two_minutes(tmp_path):
    path = train("cartpole", str(tmp_path), "--train.max-seconds", "120")
    assert play("cartpole", path, 100).mean >= 475


def test_nethack_beats_random_play_after_three_minutes(tmp_path):
    pytest.importorskip("nle")
    path = train("nethack", str(tmp_path))
    trained, random = play("nethack", path, 100), play("nethack", path, 100, random=True)
    print(f"NetHack score: trained {trained}, random {random}")
    assert trained.episodes >= 100
    assert random.episodes >= 100
    assert trained.interval95[0] > random.interval95[1]
