"""Every term against numbers worked out by hand."""

import math

import numpy as np
import pytest
import torch

from pufferlib.trainer import losses


def test_normalized_advantages():
    # mean 2, population variance (1 + 1 + 0 + 0) / 4 = 0.5
    normal = losses.normalize(torch.tensor([1.0, 3.0, 2.0, 2.0]))
    torch.testing.assert_close(normal, torch.tensor([-1.0, 1.0, 0.0, 0.0]) * math.sqrt(2))


@pytest.mark.parametrize("values", [[5.0], [2.0, 2.0]])
def test_one_sample_or_equal_ones_normalize_to_zero(values):
    assert losses.normalize(torch.tensor(values)).tolist() == [0.0] * len(values)


@pytest.mark.smoke
def test_policy_loss_takes_the_pessimistic_branch():
    # ratios 1.5, 0.5, 1.5, 0.5 with advantages 1, 1, -1, -1 and clip 0.2:
    # -min(1.5, 1.2) = -1.2; -min(0.5, 0.8) = -0.5; max(1.5, 1.2) = 1.5; max(0.5, 0.8) = 0.8
    log_ratio = torch.log(torch.tensor([1.5, 0.5, 1.5, 0.5]))
    loss = losses.policy_loss(log_ratio, torch.tensor([1.0, 1.0, -1.0, -1.0]), 0.2)
    assert loss.item() == pytest.approx((-1.2 - 0.5 + 1.5 + 0.8) / 4)


def test_policy_gradient_vanishes_beyond_the_clip():
    log_ratio = torch.log(torch.tensor([1.5, 1.1])).requires_grad_()
    losses.policy_loss(log_ratio, torch.ones(2), 0.2).backward()
    torch.testing.assert_close(log_ratio.grad, torch.tensor([0.0, -1.1 / 2]))


def test_value_loss_with_and_without_clip():
    values, old, returns = (
        torch.tensor([3.0, 0.0]),
        torch.tensor([1.0, 0.1]),
        torch.tensor([4.0, 1.0]),
    )
    # unclipped: (1 + 1) / 2 / 2; clipped at 0.5: V = [1.5, 0.0], errors max(1, 6.25), max(1, 1)
    assert losses.value_loss(values, old, returns, None).item() == pytest.approx(0.5)
    assert losses.value_loss(values, old, returns, 0.5).item() == pytest.approx(7.25 / 4)


def test_weights_scale_each_sample():
    ones = torch.ones(2)
    log_ratio, advantages = torch.zeros(2), torch.tensor([1.0, 3.0])
    weights = torch.tensor([1.0, 0.5])
    assert losses.policy_loss(log_ratio, advantages, 0.2, weights).item() == -(1 + 1.5) / 2
    returns = torch.tensor([3.0, 5.0])  # errors 4 and 16
    assert losses.value_loss(ones, ones, returns, None, weights).item() == (4 + 8) / 2 / 2


def test_divergences():
    log_ratio = torch.log(torch.tensor([2.0, 0.5]))
    assert losses.old_approx_kl(log_ratio).item() == pytest.approx(0.0)
    assert losses.approx_kl(log_ratio).item() == pytest.approx(
        (1 - math.log(2) - 0.5 + math.log(2)) / 2
    )
    assert losses.approx_kl(torch.zeros(3)).item() == 0.0


def test_clip_fraction_counts_what_lies_outside():
    log_ratio = torch.log(torch.tensor([1.0, 1.3, 0.75, 1.05]))
    assert losses.clip_fraction(log_ratio, 0.2).item() == 0.5


def test_explained_variance():
    returns = np.array([1, 2, 3, 4], np.float32)
    assert losses.explained_variance(returns, returns) == 1.0
    assert losses.explained_variance(np.full(4, 2.5, np.float32), returns) == 0.0
    assert losses.explained_variance(-returns, returns) == pytest.approx(1 - 4)
    # errors 0, 0, 0, 2: variance 0.75 against 1.25
    assert losses.explained_variance(np.array([1, 2, 3, 2], np.float32), returns) == pytest.approx(
        0.4
    )


@pytest.mark.parametrize("returns", [[], [3.0], [2.0, 2.0]])
def test_explained_variance_is_absent_where_it_is_undefined(returns):
    returns = np.array(returns, np.float32)
    assert losses.explained_variance(returns * 0, returns) is None
