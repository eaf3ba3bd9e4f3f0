"""Memory by minimal gated recurrent units, whose training is parallel over time."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from pufferlib.models.recurrent import RecurrentWrapper, State
from pufferlib.pytorch import layer_init

TIME_SCALE = 8
"""Before training a unit's memory fades within 2 to so many steps."""


class MinGRUWrapper(RecurrentWrapper):
    """Puts minGRU layers between a policy's encoder and its decoder; the state is `(h,)`.

        z_t = sigmoid(W_z x_t + b_z);   h_t = (1 - z_t) h_{t-1} + z_t (W_h x_t + b_h)

    The gate does not look at the state, so all steps of a segment are one linear recurrence. All
    that is left to do step by step, and not even that on a GPU, are products of elements: `scan`.
    Source: Feng et al. 2024, *Were RNNs All We Needed?*, section 3.1.

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
        self.layers = nn.ModuleList(_make_layer(size, hidden_size) for size in sizes)

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


def _make_layer(inputs: int, width: int) -> nn.Linear:
    """Gate and candidate by one product; the gates begin with many time scales.

        b_z = -log(U(1, TIME_SCALE - 1)), so that 1 / sigmoid(b_z) is uniform over 2 … TIME_SCALE

    Source: Tallec and Ollivier 2018, *Can Recurrent Neural Networks Warp Time?*, section 2.
    """
    layer: nn.Linear = layer_init(nn.Linear(inputs, 2 * width), std=1.0)
    with torch.no_grad():
        layer.bias[:width].uniform_(1, TIME_SCALE - 1).log_().neg_()
    return layer


def scan(keep: Tensor, add: Tensor, before: Tensor) -> Tensor:
    """Solve `h_t = keep_t h_{t-1} + add_t` for all steps.

    Args:
        keep, add: `(T, …)`.
        before: `(…)`, the state before the first step.

    Returns:
        `(T, …)`.
    """
    if len(keep) == 1:
        return torch.addcmul(add, keep, before)
    if keep.device.type == "cpu":
        solved: Tensor = Recurrence.apply(keep, add, before)
        return solved
    return scan_by_doubling(keep, add, before)


def scan_by_doubling(keep: Tensor, add: Tensor, before: Tensor) -> Tensor:
    """`scan` without a loop over time, for devices that compute all steps of a round at once.

    In round k every step takes in the 2^k steps before it, so that log2(T) rounds of elementwise
    products do. Source: Hillis and Steele 1986, *Data Parallel Algorithms*.
    """
    add = torch.cat((torch.addcmul(add[:1], keep[:1], before), add[1:]))
    reach = 1
    while reach < len(keep):
        add = torch.cat((add[:reach], torch.addcmul(add[reach:], keep[reach:], add[:-reach])))
        keep = torch.cat((keep[:reach], keep[reach:] * keep[:-reach]))
        reach *= 2
    return add


class Recurrence(torch.autograd.Function):
    """`scan` step by step, forwards and, for the gradient, backwards.

    A few cores have nothing to gain from doing log2(T) times the work side by side, and the rows
    of one step stay in their caches:

        dL/dh_t = g_t + keep_{t+1} dL/dh_{t+1};   dL/dadd_t = dL/dh_t
        dL/dkeep_t = h_{t-1} dL/dh_t;             dL/dbefore = keep_0 dL/dh_0
    """

    @staticmethod
    def forward(ctx: Any, keep: Tensor, add: Tensor, before: Tensor) -> Tensor:
        """All states `(T, …)`."""
        states = torch.empty_like(add)
        state = before
        for kept, added, out in zip(keep.unbind(), add.unbind(), states.unbind(), strict=True):
            state = torch.addcmul(added, kept, state, out=out)
        ctx.save_for_backward(keep, states, before)
        return states

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The gradients of `keep`, `add` and `before`, from those of the states."""
        keep, states, before = ctx.saved_tensors
        total = grad.clone()
        steps = total.unbind()
        for kept, after, step in zip(
            keep.unbind()[:0:-1], steps[:0:-1], steps[-2::-1], strict=True
        ):
            step.addcmul_(kept, after)
        of_keep = torch.cat((total[:1] * before, total[1:] * states[:-1]))
        return of_keep, total, keep[0] * total[0]
