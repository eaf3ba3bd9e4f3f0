"""What the estimators lead to, in closed form: by their fixed points, and by the real trainer."""

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Discrete
from gymnasium.vector import AutoresetMode
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

import pufferlib.vector
from pufferlib import clean_pufferl
from pufferlib.environment import PufferEnv
from pufferlib.trainer.advantage import estimate_advantages, estimate_vtrace
from pufferlib.trainer.config import TrainConfig

GAMMA = 0.5
STEPS = 3
MODES = [AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP]


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10**6), lam=st.floats(0, 1), clip=st.floats(0.1, 3))
def test_the_value_of_reward_for_ever_is_the_fixed_point_of_both(seed, lam, clip):
    """delta = 1 + γ / (1 - γ) - 1 / (1 - γ) = 0 wherever episodes are cut, whoever acted."""
    rng = np.random.default_rng(seed)
    ones, none = np.ones((3, 9), np.float32), np.zeros((3, 9), bool)
    value = ones / (1 - GAMMA)
    cut, valid = rng.random((3, 9)) < 0.3, rng.random((3, 9)) < 0.8
    arguments = (ones, value, value, none, cut, valid)
    ratios = rng.uniform(0.1, 4, (3, 9)).astype(np.float32)
    assert (estimate_advantages(*arguments, GAMMA, lam) == 0).all()
    advantages, targets = estimate_vtrace(*arguments, ratios, GAMMA, lam, clip, clip)
    assert (advantages == 0).all()
    assert (targets == value).all()


def test_every_sample_of_a_segment_has_a_real_target_of_vtrace():
    # As for generalized advantage estimation: rewards 1, values 0, discount 1, bootstrap value 10.
    ones, zeros = np.ones((2, 4), np.float32), np.zeros((2, 4), np.float32)
    next_values, none = zeros.copy(), np.zeros((2, 4), bool)
    next_values[:, 3] = 10
    ones[1], next_values[1] = 1e9, 1e9
    arguments = (ones, zeros, next_values, none, none, ~none, np.ones((2, 4), np.float32))
    advantages, targets = estimate_vtrace(*arguments, 1.0, 1.0)
    assert advantages[0].tolist() == targets[0].tolist() == [14, 13, 12, 11]


class Wage(PufferEnv):
    """Two agents earn 1 a step in episodes of `STEPS` steps, which end as `kind` says."""

    single_observation_space = Box(0, 1, (1,), np.float32)
    single_action_space = Discrete(2)
    num_agents = 2

    def __init__(self, kind, autoreset_mode):
        self.kind, self.autoreset_mode = kind, autoreset_mode
        super().__init__()

    def reset(self, seed=None, options=None):
        self.time = 0
        self.rewards[:] = self.observations[:] = 0
        self.terminals[:] = self.truncations[:] = False
        return []

    def step(self, actions):
        if self.time == STEPS:  # next-step reset
            return self.reset()
        self.time += 1
        self.rewards[:] = 1
        getattr(self, self.kind)[:] = self.time == STEPS
        if self.autoreset_mode == AutoresetMode.SAME_STEP and self.time == STEPS:
            self.final_observations[:] = 0
            self.time = 0
        return []


class OneValue(nn.Module):
    """The value of everything is one number."""

    def __init__(self):
        super().__init__()
        self.value = nn.Parameter(torch.zeros(1, 1))
        self.logits = nn.Parameter(torch.zeros(1, 2))

    def forward(self, x):
        return self.logits.expand(len(x), 2), self.value.expand(len(x), 1)


def learnt_value(kind, mode, run_dir, **options):
    """What the real loop makes of `OneValue`; its batches hold whole episodes."""
    config = TrainConfig(
        device="cpu",
        gamma=GAMMA,
        learning_rate=0.2,
        bptt_horizon=4 * STEPS,
        minibatch_size=8 * STEPS,
        total_timesteps=20 * 6 * STEPS,
        update_epochs=8,
        clip_vloss=False,
        **options,
    )
    with pufferlib.vector.make(lambda: Wage(kind, mode), num_envs=1) as vecenv:
        trainer = clean_pufferl.create(config, vecenv, OneValue(), run_dir)
        while trainer.global_step < config.total_timesteps:
            clean_pufferl.evaluate(trainer)
            clean_pufferl.train(trainer)
    return trainer.policy.value.item()


@pytest.mark.parametrize("mode", MODES, ids=["next step", "same step"])
@pytest.mark.parametrize("vtrace", [False, True], ids=["gae", "vtrace"])
def test_a_cut_episode_is_learnt_to_be_worth_reward_for_ever(vtrace, mode, tmp_path):
    value = learnt_value("truncations", mode, tmp_path, vtrace=vtrace)
    assert value == pytest.approx(1 / (1 - GAMMA), abs=0.01)


@pytest.mark.parametrize("mode", MODES, ids=["next step", "same step"])
@pytest.mark.parametrize("vtrace", [False, True], ids=["gae", "vtrace"])
def test_an_ended_episode_is_worth_less(vtrace, mode, tmp_path):
    """One step ahead, one in `STEPS` samples has no future: V = 1 + γ V (STEPS - 1) / STEPS."""
    value = learnt_value("terminals", mode, tmp_path, vtrace=vtrace, gae_lambda=0.0)
    assert value == pytest.approx(1 / (1 - GAMMA * (STEPS - 1) / STEPS), abs=0.01)
