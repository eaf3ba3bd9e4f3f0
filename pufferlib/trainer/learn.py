"""The steps of learning from a batch: passes, minibatches, the loss, the optimizer."""

from __future__ import annotations

from collections import defaultdict

import torch
from torch import Tensor, nn

from pufferlib.exceptions import NonFiniteError
from pufferlib.pytorch import sample_logits
from pufferlib.trainer import losses
from pufferlib.trainer.batch import Batch, Minibatch
from pufferlib.trainer.trainer import Trainer


def anneal_learning_rate(trainer: Trainer, steps: int) -> None:
    """Linear in `Trainer.progress`, from the configured rate to zero at the end, never below.

    Args:
        trainer: whose optimizer is set.
        steps: of the batch about to be learnt from, which are in `global_step` already.
    """
    rate = trainer.config.learning_rate
    if trainer.config.anneal_lr:
        rate *= max(0.0, 1.0 - trainer.progress(trainer.global_step - steps))
    for group in trainer.optimizer.param_groups:
        group["lr"] = rate


def learn(trainer: Trainer, minibatch: Minibatch) -> dict[str, Tensor]:
    """One optimizer step.

    Raises:
        NonFiniteError: the loss or a gradient is NaN or infinite; the weights are unchanged.
    """
    loss, metrics = ppo_loss(trainer, minibatch)
    trainer.optimizer.zero_grad(set_to_none=True)
    loss.backward()
    norm = nn.utils.clip_grad_norm_(trainer.policy.parameters(), trainer.config.max_grad_norm)
    if not torch.isfinite(loss.detach() + norm):
        trainer.optimizer.zero_grad(set_to_none=True)
        raise NonFiniteError(
            f"epoch {trainer.epoch}: expected a finite loss and gradient, got loss "
            f"{loss.item()} and gradient norm {norm.item()}; the weights were left as they were. "
            "Lower train.learning_rate, or check the policy for operations that overflow"
        )
    trainer.optimizer.step()
    return metrics | {"grad_norm": norm}


def ppo_loss(trainer: Trainer, minibatch: Minibatch) -> tuple[Tensor, dict[str, Tensor]]:
    """PPO's objective on one minibatch, and its parts (detached).

    loss = policy_loss - ent_coef * entropy + vf_coef * value_loss
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
        advantages = losses.normalize(advantages)
    parts = {
        "policy_loss": losses.policy_loss(log_ratio, advantages, config.clip_coef),
        "value_loss": losses.value_loss(
            values,
            minibatch.values,
            minibatch.returns,
            config.vf_clip_coef if config.clip_vloss else None,
        ),
        "entropy": entropy.mean(),
    }
    loss = (
        parts["policy_loss"]
        - config.ent_coef * parts["entropy"]
        + config.vf_coef * parts["value_loss"]
    )
    metrics = {name: part.detach() for name, part in parts.items()}
    log_ratio = log_ratio.detach()
    return loss, metrics | {
        "old_approx_kl": losses.old_approx_kl(log_ratio),
        "approx_kl": losses.approx_kl(log_ratio),
        "clipfrac": losses.clip_fraction(log_ratio, config.clip_coef),
    }


def learn_epochs(trainer: Trainer, batch: Batch) -> dict[str, float]:
    """Every pass over the batch; means over all minibatches of all passes.

    Stops early once the mean KL divergence over a pass exceeds `target_kl`.
    """
    history: dict[str, list[Tensor]] = defaultdict(list)
    limit = trainer.config.target_kl
    for _ in range(trainer.config.update_epochs):
        passed = len(history["approx_kl"])
        for minibatch in batch.minibatches(trainer.config.minibatch_size):
            for name, value in learn(trainer, minibatch).items():
                history[name].append(value)
        divergences = history["approx_kl"][passed:]
        if limit is not None and divergences and torch.stack(divergences).mean() > limit:
            break
    return {name: torch.stack(values).mean().item() for name, values in history.items() if values}
