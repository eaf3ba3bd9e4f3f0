"""How the minibatches of several processes become one minibatch, and their gradients one step."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from pufferlib.trainer.batch import Minibatch, Whole
from pufferlib.trainer.distributed import Group, add_gradients
from pufferlib.trainer.trainer import Trainer


def make_whole(group: Group, minibatches: Iterable[Minibatch]) -> Iterable[Minibatch]:
    """Let each minibatch know how many samples its whole has, and their advantages' mean and std.

    Args:
        group: whose processes all have as many minibatches.
        minibatches: of one pass; one exchange serves them all.
    """
    if group.size == 1:
        return minibatches
    minibatches = list(minibatches)
    if not minibatches:
        return minibatches
    sums = group.add_up(torch.stack([_sums(minibatch.advantages) for minibatch in minibatches]))
    return [
        replace(minibatch, whole=_whole(*row))
        for minibatch, row in zip(minibatches, sums.tolist(), strict=True)
    ]


def _sums(advantages: Tensor) -> Tensor:
    """Count, sum and sum of squares `(3,)`; in float64, whose digits a difference may use up."""
    exact = advantages.double()
    count = torch.full((), len(advantages), dtype=torch.float64, device=advantages.device)
    return torch.stack([count, exact.sum(), exact.square().sum()]).cpu()


def _whole(count: float, total: float, squares: float) -> Whole:
    mean = total / count
    return Whole(int(count), mean, max(0.0, squares / count - mean**2) ** 0.5)


def add_up(
    trainer: Trainer,
    minibatches: Sequence[Minibatch],
    loss: Tensor,
    metrics: Mapping[str, list[Tensor]],
) -> Tensor:
    """One exchange before an optimizer step: gradients, loss and metrics of all processes.

    Args:
        trainer: whose policy has the gradients of this process's samples.
        minibatches: whose samples these are.
        loss: of this process's samples, scaled as their gradients are; scalar.
        metrics: means over the samples of each minibatch, which become those over its whole.

    Returns:
        The loss over all.
    """
    shares = [len(minibatch.advantages) / minibatch.samples for minibatch in minibatches]
    weights = torch.tensor(shares, device=loss.device)
    names = sorted(metrics)
    means = [torch.stack(metrics[name]) * weights for name in names]
    numbers = torch.cat([loss[None], *means])
    numbers = add_gradients(trainer.group, trainer.policy.parameters(), numbers)
    rows = numbers[1:].split(len(minibatches))
    for name, row in zip(names, rows, strict=True):
        metrics[name][:] = row.unbind()
    return numbers[0]
