"""Memory by minimal gated recurrent units, whose training is parallel over time."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from pufferlib.models.recurrent import RecurrentWrapper, State
from pufferlib.pytorch import layer_init


class MinGRUWrapper(RecurrentWrapper):
    """Puts minGRU layers between a policy's encoder and its decoder; the state is `(h,)`.

        z_t = sigmoid(W_z x_t + b_z);   h_t = (1 - z_t) h_{t-1} + z_t (W_h x_t + b_h)

    The gate does not look at the state, so all steps of a segment are one linear recurrence, which
    `scan` solves without a loop over time. Source: Feng et al. 2024, *Were RNNs All We Needed?*,
    section 3.1.

    Arguments, and what is raised, are those of `RecurrentWrapper`.
    """

    parts = 1

    def __init__(
        self,
        env: Any,
        policy: nn.Module,
        input_size: int = 128,
        hidden_size: int = 128,
        num_layers: int = 1,
    ) -> None:
        super().__init__(env, policy, input_size, hidden_size, num_layers)
        sizes = [input_size] + [hidden_size] * (num_layers - 1)
        # Gate and candidate by one product.
        self.layers = nn.ModuleList(
            layer_init(nn.Linear(size, 2 * hidden_size), std=1.0) for size in sizes
        )

    def recur(self, hidden: Tensor, state: State, starts: Tensor | None) -> tuple[Tensor, State]:
        """Run the layers over `(T, B, input_size)`; `starts` is bool `(T, B)`."""
        last = []
        for layer, before in zip(self.layers, state[0], strict=True):
            gate, candidate = layer(hidden).chunk(2, dim=-1)
            update = gate.sigmoid()
            keep = 1 - update
            if starts is not None:
                keep = keep.masked_fill(starts.unsqueeze(-1), 0)
            hidden = scan(keep, update * candidate, before)
            last.append(hidden[-1])
        return hidden, (torch.stack(last),)


def scan(keep: Tensor, add: Tensor, before: Tensor) -> Tensor:
    """Solve `h_t = keep_t h_{t-1} + add_t` for all steps at once.

    In round k every step takes in the 2^k steps before it, so that log2(T) rounds of elementwise
    products do. Source: Hillis and Steele 1986, *Data Parallel Algorithms*.

    Args:
        keep, add: `(T, …)`.
        before: `(…)`, the state before the first step.

    Returns:
        `(T, …)`.
    """
    if len(keep) == 1:
        return torch.addcmul(add, keep, before)
    add = torch.cat((torch.addcmul(add[:1], keep[:1], before), add[1:]))
    reach = 1
    while reach < len(keep):
        add = torch.cat((add[:reach], torch.addcmul(add[reach:], keep[reach:], add[:-reach])))
        keep = torch.cat((keep[:reach], keep[reach:] * keep[:-reach]))
        reach *= 2
    return add
