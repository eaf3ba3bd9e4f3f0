"""A run stops at the first number that is none, and says where it came from."""

import math

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Dict, Discrete
from small_runs import Tensors, make_clock, small, start, update, weights

import pufferlib.vector
from pufferlib import clean_pufferl
from pufferlib.emulation import GymnasiumPufferEnv
from pufferlib.exceptions import NonFiniteError


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"bad_reward_at": 10}, r"rewards: .*got nan for agent 2 \(environment 2\) at step 13"),
        (
            {"bad_observation_at": 4},
            r"observations: .*got inf for agent 2 \(environment 2\) at step 5",
        ),
    ],
)
def test_what_is_not_finite_is_named(tmp_path, kwargs, message):
    creators = [make_clock] * 4
    env_kwargs = [{}, {}, kwargs, {}]
    vecenv = pufferlib.vector.make(creators, [()] * 4, env_kwargs, num_envs=4)
    trainer = start(tmp_path, small(bptt_horizon=16), vecenv=vecenv)
    clean_pufferl.evaluate(trainer)
    before = weights(trainer)
    with pytest.raises(NonFiniteError, match=message):
        clean_pufferl.train(trainer)
    assert torch.equal(weights(trainer), before)
    clean_pufferl.close(trainer)


class Exploding(Tensors):
    """Finite outputs, but a gradient that is not."""

    def forward(self, x):
        logits, value = super().forward(x)
        return logits, value + torch.sqrt(value - value.detach())


def test_a_gradient_that_is_not_finite_never_reaches_the_weights(tmp_path):
    vecenv = pufferlib.vector.make(make_clock, num_envs=2)
    trainer = clean_pufferl.create(small(), vecenv, Exploding(), run_dir=tmp_path)
    before = weights(trainer)
    clean_pufferl.evaluate(trainer)
    with pytest.raises(NonFiniteError, match=r"gradient.*Lower train.learning_rate"):
        clean_pufferl.train(trainer)
    assert torch.equal(weights(trainer), before)
    clean_pufferl.close(trainer)


def test_a_policy_that_computes_nan_is_named(tmp_path):
    vecenv = pufferlib.vector.make(make_clock, num_envs=2)
    policy = Tensors()
    trainer = clean_pufferl.create(small(), vecenv, policy, run_dir=tmp_path)
    with torch.no_grad():
        policy.layer.bias[0] = math.nan
    clean_pufferl.evaluate(trainer)
    with pytest.raises(NonFiniteError, match="logprobs: .*the policy computed it"):
        clean_pufferl.train(trainer)
    clean_pufferl.close(trainer)


class Inventory(gymnasium.Env):
    """Structured observations and actions; `hp` becomes infinite in step 5."""

    observation_space = Dict(
        {
            "map": Box(0, 255, (3, 3), np.uint8),
            "self": Dict({"hp": Box(-9e9, np.inf, (2,), np.float64)}),
        }
    )
    action_space = Dict({"go": Discrete(4, start=1), "how": Box(-0.1, 0.1, (2,), np.float32)})

    def __init__(self, breaks):
        self.breaks = breaks

    def reset(self, seed=None, options=None):
        super().reset(seed=seed)
        self.time = 0
        return self._observe(), {}

    def step(self, action):
        assert self.action_space.contains(action), action
        self.time += 1
        return self._observe(), 1.0, False, False, {"go": action["go"], "where": "cave"}

    def _observe(self):
        hp = np.array([np.inf if self.breaks and self.time == 5 else 1.0, 2.0])
        return {"map": self.np_random.integers(0, 255, (3, 3), np.uint8), "self": {"hp": hp}}


@pytest.mark.parametrize("recurrent", [False, True])
def test_structured_spaces_are_trained_on(tmp_path, recurrent):
    vecenv = pufferlib.vector.make(
        lambda: GymnasiumPufferEnv(env=Inventory(breaks=False)), num_envs=3
    )
    trainer = start(tmp_path, recurrent=recurrent, vecenv=vecenv)
    assert update(trainer)["grad_norm"] > 0
    assert trainer.stats.keys() == {"go"}
    assert 1 <= trainer.stats["go"] <= 4
    assert trainer.stats.counts["go"] == trainer.global_step == 3 * 8
    assert trainer.stats.other == {"where": "cave"}
    clean_pufferl.close(trainer)


def test_a_leaf_that_is_not_finite_is_named(tmp_path):
    vecenv = pufferlib.vector.make(
        lambda: GymnasiumPufferEnv(env=Inventory(breaks=True)), num_envs=3
    )
    trainer = start(tmp_path, vecenv=vecenv)
    with pytest.raises(NonFiniteError, match=r"observations\['self'\]\['hp'\].*got inf.*at step 5"):
        clean_pufferl.evaluate(trainer)  # a continuous action would be NaN
    clean_pufferl.close(trainer)
