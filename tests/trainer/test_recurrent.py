"""Memory begins empty in every episode, in the rollout and in training alike."""

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box
from gymnasium.vector import AutoresetMode
from torch import nn

from pufferlib import clean_pufferl
from pufferlib.models import Default, LSTMWrapper, MinGRUWrapper
from pufferlib.trainer.batch import Batch
from pufferlib.trainer.learn import ppo_loss

EPISODES_OF_THREE = ("fnnu" * 7)[:25]
WITHOUT_A_PAUSE = "f" + ("nnt" * 8)  # the row that reports an end is the first of the next episode
EPISODES_THAT_DIE = ("fnnt" * 7)[:25]


class Accumulator(nn.Module):
    """Its state is the sum of the observations of this life; it logs the state before each row."""

    def __init__(self):
        super().__init__()
        self.head = nn.Linear(1, 4)
        self.value = nn.Linear(1, 1)
        self.log = []

    def forward(self, x, state=None, starts=None):
        steps = x[:, None] if x.ndim == 2 else x
        starts = starts.reshape(steps.shape[:2])
        total = steps.new_zeros(len(steps)) if state is None else state[0][0]
        sums = []
        for step in range(steps.shape[1]):
            total = total.masked_fill(starts[:, step], 0)
            self.log.append((starts[:, step].clone(), total.clone()))
            total = total + steps[:, step].sum(-1)
            sums.append(total)
        features = torch.stack(sums, 1).reshape(-1, 1)
        return self.head(features), self.value(features), (total[None],)


def rollout(scripted, tmp_path, policy_of, lives, autoreset_mode=AutoresetMode.NEXT_STEP, **config):
    torch.manual_seed(3)
    rows = scripted.rows_from_lives(lives)
    vecenv = scripted.VecEnv(rows, len(lives), autoreset_mode=autoreset_mode)
    config = scripted.config(batch_size=24 * len(lives), **config)
    trainer = clean_pufferl.create(config, vecenv, policy_of(vecenv.driver_env), run_dir=tmp_path)
    clean_pufferl.evaluate(trainer)
    return trainer


def lstm(env, wrapper=LSTMWrapper):
    policy = wrapper(env, Default(env, 16), 16, 16)
    with torch.no_grad():
        for parameter in policy.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return policy


def mingru(env):
    return lstm(env, MinGRUWrapper)


def test_the_state_before_the_first_row_of_an_episode_is_zero(scripted, tmp_path):
    trainer = rollout(scripted, tmp_path, lambda env: Accumulator(), [EPISODES_OF_THREE] * 2)
    acting = list(trainer.policy.log)
    trainer.policy.log.clear()
    clean_pufferl.train(trainer)
    assert len(acting) == 25
    assert len(trainer.policy.log) == 3 * 8  # three minibatches of segments of eight
    for log in (acting, trainer.policy.log):
        begun = [starts for starts, _ in log]
        assert any(starts.any() for starts in begun)
        for starts, state in log:
            assert (state[starts] == 0).all()
            assert (state[~starts] != 0).all()
    # rows 0, 4, 8, …, no others
    assert [bool(starts[0]) for starts, _ in acting] == [time % 4 == 0 for time in range(25)]


@pytest.mark.parametrize("policy_of", [lstm, mingru, lambda env: Default(env, 16)])
@pytest.mark.parametrize("lives", [[EPISODES_OF_THREE, EPISODES_THAT_DIE], ["f" + "n" * 24] * 2])
def test_the_ratio_is_one_before_the_first_update(scripted, tmp_path, policy_of, lives):
    require_ratio_one(rollout(scripted, tmp_path, policy_of, lives))


@pytest.mark.parametrize("policy_of", [lstm, mingru])
def test_the_ratio_is_one_where_environments_reset_in_the_same_step(scripted, tmp_path, policy_of):
    mode = AutoresetMode.SAME_STEP
    trainer = rollout(scripted, tmp_path, policy_of, [WITHOUT_A_PAUSE] * 2, mode)
    segments = trainer.experience.collect(0.99, 0.95)
    first = segments.starts[segments.agents == 0].ravel()
    assert np.flatnonzero(first).tolist() == [0, 3, 6, 9, 12, 15, 18, 21]
    require_ratio_one(trainer)


def require_ratio_one(trainer):
    segments = trainer.experience.collect(0.99, 0.95)
    state = trainer.states.at(segments.slots) if trainer.states else None
    for minibatch in Batch(segments, trainer.device, state).minibatches(16):
        with torch.no_grad():
            _, metrics = ppo_loss(trainer, minibatch)
        assert metrics["old_approx_kl"].item() == pytest.approx(0, abs=1e-6)
        assert metrics["clipfrac"] == 0
    (everything,) = Batch(segments, trainer.device, state).minibatches(10**6)
    ratio = ratio_of(trainer, everything)
    np.testing.assert_allclose(ratio, 1, atol=1e-6)


def ratio_of(trainer, minibatch):
    from pufferlib.pytorch import sample_logits

    with torch.no_grad():
        logits, _, _ = trainer.run_policy(minibatch.observations, minibatch.state, minibatch.starts)
        logprobs = sample_logits(logits, minibatch.actions)[1]
    if minibatch.chosen is not None:
        logprobs = logprobs[minibatch.chosen]
    return (logprobs - minibatch.logprobs).exp().numpy()


def test_the_next_batch_goes_on_from_the_state_that_acted(scripted, tmp_path):
    # The last row of a batch is valued with the old weights, but acted upon with the new ones:
    # the segment that begins with it holds that state, so the ratio is 1 again.
    lives = [(EPISODES_OF_THREE + "nuf" * 8)[:49], ("f" + "n" * 48)]
    trainer = rollout(scripted, tmp_path, lstm, lives, learning_rate=0.1)
    for _ in range(2):
        clean_pufferl.train(trainer)
        if trainer.epoch == 1:
            clean_pufferl.evaluate(trainer)
            segments = trainer.experience.collect(0.99, 0.95)
            assert segments.first_steps.max() == 40
            (minibatch,) = Batch(
                segments, trainer.device, trainer.states.at(segments.slots)
            ).minibatches(10**6)
            np.testing.assert_allclose(ratio_of(trainer, minibatch), 1, atol=1e-6)
            assert (minibatch.state[0] != 0).any()


def test_agents_that_come_first_keep_their_own_state(scripted, tmp_path):
    rng = np.random.default_rng(0)
    rows, clocks = [], np.zeros(4, int)
    for _ in range(60):
        agents = rng.choice(4, 2, replace=False, p=[0.4, 0.3, 0.2, 0.1])
        kinds = np.array([EPISODES_OF_THREE[clock % 24] for clock in clocks[agents]])
        rows.append(
            {
                "agents": agents,
                "observations": rng.normal(size=(2, 3)).astype(np.float32),
                "rewards": rng.normal(size=2).astype(np.float32),
                "terminals": np.zeros(2, bool),
                "truncations": kinds == "u",
                "masks": np.ones(2, bool),
            }
        )
        clocks[agents] += 1
    torch.manual_seed(3)
    vecenv = scripted.VecEnv(rows, 4)
    trainer = clean_pufferl.create(
        scripted.config(batch_size=40), vecenv, lstm(vecenv.driver_env), run_dir=tmp_path
    )
    clean_pufferl.evaluate(trainer)
    segments = trainer.experience.collect(0.99, 0.95)
    assert len(set(segments.agents.tolist())) > 1
    (minibatch,) = Batch(segments, trainer.device, trainer.states.at(segments.slots)).minibatches(
        10**6
    )
    np.testing.assert_allclose(ratio_of(trainer, minibatch), 1, atol=1e-6)


def test_states_of_any_number_of_tensors(scripted, tmp_path):
    trainer = rollout(scripted, tmp_path, lambda env: Accumulator(), [EPISODES_OF_THREE] * 3)
    assert len(trainer.states.of(np.arange(3))) == 1
    assert trainer.states.of(np.array([2]))[0].shape == (1, 1)


def test_the_initial_state_of_a_dead_slot_does_not_matter(scripted, tmp_path):
    lives = [EPISODES_OF_THREE, "-" * 25]
    trainer = rollout(scripted, tmp_path, lstm, lives)
    losses = clean_pufferl.train(trainer)
    assert all(np.isfinite(value) for value in losses.values())
    assert trainer.vecenv.single_observation_space == Box(-9, 9, (3,), np.float32)
