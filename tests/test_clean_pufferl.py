"""The whole loop on scripted and on real environments."""

import math
from unittest.mock import Mock

import pytest
import torch
from small_runs import Tensors, make_clock, small, start, update, weights

import pufferlib.vector
from pufferlib import clean_pufferl
from pufferlib.exceptions import APIUsageError, ConfigError


@pytest.mark.parametrize("recurrent", [False, True])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"backend": "multiprocessing", "num_workers": 2},
        {"backend": "multiprocessing", "num_workers": 2, "batch_size": 2, "zero_copy": False},
    ],
)
def test_the_loop_runs_on_every_backend(tmp_path, recurrent, options):
    trainer = start(tmp_path, recurrent=recurrent, **options)
    before = weights(trainer)
    for epoch in range(1, 4):
        losses = update(trainer)
        assert trainer.epoch == epoch
        assert all(math.isfinite(value) for value in losses.values())
    assert set(losses) >= {
        "policy_loss",
        "value_loss",
        "entropy",
        "approx_kl",
        "clipfrac",
        "grad_norm",
    }
    assert trainer.stats["episode_return"] == trainer.stats["episode_length"] == 3.0
    # Three of four transitions of an agent count: the fourth is the reset. Which agents of a pool
    # fill a batch depends on timing.
    slack = 12 if "batch_size" in options else 0
    assert trainer.global_step == pytest.approx(3 * 32 * 3 / 4, abs=slack)
    assert not torch.equal(weights(trainer), before)
    assert trainer.losses is losses
    assert all(trainer.timings[phase] > 0 for phase in ("env", "copy", "forward", "learn"))
    clean_pufferl.close(trainer)
    clean_pufferl.close(trainer)


@pytest.mark.smoke
def test_statistics_are_exact(tmp_path):
    trainer = start(tmp_path)
    stats = clean_pufferl.evaluate(trainer)
    # nine rows each: 0 f, 1 n, 2 n, 3 end, 4 f, …, 7 end, 8 f
    assert stats == {"episode_return": 3.0, "episode_length": 3.0}
    assert stats.counts == {"episode_return": 8, "episode_length": 8}
    assert trainer.global_step == 4 * 6
    clean_pufferl.close(trainer)


def test_a_batch_in_which_no_episode_ends_has_no_statistics(tmp_path):
    trainer = start(tmp_path, small(bptt_horizon=2))
    assert clean_pufferl.evaluate(trainer) == {}
    clean_pufferl.close(trainer)


def test_train_needs_a_batch(tmp_path):
    trainer = start(tmp_path)
    with pytest.raises(APIUsageError, match=r"call evaluate\(\) first"):
        clean_pufferl.train(trainer)
    update(trainer)
    with pytest.raises(APIUsageError, match=r"call evaluate\(\) first"):
        clean_pufferl.train(trainer)
    clean_pufferl.close(trainer)


def test_the_same_seed_gives_the_same_run(tmp_path):
    runs = []
    for _ in range(2):
        trainer = start(tmp_path)
        losses = [update(trainer) for _ in range(3)]
        runs.append((losses, weights(trainer)))
        clean_pufferl.close(trainer)
    assert runs[0][0] == runs[1][0]
    assert torch.equal(runs[0][1], runs[1][1])


def test_the_learning_rate_falls_linearly_and_never_below_zero(tmp_path):
    trainer = start(tmp_path, small(total_timesteps=60, learning_rate=0.1))
    rates, steps = [], [0]
    for _ in range(5):
        update(trainer)
        rates.append(trainer.learning_rate)
        steps.append(trainer.global_step)
    assert steps[:4] == [0, 24, 48, 72]
    assert rates == pytest.approx([0.1, 0.1 * 36 / 60, 0.1 * 12 / 60, 0.0, 0.0])
    clean_pufferl.close(trainer)


@pytest.fixture
def clock(monkeypatch):
    """`clock[0]` is the seconds that a trainer has run."""
    seconds = [0.0]
    monkeypatch.setattr(clean_pufferl.Trainer, "elapsed", property(lambda trainer: seconds[0]))
    return seconds


def test_the_learning_rate_reaches_zero_at_the_end_of_the_time(tmp_path, clock):
    trainer = start(tmp_path, small(total_timesteps=240, max_seconds=100, learning_rate=0.1))
    rates = []
    for seconds in (0, 5, 60, 100, 130):
        clock[0] = seconds
        update(trainer)
        rates.append(trainer.learning_rate)
    # 24 steps each: in the second update the steps are further (24 / 240), then the time is
    assert rates == pytest.approx([0.1, 0.09, 0.04, 0.0, 0.0])
    clean_pufferl.close(trainer)


def test_a_resumed_run_has_its_time_anew_for_what_was_left(tmp_path, clock):
    trainer = start(tmp_path, small(total_timesteps=1_000, max_seconds=100))
    trainer.begin(400)
    assert trainer.progress() == 0.4
    clock[0] = 50
    assert trainer.progress() == pytest.approx(0.7)
    trainer.global_step = 900
    assert trainer.progress() == 0.9
    clock[0] = 100
    assert trainer.progress() == 1
    clean_pufferl.close(trainer)


def test_target_kl_ends_the_update_after_an_epoch(tmp_path, monkeypatch):
    counts = []
    for target in (None, 1e-9):
        trainer = start(tmp_path, small(update_epochs=5, target_kl=target, learning_rate=0.01))
        steps = Mock(wraps=trainer.optimizer.step)
        monkeypatch.setattr(trainer.optimizer, "step", steps)
        update(trainer)
        counts.append(steps.call_count)
        clean_pufferl.close(trainer)
    assert counts == [5 * 3, 3]  # 24 valid samples in parts of up to 8


def test_losses_are_means_over_all_minibatches(tmp_path):
    config = small(update_epochs=4, learning_rate=1e-12, anneal_lr=False)
    trainer = start(tmp_path, config)
    # The weights do not move, so every epoch reports the same entropy: that of 3 equal choices.
    assert update(trainer)["entropy"] == pytest.approx(math.log(3), abs=1e-3)
    clean_pufferl.close(trainer)


def test_values_may_be_flat(tmp_path):
    vecenv = pufferlib.vector.make(make_clock, num_envs=2)
    trainer = clean_pufferl.create(small(), vecenv, Tensors(), run_dir=tmp_path)
    assert update(trainer)["value_loss"] > 0
    clean_pufferl.close(trainer)


class Lazy(Tensors):
    """A user's policy that computes a constant when it is first called, and keeps it."""

    scale = None

    def forward(self, x):
        if self.scale is None:
            self.scale = torch.ones_like(x).mean()
        logits, values = super().forward(x)
        return logits * self.scale, values


def test_what_a_policy_keeps_from_acting_may_be_trained_with(tmp_path):
    vecenv = pufferlib.vector.make(make_clock, num_envs=2)
    trainer = clean_pufferl.create(small(), vecenv, Lazy(), run_dir=tmp_path)
    assert update(trainer)["value_loss"] > 0
    clean_pufferl.close(trainer)


def test_a_run_directory_is_made_when_none_is_given(tmp_path):
    vecenv = pufferlib.vector.make(make_clock, num_envs=2)
    config = small(data_dir=str(tmp_path))
    trainer = clean_pufferl.create(config, vecenv, Tensors(), record={"env_name": "clock"})
    assert trainer.run_dir.parent == tmp_path
    assert trainer.run_dir.name.startswith("clock-")
    clean_pufferl.close(trainer)


# -- settings --------------------------------------------------------------------------------


def test_sizes_that_do_not_fit_are_refused(tmp_path):
    with pytest.raises(ConfigError, match=r"batch_size \(30\).*nearest: 24 or 32"):
        start(tmp_path, small(batch_size=30))


def test_a_device_that_does_not_exist_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="train.device: expected 'auto'.*'abacus'"):
        start(tmp_path, small(device="abacus"))


def test_a_batch_may_be_larger_than_one_segment_per_agent(tmp_path):
    trainer = start(tmp_path, small(batch_size=3 * 4 * 8))
    update(trainer)
    assert trainer.global_step == 4 * 18
    clean_pufferl.close(trainer)


def test_a_compiled_policy_trains_the_plain_one(tmp_path, monkeypatch):
    compile_module = torch.compile
    monkeypatch.setattr(
        torch, "compile", lambda module, mode: compile_module(module, backend="eager")
    )
    plain = start(tmp_path)
    compiled = start(tmp_path, small(compile=True))
    assert compiled.model is not compiled.policy
    for _ in range(2):
        for trainer in (plain, compiled):
            torch.manual_seed(7)
            update(trainer)
    torch.testing.assert_close(weights(compiled), weights(plain))
    for trainer in (plain, compiled):
        clean_pufferl.close(trainer)
