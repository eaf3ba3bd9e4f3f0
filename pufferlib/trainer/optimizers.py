"""The optimizers: Adam, AdamW, and Muon beside AdamW, all of torch."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol

import torch
from torch import nn

from pufferlib.models import ActionHead
from pufferlib.trainer.config import TrainConfig


class Optimizer(Protocol):
    """What the trainer asks of an optimizer."""

    @property
    def param_groups(self) -> list[dict[str, Any]]:
        """Groups of parameters, each with its learning rate `lr`."""

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget the gradients."""

    def step(self) -> Any:
        """Move the parameters by their gradients."""

    def state_dict(self) -> dict[str, Any]:
        """What `load_state_dict` takes."""

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on from a state."""


class Optimizers:
    """Several optimizers, each with parameters of its own, as one.

    Raises (from `load_state_dict`):
        ValueError: the state is that of another number of optimizers.
    """

    def __init__(self, parts: Iterable[torch.optim.Optimizer]) -> None:
        self._parts = list(parts)

    @property
    def param_groups(self) -> list[dict[str, Any]]:
        """Those of all parts."""
        return [group for part in self._parts for group in part.param_groups]

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget the gradients."""
        for part in self._parts:
            part.zero_grad(set_to_none)

    def step(self) -> None:
        """One step of every part."""
        for part in self._parts:
            part.step()

    def state_dict(self) -> dict[str, Any]:
        """The states of the parts, in order."""
        return {"parts": [part.state_dict() for part in self._parts]}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on from a state."""
        states = state_dict.get("parts", ())
        if len(states) != len(self._parts):
            raise ValueError(f"expected {len(self._parts)} optimizers, got {len(states)}")
        for part, state in zip(self._parts, states, strict=True):
            part.load_state_dict(state)


def make_optimizer(config: TrainConfig, policy: nn.Module, device: torch.device) -> Optimizer:
    """The optimizer that `config` names, over all parameters of `policy`.

    Muon is for matrices between hidden layers (Jordan et al. 2024, *Muon: An optimizer for hidden
    layers in neural networks*): embeddings, action and value heads, convolutions and vectors go
    to AdamW. Its steps are scaled to the size of AdamW's (Liu et al. 2025, *Muon is Scalable for
    LLM Training*), so that one learning rate serves both.
    """
    parameters = [weight for weight in policy.parameters() if weight.requires_grad]
    if config.optimizer != "muon":
        return _adam(config, parameters, device)
    matrices = _hidden_matrices(policy)
    chosen = {id(weight) for weight in matrices}
    others = [weight for weight in parameters if id(weight) not in chosen]
    parts: list[torch.optim.Optimizer] = [_adam(config, others, device)] if others else []
    if matrices:
        parts.append(
            torch.optim.Muon(
                matrices,
                lr=config.learning_rate,
                weight_decay=config.weight_decay,
                adjust_lr_fn="match_rms_adamw",
            )
        )
    return Optimizers(parts)


def _adam(
    config: TrainConfig, parameters: list[nn.Parameter], device: torch.device
) -> torch.optim.Optimizer:
    fused = device.type in ("cpu", "cuda")
    rate = config.learning_rate
    if config.optimizer == "adam":
        return torch.optim.Adam(parameters, lr=rate, eps=1e-5, fused=fused)
    decay = config.weight_decay
    return torch.optim.AdamW(parameters, lr=rate, eps=1e-5, weight_decay=decay, fused=fused)


def _hidden_matrices(policy: nn.Module) -> list[nn.Parameter]:
    """Weights with two dimensions, but those of embeddings and of heads.

    A head is an `ActionHead`, or a layer with a single output, as values have.
    """
    left_out: set[int] = set()
    for module in policy.modules():
        is_value = isinstance(module, nn.Linear) and module.out_features == 1
        if is_value or isinstance(module, nn.Embedding | nn.EmbeddingBag | ActionHead):
            left_out |= {id(weight) for weight in module.parameters()}
    return [
        weight
        for weight in policy.parameters()
        if weight.requires_grad and weight.ndim == 2 and id(weight) not in left_out
    ]
