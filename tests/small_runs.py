"""Small trainings that several tests start."""

import math

import gymnasium
import numpy as np
import torch
from gymnasium.spaces import Box, Discrete
from torch import nn

import pufferlib.vector
from pufferlib import clean_pufferl
from pufferlib.emulation import GymnasiumPufferEnv
from pufferlib.models import Default, LSTMWrapper
from pufferlib.postprocess import EpisodeStats
from pufferlib.trainer.config import TrainConfig


class Clock(gymnasium.Env):
    """Episodes of three steps with reward 1; reward NaN or observation infinite where asked."""

    observation_space = Box(-np.inf, np.inf, (2,), np.float32)
    action_space = Discrete(3)

    def __init__(self, bad_reward_at=None, bad_observation_at=None):
        self.total, self.bad = 0, (bad_reward_at, bad_observation_at)

    def reset(self, seed=None, options=None):
        super().reset(seed=seed)
        self.step_count = 0
        return self._observe(), {}

    def step(self, action):
        self.step_count += 1
        self.total += 1
        reward = math.nan if self.total == self.bad[0] else 1.0
        observation = self._observe()
        if self.total == self.bad[1]:
            observation[1] = np.inf
        return observation, reward, False, self.step_count == 3, {}

    def _observe(self):
        return np.array([self.step_count, self.np_random.normal()], np.float32)


def make_clock(**kwargs):
    return GymnasiumPufferEnv(env=EpisodeStats(Clock(**kwargs)))


def small(**changes):
    defaults = {"device": "cpu", "bptt_horizon": 8, "total_timesteps": 2_000, "update_epochs": 2}
    return TrainConfig(**(defaults | changes))


class Tensors(nn.Module):
    """A user's policy whose values are `(B,)`."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(2, 4)

    def forward(self, x):
        out = self.layer(x)
        return out[:, :3], out[:, 3]


def start(tmp_path, config=None, recurrent=False, vecenv=None, **make_options):
    torch.manual_seed(0)
    vecenv = vecenv or pufferlib.vector.make(make_clock, num_envs=4, seed=3, **make_options)
    policy = Default(vecenv.driver_env, 16)
    if recurrent:
        policy = LSTMWrapper(vecenv.driver_env, policy, 16, 16)
    return clean_pufferl.create(config or small(), vecenv, policy, run_dir=tmp_path)


def weights(trainer):
    return torch.cat([p.detach().flatten().clone() for p in trainer.policy.parameters()])


def update(trainer, times=1):
    """Train; the losses of the last update."""
    for _ in range(times):
        clean_pufferl.evaluate(trainer)
        losses = clean_pufferl.train(trainer)
    return losses
