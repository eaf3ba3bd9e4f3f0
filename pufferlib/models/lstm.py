"""Memory by a long short-term memory."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from pufferlib.models.recurrent import RecurrentWrapper, State

LSTM_WEIGHTS = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")


class LSTMWrapper(RecurrentWrapper):
    """Puts an LSTM between a policy's encoder and its decoder; the state is `(h, c)`.

    Arguments, and what is raised, are those of `RecurrentWrapper`.
    """

    parts = 2

    def __init__(
        self,
        env: Any,
        policy: nn.Module,
        input_size: int = 128,
        hidden_size: int = 128,
        num_layers: int = 1,
    ) -> None:
        super().__init__(env, policy, input_size, hidden_size, num_layers)
        self.recurrent = nn.LSTM(input_size, hidden_size, num_layers)
        for name, parameter in self.recurrent.named_parameters():
            if "bias" in name:
                nn.init.zeros_(parameter)
            else:
                nn.init.orthogonal_(parameter, 1.0)

    def recur(self, hidden: Tensor, state: State, starts: Tensor | None) -> tuple[Tensor, State]:
        """Run the LSTM over `(T, B, input_size)`; `starts` is `(T, B)`."""
        if starts is None:
            return self.recurrent(hidden, state)
        if torch.compiler.is_exporting():  # the fused LSTM would fix the batch size of the graph
            return self._recur_stepwise(hidden, state, list(starts))
        if len(hidden) == 1:  # acting: no look at the data, so nothing to wait for on a GPU
            return self.recurrent(hidden, _zero_where(starts[0], state))
        has_start = starts.any(1).tolist()
        if not any(has_start[1:]):
            return self.recurrent(hidden, _zero_where(starts[0], state))
        resets = [row if any_row else None for row, any_row in zip(starts, has_start, strict=True)]
        return self._recur_stepwise(hidden, state, resets)

    def _recur_stepwise(
        self, hidden: Tensor, state: State, resets: list[Tensor | None]
    ) -> tuple[Tensor, State]:
        """Run the layers with a Python loop over time, for `resets` see `_run_layer`."""
        last: list[State] = []
        for layer in range(self.recurrent.num_layers):
            layer_state = tuple(part[layer] for part in state)
            hidden, layer_state = _run_layer(self.recurrent, layer, hidden, layer_state, resets)
            last.append(layer_state)
        return hidden, tuple(torch.stack(parts) for parts in zip(*last, strict=True))


def _run_layer(
    lstm: nn.LSTM,
    layer: int,
    inputs: Tensor,
    state: State,
    resets: list[Tensor | None],
) -> tuple[Tensor, State]:
    """One layer of `lstm`, forgetting its state where it is told to.

        i, f, g, o = W_ih x_t + b_ih + W_hh h_{t-1} + b_hh
        c_t = sigmoid(f) c_{t-1} + sigmoid(i) tanh(g);   h_t = sigmoid(o) tanh(c_t)

    A call of `nn.LSTM` per stretch between resets would do as well, but takes twice as long where
    they are frequent. Here all inputs are multiplied at once, which leaves one product per step.
    Source of the equations: the documentation of `torch.nn.LSTM`.

    Args:
        lstm: whose weights are used.
        layer: which of its layers.
        inputs: `(T, B, …)`.
        state: `(h, c)`, each `(B, hidden_size)`.
        resets: for each step None, or bool `(B,)`: the rows whose state is zeroed before it.

    Returns:
        `(T, B, hidden_size)`, and the state after the last step.
    """
    w_ih, w_hh, b_ih, b_hh = (getattr(lstm, f"{name}_l{layer}") for name in LSTM_WEIGHTS)
    from_inputs = nn.functional.linear(inputs, w_ih, b_ih + b_hh)
    hidden, cell = state
    outputs = []
    for gates, rows in zip(from_inputs.unbind(0), resets, strict=True):
        if rows is not None:
            hidden, cell = (part.masked_fill(rows[:, None], 0) for part in (hidden, cell))
        i, f, g, o = torch.addmm(gates, hidden, w_hh.T).chunk(4, dim=-1)
        cell = f.sigmoid() * cell + i.sigmoid() * g.tanh()
        hidden = o.sigmoid() * cell.tanh()
        outputs.append(hidden)
    return torch.stack(outputs), (hidden, cell)


def _zero_where(starts: Tensor, state: State) -> State:
    """The state with zeros for the rows where `starts` `(B,)` is true."""
    return tuple(part.masked_fill(starts[None, :, None], 0) for part in state)
