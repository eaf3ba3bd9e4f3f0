"""The terms of PPO's objective and its diagnostics. Pure functions over valid samples.

Every tensor is one-dimensional, one element per sample. Samples that do not count are left out
before these functions are called, not multiplied by zero: 0 * inf would be NaN in the gradient.

Source, where no other is named: Schulman et al. 2017, *Proximal Policy Optimization Algorithms*.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor


def normalize(advantages: Tensor, moments: tuple[float, float] | None = None) -> Tensor:
    """`(A - mean) / (std + 1e-8)` over the minibatch, with the population's std.

    A single sample or equal ones give zeros. Source: OpenAI Baselines, `ppo2/model.py`.

    Args:
        advantages: one per sample.
        moments: mean and std, where these samples are only a part of the minibatch.
    """
    if moments is not None:
        return (advantages - moments[0]) / (moments[1] + 1e-8)
    centred = advantages - advantages.mean()
    return centred / (centred.square().mean().sqrt() + 1e-8)


def policy_loss(
    log_ratio: Tensor, advantages: Tensor, clip_coef: float, weights: Tensor | None = None
) -> Tensor:
    """The clipped surrogate objective, negated (equation 7).

        ratio = pi(a|s) / pi_old(a|s);   loss = -mean(min(A ratio, A clip(ratio, 1 ± c)))

    Args:
        log_ratio: new minus old log-probability of each sample.
        advantages: one per sample, normalized or not.
        clip_coef: c.
        weights: one per sample, where samples were drawn more often than others.
    """
    assert log_ratio.shape == advantages.shape, (log_ratio.shape, advantages.shape)
    ratio = log_ratio.exp()
    clipped = ratio.clamp(1 - clip_coef, 1 + clip_coef)
    return -_mean(torch.minimum(advantages * ratio, advantages * clipped), weights)


def value_loss(
    values: Tensor,
    old_values: Tensor,
    returns: Tensor,
    clip_coef: float | None,
    weights: Tensor | None = None,
) -> Tensor:
    """Half the mean squared error of the critic, with its step clipped unless `clip_coef` is None.

        loss = mean(max((V - R)², (V_old + clip(V - V_old, ± c) - R)²)) / 2

    Source of the clipping: OpenAI Baselines, `ppo2/model.py`.
    """
    assert values.shape == old_values.shape == returns.shape, (values.shape, returns.shape)
    error = (values - returns).square()
    if clip_coef is not None:
        clipped = old_values + (values - old_values).clamp(-clip_coef, clip_coef)
        error = torch.maximum(error, (clipped - returns).square())
    return 0.5 * _mean(error, weights)


def _mean(losses: Tensor, weights: Tensor | None) -> Tensor:
    """The mean over samples, each times its weight; the weights need not have a mean of 1."""
    return losses.mean() if weights is None else (weights * losses).mean()


def approx_kl(log_ratio: Tensor) -> Tensor:
    """KL(old ‖ new), estimated as `mean(ratio - 1 - log ratio)`: unbiased, never negative.

    Source: Schulman 2020, *Approximating KL Divergence*, the estimator k3.
    """
    return (torch.expm1(log_ratio) - log_ratio).mean()


def old_approx_kl(log_ratio: Tensor) -> Tensor:
    """KL(old ‖ new), estimated as `mean(-log ratio)`: unbiased, noisy (Schulman 2020, k1)."""
    return (-log_ratio).mean()


def clip_fraction(log_ratio: Tensor, clip_coef: float) -> Tensor:
    """The fraction of samples whose ratio lies outside the clip range."""
    return ((log_ratio.exp() - 1).abs() > clip_coef).float().mean()


def explained_variance(values: NDArray[np.float32], returns: NDArray[np.float32]) -> float | None:
    """`1 - Var(R - V) / Var(R)`: 1 for a perfect critic, 0 for a constant one.

    None where it is not defined, that is, when the returns do not vary.
    """
    variance = float(np.var(returns, dtype=np.float64)) if returns.size else 0.0
    if variance == 0:
        return None
    return 1 - float(np.var(returns - values, dtype=np.float64)) / variance
