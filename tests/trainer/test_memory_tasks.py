"""Tasks that only a policy with a memory solves, and one that needs its reset to be right."""

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Discrete
from gymnasium.vector import AutoresetMode

import pufferlib.vector
from pufferlib import clean_pufferl
from pufferlib.environment import PufferEnv
from pufferlib.models import Default, LSTMWrapper
from pufferlib.trainer.config import TrainConfig
from pufferlib.trainer.evaluate import evaluate_policy
from pufferlib.trainer.setup import load_config, make_policy, make_vecenv

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

AGENTS = 128
STEPS = 20_000


class Latch(PufferEnv):
    """Say at every step what the first observation of this episode was: 0 or 1.

    All later observations are 0, and an episode ends with probability 1/4 after each step. So
    nothing but the empty memory tells an episode that began with 0 from one that goes on: where
    the state is not reset, what an ended episode left behind is what the policy says.

    Reward 1 for a right answer. One who does not know when episodes begin sees only how many steps
    the last 1 is ago, and is right 0.78 of the time at best (from two million simulated steps).
    """

    single_observation_space = Box(0, 1, (1,), np.float32)
    single_action_space = Discrete(2)
    num_agents = AGENTS

    def __init__(self, autoreset_mode):
        self.autoreset_mode = autoreset_mode
        self._rng = np.random.default_rng(0)
        super().__init__()

    def reset(self, seed=None, options=None):
        if seed is not None:
            self._rng = np.random.default_rng(seed)
        self.answers = np.zeros(AGENTS, int)
        self._begin(np.ones(AGENTS, bool))
        self.rewards[:] = 0
        self.terminals[:] = self.truncations[:] = False
        return []

    def step(self, actions):
        same_step = self.autoreset_mode == AutoresetMode.SAME_STEP
        begins = self.terminals & (not same_step)
        over = (self._rng.random(AGENTS) < 0.25) & ~begins
        self.rewards[:] = np.where(begins, 0, actions == self.answers)
        self.terminals[:] = over
        self.observations[:] = 0
        self._begin(over if same_step else begins)
        return []

    def _begin(self, rows):
        self.answers[rows] = self._rng.integers(0, 2, rows.sum())
        self.observations[rows, 0] = self.answers[rows]


def accuracy_on_latch(wrapper, mode, run_dir, seed=1, steps=STEPS):
    """Train, and the share of right answers in a thousand episodes afterwards."""
    config = TrainConfig(
        device="cpu", seed=seed, total_timesteps=steps, learning_rate=1e-2, update_epochs=2
    )
    with pufferlib.vector.make(lambda: Latch(mode), num_envs=1) as vecenv:
        torch.manual_seed(seed)
        policy = wrapper(vecenv.driver_env, Default(vecenv.driver_env, 16), 16, 16)
        trainer = clean_pufferl.create(config, vecenv, policy, run_dir)
        while trainer.global_step < steps:
            clean_pufferl.evaluate(trainer)
            clean_pufferl.train(trainer)
        result = evaluate_policy(vecenv, policy, 1_000, greedy=True, seed=seed)
    return sum(result.returns) / sum(result.lengths)


@pytest.mark.parametrize("mode", [AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP])
def test_a_memory_that_begins_empty_solves_it(mode, tmp_path):
    assert accuracy_on_latch(LSTMWrapper, mode, tmp_path) >= 0.97


def test_a_memory_that_is_not_reset_does_not(tmp_path, monkeypatch):
    recur = LSTMWrapper.recur
    monkeypatch.setattr(
        LSTMWrapper, "recur", lambda self, hidden, state, starts: recur(self, hidden, state, None)
    )
    assert accuracy_on_latch(LSTMWrapper, AutoresetMode.SAME_STEP, tmp_path) <= 0.82


# Five seeds of the minGRU scored 0.966 to 0.977 in the last episodes of their training. One layer
# of it does not do (0.6 after 300,000 steps): its gates do not see what is remembered.
MINGRU = {
    "rnn_kind": "mingru",
    "rnn": {"num_layers": 2},
    "train": {"total_timesteps": 150_000},
}


@pytest.mark.parametrize("options", [{}, MINGRU], ids=["as users get it", "mingru"])
def test_memory_is_recited(options, tmp_path):
    train = {"seed": 1, "device": "cpu"} | options.get("train", {})
    config = load_config("memory", overrides=options | {"train": train})
    with make_vecenv(config) as vecenv:
        policy = make_policy(config, vecenv.driver_env)
        trainer = clean_pufferl.create(config.train, vecenv, policy, tmp_path)
        while trainer.global_step < config.train.total_timesteps:
            clean_pufferl.evaluate(trainer)
            clean_pufferl.train(trainer)
        assert evaluate_policy(vecenv, policy, 400, score_key="score").mean >= 0.9
