"""What the recurrent wrappers share: shapes, states, and the policy around the memory."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from typing import Any

from torch import Tensor, nn

from pufferlib.exceptions import APIUsageError
from pufferlib.models.masked import with_lookup
from pufferlib.pytorch import Logits

State = tuple[Tensor, ...]


def is_recurrent(policy: nn.Module) -> bool:
    """Whether `policy.forward` has the recurrent interface, that is, an argument `starts`."""
    return "starts" in inspect.signature(policy.forward).parameters


class RecurrentWrapper(nn.Module, ABC):
    """Puts a memory between a policy's encoder and its decoder.

    Args:
        env: anything with `single_observation_space`.
        policy: a module with `encode_observations` and `decode_actions`.
        input_size: width of what the policy's encoder returns.
        hidden_size: width of the memory; what the policy's decoder expects.
        num_layers: stacked layers of memory.

    Raises:
        APIUsageError: the policy lacks one of the two methods.
    """

    parts: int
    """Tensors in a state, each `(num_layers, B, hidden_size)`."""

    def __init__(
        self,
        env: Any,
        policy: nn.Module,
        input_size: int = 128,
        hidden_size: int = 128,
        num_layers: int = 1,
    ) -> None:
        super().__init__()
        for method in ("encode_observations", "decode_actions"):
            if not hasattr(policy, method):
                raise APIUsageError(
                    f"{type(self).__name__}: expected a policy with encode_observations and "
                    f"decode_actions, but {type(policy).__name__} has no {method}; split its "
                    "forward in two"
                )
        self.observation_shape = tuple(env.single_observation_space.shape)
        self.policy: Any = policy
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.num_layers = num_layers

    @abstractmethod
    def recur(self, hidden: Tensor, state: State, starts: Tensor | None) -> tuple[Tensor, State]:
        """Run the memory over `(T, B, input_size)`; `starts` is bool `(T, B)`.

        Returns:
            `(T, B, hidden_size)`, and the state after the last step.
        """

    def forward(
        self, observations: Tensor, state: State | None = None, starts: Tensor | None = None
    ) -> tuple[Logits, Tensor, State]:
        """Act on one row per agent, or on a whole segment per agent.

        Args:
            observations: `(B, *observation_shape)` or `(B, T, *observation_shape)`.
            state: `parts` tensors `(num_layers, B, hidden_size)`; None is all zeros.
            starts: bool `(B,)` or `(B, T)`, true where a row begins a life: the state is zeroed
                before that row. None is nowhere.

        Returns:
            logits and value `(B, 1)`; for segments the rows are flattened to `(B * T, …)`, the
            steps of one agent side by side. Then the state after the last row.

        Raises:
            APIUsageError: a shape does not fit the observation space or the other arguments.
        """
        batch, steps = self._split_shape(observations)
        rows = observations.reshape(batch * steps, *self.observation_shape)
        hidden, lookup = with_lookup(self.policy.encode_observations(rows))
        # Time-major inside: that is the layout that torch computes in.
        hidden = hidden.reshape(batch, steps, self.input_size).transpose(0, 1)
        state = self._initial_state(batch, hidden) if state is None else state
        self._check_batch(state, starts, batch, steps)
        starts = None if starts is None else starts.reshape(batch, steps).T
        hidden, state = self.recur(hidden, state, starts)
        hidden = hidden.transpose(0, 1).reshape(batch * steps, self.hidden_size)
        logits, value = self.policy.decode_actions(hidden, lookup)
        return logits, value, state

    def _split_shape(self, observations: Tensor) -> tuple[int, int]:
        shape, extra = observations.shape, observations.ndim - len(self.observation_shape)
        if extra not in (1, 2) or shape[extra:] != self.observation_shape:
            row = ", ".join(str(n) for n in self.observation_shape)
            raise APIUsageError(
                f"observations: expected shape (B, {row}) or (B, T, {row}), got {tuple(shape)}"
            )
        return shape[0], shape[1] if extra == 2 else 1

    def _initial_state(self, batch: int, hidden: Tensor) -> State:
        zeros = hidden.new_zeros(self.num_layers, batch, self.hidden_size)
        return (zeros,) * self.parts

    def _check_batch(self, state: State, starts: Tensor | None, batch: int, steps: int) -> None:
        shape = (self.num_layers, batch, self.hidden_size)
        for part in state:
            if part.shape != shape:
                raise APIUsageError(f"state: expected shape {shape}, got {tuple(part.shape)}")
        if starts is not None and starts.numel() != batch * steps:
            raise APIUsageError(
                f"starts: expected shape {(batch, steps)}, got {tuple(starts.shape)}"
            )
