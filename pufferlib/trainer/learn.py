"""The steps of learning from a batch: passes, minibatches, the loss, the optimizer."""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from pufferlib.exceptions import NonFiniteError
from pufferlib.pytorch import sample_logits
from pufferlib.trainer import losses
from pufferlib.trainer.advantage import estimate_vtrace
from pufferlib.trainer.batch import Batch, Minibatch
from pufferlib.trainer.experience import Segments
from pufferlib.trainer.together import add_up, make_whole
from pufferlib.trainer.trainer import Trainer

PARTS = ("policy_loss", "value_loss", "entropy", "old_approx_kl", "approx_kl", "clipfrac")
"""What `ppo_loss` tells beside the loss."""


def anneal(trainer: Trainer, steps: int) -> None:
    """Learning rate and entropy weight, linear in `Trainer.progress`; the rate ends at zero.

    Args:
        trainer: whose optimizer is set.
        steps: of all processes' batches about to be learnt from; `global_step` has them already.
    """
    config = trainer.config
    left = max(0.0, 1.0 - trainer.agreed_progress(trainer.global_step - steps))
    for group in trainer.optimizer.param_groups:
        group["lr"] = config.learning_rate * (left if config.anneal_lr else 1.0)
    if config.ent_coef_final is not None:
        trainer.ent_coef = left * config.ent_coef + (1.0 - left) * config.ent_coef_final


@torch.no_grad()
def correct_off_policy(trainer: Trainer, segments: Segments, batch: Batch) -> NDArray[np.float32]:
    """Let `batch` have V-trace's targets for the policy as it is now; returns its returns `(S, H)`.

    Environments that are handed out as they finish leave segments open when a batch is full. Such
    a segment goes on under a policy that has learnt meanwhile.
    """
    config = trainer.config
    ratios = np.ones(segments.valid.shape, np.float32)
    for where, minibatch in batch.in_order(config.minibatch_size):
        logits, _, _ = trainer.run_policy(minibatch.observations, minibatch.state, minibatch.starts)
        logprobs = sample_logits(logits, minibatch.actions)[1]
        if minibatch.chosen is not None:
            logprobs = logprobs[minibatch.chosen]
        ratios.flat[where] = (logprobs - minibatch.logprobs).exp().float().cpu().numpy()
    advantages, returns = estimate_vtrace(
        segments.rewards,
        segments.values,
        segments.next_values,
        segments.terminals,
        segments.dones,
        segments.valid,
        ratios,
        config.gamma,
        config.gae_lambda,
        config.vtrace_rho_clip,
        config.vtrace_c_clip,
    )
    batch.set_targets(advantages, returns)
    return returns


def learn_epochs(trainer: Trainer, batch: Batch) -> dict[str, float]:
    """Every pass over the batch; means over all minibatches of all passes.

    Stops early once the mean KL divergence over a pass exceeds `target_kl`.
    """
    history: dict[str, list[Tensor]] = defaultdict(list)
    limit = trainer.config.target_kl
    for _ in range(trainer.config.update_epochs):
        passed = len(history["approx_kl"])
        minibatches = make_whole(trainer.group, _minibatches(trainer, batch))
        for group in _groups(minibatches, trainer.config.accumulate):
            for name, value in learn(trainer, group).items():
                history[name] += value
        divergences = history["approx_kl"][passed:]
        if limit is not None and divergences and torch.stack(divergences).mean() > limit:
            break
    return {name: torch.stack(values).mean().item() for name, values in history.items() if values}


def learn(trainer: Trainer, minibatches: Sequence[Minibatch]) -> dict[str, list[Tensor]]:
    """One optimizer step, by the gradient of the mean loss over all samples of `minibatches`.

    Returns:
        The parts of the loss (detached), an entry per minibatch, and the gradient's norm.

    Raises:
        NonFiniteError: the loss or a gradient is NaN or infinite; the weights are unchanged.
    """
    metrics: dict[str, list[Tensor]] = defaultdict(list)
    samples = sum(minibatch.samples for minibatch in minibatches)
    total = torch.zeros((), device=trainer.device)
    trainer.optimizer.zero_grad(set_to_none=True)
    for minibatch in minibatches:
        if not len(minibatch.advantages):  # of several processes, this one has none of its samples
            for name in PARTS:
                metrics[name].append(torch.zeros_like(total))
            continue
        loss, parts = ppo_loss(trainer, minibatch)
        loss = loss * (len(minibatch.advantages) / samples)
        loss.backward()
        total += loss.detach()
        for name, part in parts.items():
            metrics[name].append(part)
    if trainer.group.size > 1:
        total = add_up(trainer, minibatches, total, metrics)
    norm = nn.utils.clip_grad_norm_(trainer.policy.parameters(), trainer.config.max_grad_norm)
    _require_finite_step(trainer, total, norm)
    trainer.optimizer.step()
    return metrics | {"grad_norm": [norm]}


def _groups(minibatches: Iterable[Minibatch], size: int) -> Iterator[list[Minibatch]]:
    """`size` at a time. Each is cut when its turn comes: its rows are in the cache then."""
    rest = iter(minibatches)
    while group := list(itertools.islice(rest, size)):
        yield group


def _minibatches(trainer: Trainer, batch: Batch) -> Iterator[Minibatch]:
    config, count = trainer.config, _count_minibatches(trainer, batch)
    if not config.prio_alpha:
        return batch.minibatches(config.minibatch_size, count)
    # Schaul et al. 2016, section 3.4: the correction grows to its whole size by the end.
    used = min(1.0, trainer.agreed_progress(trainer.global_step - batch.steps))
    beta = config.prio_beta0 + (1.0 - config.prio_beta0) * used
    return batch.prioritized_minibatches(config.minibatch_size, config.prio_alpha, beta, count)


def _count_minibatches(trainer: Trainer, batch: Batch) -> int:
    """In a pass: as many as a single process would have for the samples of all."""
    in_segments = trainer.is_recurrent or bool(trainer.config.prio_alpha)
    items, per_part = batch.pieces(trainer.config.minibatch_size, in_segments)
    return -(-trainer.group.add_counts(len(items)) // (per_part * trainer.group.size))


def _require_finite_step(trainer: Trainer, loss: Tensor, norm: Tensor) -> None:
    if math.isfinite((loss + norm).item()):
        return
    trainer.optimizer.zero_grad(set_to_none=True)
    raise NonFiniteError(
        f"epoch {trainer.epoch}: expected a finite loss and gradient, got loss {loss.item()} and "
        f"gradient norm {norm.item()}; the weights were left as they were. Lower "
        "train.learning_rate, or check the policy for operations that overflow"
    )


def ppo_loss(trainer: Trainer, minibatch: Minibatch) -> tuple[Tensor, dict[str, Tensor]]:
    """PPO's objective on one minibatch, and its parts (detached).

        loss = policy_loss - ent_coef * entropy + vf_coef * value_loss

    Source: Schulman et al. 2017, *Proximal Policy Optimization Algorithms*, equation 9.
    """
    config = trainer.config
    logits, values, _ = trainer.run_policy(
        minibatch.observations, minibatch.state, minibatch.starts
    )
    _, logprobs, entropy = sample_logits(logits, minibatch.actions)
    if minibatch.chosen is not None:
        logprobs, entropy, values = (x[minibatch.chosen] for x in (logprobs, entropy, values))
    log_ratio = logprobs - minibatch.logprobs
    advantages = minibatch.advantages
    if config.norm_adv:
        whole = minibatch.whole
        advantages = losses.normalize(advantages, (whole.mean, whole.std) if whole else None)
    parts = {
        "policy_loss": losses.policy_loss(
            log_ratio, advantages, config.clip_coef, minibatch.weights
        ),
        "value_loss": losses.value_loss(
            values,
            minibatch.values,
            minibatch.returns,
            config.vf_clip_coef if config.clip_vloss else None,
            minibatch.weights,
        ),
        "entropy": entropy.mean(),
    }
    loss = (
        parts["policy_loss"]
        - trainer.ent_coef * parts["entropy"]
        + config.vf_coef * parts["value_loss"]
    )
    metrics = {name: part.detach() for name, part in parts.items()}
    log_ratio = log_ratio.detach()
    return loss, metrics | {
        "old_approx_kl": losses.old_approx_kl(log_ratio),
        "approx_kl": losses.approx_kl(log_ratio),
        "clipfrac": losses.clip_fraction(log_ratio, config.clip_coef),
    }
