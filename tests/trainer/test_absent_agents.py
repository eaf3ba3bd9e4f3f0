"""Rows without an agent change nothing; agents may die early and join late."""

import math

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Discrete
from pettingzoo.utils.env import ParallelEnv
from small_runs import small, start, update, weights
from torch import nn

import pufferlib.vector
from pufferlib import clean_pufferl
from pufferlib.emulation import PettingZooPufferEnv
from pufferlib.environment import PufferEnv
from pufferlib.models import Default, LSTMWrapper
from pufferlib.postprocess import MultiagentEpisodeStats


class Crowd(PufferEnv):
    """`slots` agents of which only the first lives; the others hold 1e6 in every row."""

    def __init__(self, slots):
        self.single_observation_space = Box(-np.inf, np.inf, (2,), np.float32)
        self.single_action_space = Discrete(3)
        self.num_agents = slots
        super().__init__()

    def _fill(self, time, reward):
        self.time = time
        self.observations[:] = 1e6
        self.rewards[:] = 1e6
        self.masks[:] = False
        self.observations[0] = self.rng.normal(size=2)
        self.rewards[0], self.masks[0] = reward, True
        self.terminals[:] = False
        self.truncations[:] = False
        self.terminals[0] = time == 5

    def reset(self, seed=None, options=None):
        self.rng = np.random.default_rng(11)
        self._fill(0, 0.0)
        return []

    def step(self, actions):
        if self.terminals[0]:
            self._fill(0, 0.0)
        else:
            self._fill(self.time + 1, float(self.rng.normal()))
        return []


class Fixed(nn.Module):
    """Logits that leave no choice, so that acting does not depend on how many rows there are."""

    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, x):
        logits, value = self.inner(x)
        return logits + torch.tensor([60.0, 0.0, 0.0]), value


class FixedRecurrent(Fixed):
    def forward(self, x, state=None, starts=None):
        logits, value, state = self.inner(x, state, starts)
        return logits + torch.tensor([60.0, 0.0, 0.0]), value, state


def crowd_run(tmp_path, slots, recurrent, minibatches):
    torch.manual_seed(0)
    vecenv = pufferlib.vector.make(lambda: Crowd(slots), num_envs=1)
    policy = Default(vecenv.driver_env, 8)
    policy = (
        FixedRecurrent(LSTMWrapper(vecenv.driver_env, policy, 8, 8)) if recurrent else Fixed(policy)
    )
    config = small(batch_size=32 * slots, minibatch_size=32 // minibatches, update_epochs=3)
    trainer = clean_pufferl.create(config, vecenv, policy, run_dir=tmp_path)
    losses = []
    for epoch in range(3):
        clean_pufferl.evaluate(trainer)
        torch.manual_seed(100 + epoch)
        losses.append(clean_pufferl.train(trainer))
    clean_pufferl.close(trainer)
    return trainer.global_step, losses, weights(trainer)


@pytest.mark.parametrize("recurrent", [False, True])
@pytest.mark.parametrize("minibatches", [1, 4])
def test_dead_slots_change_nothing(tmp_path, recurrent, minibatches):
    alone = crowd_run(tmp_path, 1, recurrent, minibatches)
    crowd = crowd_run(tmp_path, 8, recurrent, minibatches)
    assert crowd[0] == alone[0] == 3 * 27 - 1  # episodes of 5: one row in 6 is a reset
    for ours, theirs in zip(crowd[1], alone[1], strict=True):
        assert ours == pytest.approx(theirs, rel=1e-5, abs=1e-6)
    torch.testing.assert_close(crowd[2], alone[2])


class Relay(ParallelEnv):
    """`a` plays steps 0 to 4; `b` steps 0 to 2, then dies; `c` joins at step 3."""

    possible_agents = ["a", "b", "c"]
    metadata = {"name": "relay"}
    render_mode = None

    def observation_space(self, agent):
        return Box(-1, 9, (2,), np.float32)

    def action_space(self, agent):
        return Discrete(2)

    def reset(self, seed=None, options=None):
        self.time, self.agents = 0, ["a", "b"]
        return self._observations(), {agent: {} for agent in self.agents}

    def step(self, actions):
        assert sorted(actions) == self.agents
        self.time += 1
        ending = {2: ["b"], 4: ["a", "c"]}.get(self.time, [])
        if self.time == 3:
            self.agents = ["a", "c"]
        results = (
            self._observations(),
            dict.fromkeys(self.agents, 1.0),
            {agent: agent in ending for agent in self.agents},
            dict.fromkeys(self.agents, False),
            {agent: {} for agent in self.agents},
        )
        self.agents = [agent for agent in self.agents if agent not in ending]
        return results

    def _observations(self):
        return {agent: np.array([self.time, 0], np.float32) for agent in self.agents}


@pytest.mark.parametrize("recurrent", [False, True])
def test_agents_that_die_and_join(tmp_path, recurrent):
    vecenv = pufferlib.vector.make(
        lambda: PettingZooPufferEnv(env=MultiagentEpisodeStats(Relay())), num_envs=2
    )
    trainer = start(tmp_path, small(bptt_horizon=10), recurrent=recurrent, vecenv=vecenv)
    assert math.isfinite(update(trainer)["grad_norm"])
    # Two episodes of five rows, then the first row of a third: `a` acts 4 times in each,
    # `b` twice, `c` once.
    assert trainer.global_step == 2 * 2 * (4 + 2 + 1)
    assert trainer.stats.counts["episode_return"] == 2 * 2 * 3
    clean_pufferl.close(trainer)


def test_a_batch_without_a_valid_sample_teaches_nothing(scripted_dead, tmp_path):
    vecenv, policy = scripted_dead
    trainer = clean_pufferl.create(small(), vecenv, policy, run_dir=tmp_path)
    before = weights(trainer)
    assert clean_pufferl.evaluate(trainer) == {}
    assert clean_pufferl.train(trainer) == {}
    assert (trainer.global_step, trainer.epoch) == (0, 1)
    assert torch.equal(weights(trainer), before)
    clean_pufferl.close(trainer)


class Deserted(Crowd):
    def _fill(self, time, reward):
        super()._fill(time, reward)
        self.masks[:] = False
        self.terminals[:] = False


@pytest.fixture
def scripted_dead():
    vecenv = pufferlib.vector.make(lambda: Deserted(2), num_envs=1)
    return vecenv, Default(vecenv.driver_env, 8)
