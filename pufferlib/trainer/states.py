"""The memory of recurrent policies: one state per agent, and the one each segment began with."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

State = tuple[Tensor, ...]
NOBODY = np.empty(0, np.int64)


class RecurrentStates:
    """States as the policy returns them, tensors `(layers, B, …)`; allocated on first use.

    Args:
        num_agents: agents of all environments together.
        num_slots: segments that can be stored; none where nothing is learnt.
    """

    def __init__(self, num_agents: int, num_slots: int) -> None:
        self._everyone = np.arange(num_agents)
        self._num_slots = num_slots
        self._agents: State | None = None
        self._segments: State | None = None

    def clear(self) -> None:
        """Forget every state."""
        self._agents = self._segments = None

    def get(self) -> State | None:
        """The states of all agents, a copy; None before the first step."""
        return None if self._agents is None else tuple(part.clone() for part in self._agents)

    def set(self, state: State | None, device: torch.device) -> None:
        """The inverse of `get`, where no segment has begun."""
        self.clear()
        if state is not None:
            self._agents = tuple(part.to(device, copy=True) for part in state)
            self._segments = _zeros_like(self._agents, self._num_slots)

    def of(self, agents: NDArray[np.int64]) -> State | None:
        """The states `(layers, B, …)` of these agents; None (all zeros) before the first step."""
        if self._agents is None or self._is_everyone(agents):
            return self._agents
        return _select(self._agents, agents)

    def at(self, slots: NDArray[np.int64]) -> State:
        """The states `(layers, S, …)` that the segments in these slots began with."""
        assert self._segments is not None
        return _select(self._segments, slots)

    def advance(
        self,
        agents: NDArray[np.int64],
        state: State,
        newcomers: NDArray[np.int64] = NOBODY,
        slots: NDArray[np.int64] = NOBODY,
    ) -> None:
        """Note that `agents` are in `state` now, and where new segments began before it.

        Args:
            agents: those that acted.
            state: theirs, after the row they acted on.
            newcomers: those among them whose segment began with that row.
            slots: where that segment is stored.
        """
        if self._agents is None or self._segments is None:
            self._agents = _zeros_like(state, len(self._everyone))
            self._segments = _zeros_like(state, self._num_slots)
        if len(slots):
            _put(self._segments, slots, _select(self._agents, newcomers))
        if self._is_everyone(agents):
            for part, value in zip(self._agents, state, strict=True):
                part.copy_(value)
        else:
            _put(self._agents, agents, state)

    def _is_everyone(self, agents: NDArray[np.int64]) -> bool:
        return len(agents) == len(self._everyone) and bool((agents == self._everyone).all())


def _zeros_like(state: State, rows: int) -> State:
    return tuple(part.new_zeros(part.shape[0], rows, *part.shape[2:]) for part in state)


def _select(state: State, rows: NDArray[np.int64]) -> State:
    return tuple(part.index_select(1, _index(rows, part)) for part in state)


def _put(state: State, rows: NDArray[np.int64], values: State) -> None:
    for part, value in zip(state, values, strict=True):
        part.index_copy_(1, _index(rows, part), value)


def _index(rows: NDArray[np.int64], part: Tensor) -> Tensor:
    return torch.from_numpy(rows).to(part.device)
