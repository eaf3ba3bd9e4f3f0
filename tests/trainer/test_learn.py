"""One update: groups of minibatches, schedules, prioritized samples."""

import numpy as np
import pytest
import torch

from pufferlib import clean_pufferl
from pufferlib.exceptions import ConfigError
from pufferlib.models import Default, LSTMWrapper
from pufferlib.pytorch import sample_logits
from pufferlib.trainer.batch import Batch
from pufferlib.trainer.learn import anneal, correct_off_policy, learn, learn_epochs

LIVES = ["fnntfnnnn", "fnnnnnnnn", "----fnnnt", "fnnufntfn"]


@pytest.fixture(params=[False, True], ids=["plain", "recurrent"])
def trained(request, scripted, tmp_path):
    """A function from options to a trainer that has collected one batch."""

    def make(**options):
        torch.manual_seed(5)
        rows = scripted.rows_from_lives(LIVES)
        vecenv = scripted.VecEnv(rows, len(LIVES))
        policy = Default(vecenv.driver_env, hidden_size=8)
        if request.param:
            policy = LSTMWrapper(vecenv.driver_env, policy, 8, 8)
        trainer = clean_pufferl.create(scripted.config(**options), vecenv, policy, run_dir=tmp_path)
        clean_pufferl.evaluate(trainer)
        return trainer

    return make


def batch_of(trainer):
    segments = trainer.experience.collect(0.99, 0.95)
    state = trainer.states.at(segments.slots) if trainer.states else None
    return segments, Batch(segments, trainer.device, state)


def weights_of(trainer):
    return torch.cat([weight.detach().ravel() for weight in trainer.policy.parameters()])


def test_gradients_of_several_minibatches_add_up_to_that_of_all_samples(trained):
    moved = []
    for options in ({"minibatch_size": 32}, {"minibatch_size": 8, "accumulate": 4}):
        trainer = trained(norm_adv=False, **options)
        clean_pufferl.train(trainer)
        moved.append(weights_of(trainer))
    torch.testing.assert_close(moved[0], moved[1], atol=1e-6, rtol=1e-6)


def test_every_minibatch_counts_also_in_a_last_small_group(trained, monkeypatch):
    trainer = trained(minibatch_size=8, accumulate=3)
    sizes = []

    def spy(trainer, minibatches):
        sizes.append(len(minibatches))
        return learn(trainer, minibatches)

    monkeypatch.setattr("pufferlib.trainer.learn.learn", spy)
    segments, batch = batch_of(trainer)
    assert segments.valid.sum() == 7 + 8 + 4 + 6
    learn_epochs(trainer, batch)
    assert sizes == [3, 1]  # four minibatches, of a segment or of about seven samples


def test_the_entropy_weight_goes_to_its_final_value(trained):
    trainer = trained(ent_coef=0.1, ent_coef_final=0.02, total_timesteps=100)
    seen = []
    for step in (0, 50, 100, 150):
        trainer.global_step = step
        anneal(trainer, steps=0)
        seen.append(trainer.ent_coef)
    assert seen == pytest.approx([0.1, 0.06, 0.02, 0.02])


def test_the_entropy_weight_stays_without_a_final_value(trained):
    trainer = trained(ent_coef=0.1, total_timesteps=100)
    trainer.global_step = 50
    anneal(trainer, steps=0)
    assert trainer.ent_coef == 0.1


def drawn_with(monkeypatch, batch, size, alpha, beta, choice):
    """The probabilities that segments are drawn with, and the minibatches of a fixed draw."""
    asked = []

    def draw(shares, count, replacement):
        assert replacement
        asked.append(shares.numpy())
        return torch.tensor(choice[:count])

    monkeypatch.setattr(torch, "multinomial", draw)
    return asked, list(batch.prioritized_minibatches(size, alpha, beta))


def test_segments_are_drawn_by_their_advantages_and_weighted_back(trained, monkeypatch):
    trainer = trained()
    segments, batch = batch_of(trainer)
    sizes = np.array(
        [
            np.abs(row[valid]).mean()
            for row, valid in zip(segments.advantages, segments.valid, strict=True)
        ]
    )
    asked, minibatches = drawn_with(monkeypatch, batch, 16, 0.5, 1.0, [3, 1])
    expected = np.sqrt(sizes) / np.sqrt(sizes).sum()
    np.testing.assert_allclose(asked[0], expected, rtol=1e-4)
    assert len(minibatches) == 2, "four segments in parts of two"
    weights = (1 / expected) / (1 / expected).max()
    counts = segments.valid.sum(1)
    by_hand = np.concatenate([np.full(counts[i], weights[i]) for i in (3, 1)])
    np.testing.assert_allclose(minibatches[0].weights.numpy(), by_hand, rtol=1e-4)
    advantages = np.concatenate([segments.advantages[i][segments.valid[i]] for i in (3, 1)])
    np.testing.assert_array_equal(minibatches[0].advantages.numpy(), advantages)


def test_a_full_correction_makes_all_segments_count_alike(trained, monkeypatch):
    _, batch = batch_of(trained())
    asked, (minibatch,) = drawn_with(monkeypatch, batch, 32, 0.8, 1.0, [0, 1, 2, 3])
    counts = batch._valid.sum(1)
    per_segment = torch.stack([part[0] for part in minibatch.weights.split(counts.tolist())])
    products = per_segment.numpy() * asked[0]
    np.testing.assert_allclose(products, products[0], rtol=1e-5)


def test_without_priority_all_are_drawn_alike_and_count_fully(trained, monkeypatch):
    _, batch = batch_of(trained())
    asked, (minibatch,) = drawn_with(monkeypatch, batch, 32, 0.0, 0.7, [0, 1, 2, 3])
    np.testing.assert_allclose(asked[0], 0.25)
    assert minibatch.weights.tolist() == [1.0] * len(minibatch.weights)


def test_prioritized_updates_move_the_policy(trained):
    trainer = trained(prio_alpha=0.8, minibatch_size=16)
    before = weights_of(trainer)
    losses = clean_pufferl.train(trainer)
    assert (weights_of(trainer) != before).any()
    assert np.isfinite(list(losses.values())).all()


def test_vtrace_changes_nothing_on_policy(trained):
    moved = []
    for vtrace in (False, True):
        trainer = trained(vtrace=vtrace, minibatch_size=16)
        losses = clean_pufferl.train(trainer)
        moved.append((weights_of(trainer), losses["explained_variance"]))
    torch.testing.assert_close(moved[0][0], moved[1][0], atol=1e-5, rtol=1e-5)
    assert moved[0][1] == pytest.approx(moved[1][1], abs=1e-5)


def test_vtrace_weighs_by_what_the_policy_would_do_now(trained):
    trainer = trained(vtrace=True, minibatch_size=8, vtrace_rho_clip=2.0)
    segments, batch = batch_of(trainer)
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in trainer.policy.parameters():
            parameter.add_(0.5 * torch.randn(parameter.shape, generator=generator))
    returns = correct_off_policy(trainer, segments, batch)

    ratios = np.ones(segments.valid.shape, np.float32)
    for where, minibatch in batch.in_order(10**6):
        inputs = (minibatch.observations, minibatch.state, minibatch.starts)
        logprobs = sample_logits(trainer.run_policy(*inputs)[0], minibatch.actions)[1]
        if minibatch.chosen is not None:
            logprobs = logprobs[minibatch.chosen]
        ratios.flat[where] = (logprobs - minibatch.logprobs).exp().detach().numpy()
    assert ratios.max() > 1.05
    assert ratios.min() < 0.95
    for i, t in np.argwhere(segments.valid):
        error = 0.0
        for s in reversed(range(t, 8)):
            if not segments.valid[i, s]:
                error = 0.0
                continue
            led_to = 0.0 if segments.terminals[i, s] else segments.next_values[i, s]
            delta = segments.rewards[i, s] + 0.99 * led_to - segments.values[i, s]
            carried = 0.0 if segments.dones[i, s] else 0.99 * 0.95 * error
            error = min(2.0, ratios[i, s]) * delta + min(1.0, ratios[i, s]) * carried
        assert returns[i, t] == pytest.approx(segments.values[i, t] + error, abs=1e-4)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"accumulate": 0}, "train.accumulate: expected more than 0, got 0"),
        ({"prio_alpha": -1.0}, "train.prio_alpha: expected at least 0, got -1.0"),
        ({"prio_beta0": 1.5}, "train.prio_beta0: expected 0 <= prio_beta0 <= 1, got 1.5"),
        ({"weight_decay": 0.1}, "train.weight_decay: Adam has none .* train.optimizer adamw"),
    ],
)
def test_values_that_cannot_work(scripted, options, message):
    with pytest.raises(ConfigError, match=message):
        scripted.config(**options).validate()
