"""What the agents lived through, in segments: storage that is allocated once.

A segment is `H` transitions of one agent, that is, `H + 1` rows. Its last row is only looked at
for the reward, flags, mask and value it brings; the same row is row 0 of the agent's next
segment. Each agent fills the slot of its open segment at its own pace, so that a vectorized
environment may deliver its agents in any order and at different rates. A full segment waits until
there are enough of them for a batch.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from pufferlib.spaces import Space, is_discrete, is_multidiscrete, row_layout
from pufferlib.trainer.acceleration import host_zeros
from pufferlib.trainer.advantage import Bools, Floats, estimate_advantages, valid_transitions

Index = tuple[Any, Any]
UNASSIGNED = -1
NOBODY = np.empty(0, np.int64)


@dataclass(frozen=True, slots=True)
class Rows:
    """What one `recv` delivered; live views, valid until the next `send`.

    Attributes:
        agents: int `(B,)`, the agent that each row belongs to.
        observations: `(B, *observation_shape)`.
        rewards: float32 `(B,)`.
        terminals, truncations, masks: bool `(B,)`.
        final_observations: `(B, *observation_shape)` from environments that reset in the same step.
        where: `agents` as an index; a slice, which is several times faster, where they are
            neighbours in order.
    """

    agents: NDArray[np.int64]
    observations: NDArray[Any]
    rewards: Floats
    terminals: Bools
    truncations: Bools
    masks: Bools
    final_observations: NDArray[Any] | None = None
    where: Any = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "where", _run_of(self.agents) or self.agents)

    @property
    def dones(self) -> Bools:
        """Bool `(B,)`: the row is the last of its episode."""
        return self.terminals | self.truncations


@dataclass(frozen=True, slots=True)
class Choice:
    """What the policy made of the rows.

    Attributes:
        actions: `(B, *action_shape)`, as sampled.
        logprobs: float32 `(B,)`.
        values: float32 `(B,)`, of the observations.
        next_values: float32 `(B,)`, of the observation that the agent's last action led to: the
            same, but the final observation's where the environment has reset already.
        starts: bool `(B,)`, the row begins a life.
        state: recurrent state after the rows, or None.
    """

    actions: NDArray[Any]
    logprobs: Floats
    values: Floats
    next_values: Floats
    starts: Bools
    state: tuple[torch.Tensor, ...] | None = None


@dataclass(frozen=True, slots=True)
class Segments:
    """`S` full segments of `H` transitions, as arrays; see `Batch` for the tensors.

    Attributes:
        slots: `(S,)`, where the segments are stored.
        agents: `(S,)`, whose they are.
        first_steps: `(S,)`, how many rows the agent had seen before row 0.
        observations, actions: `(S, H, …)`.
        logprobs, values, next_values, rewards, advantages: float32 `(S, H)`; `rewards` and
            `next_values` are those that the transition led to.
        starts, valid, terminals, dones: bool `(S, H)`; the last two are those that the transition
            led to.
    """

    slots: NDArray[np.int64]
    agents: NDArray[np.int64]
    first_steps: NDArray[np.int64]
    observations: NDArray[Any]
    actions: NDArray[Any]
    logprobs: Floats
    values: Floats
    next_values: Floats
    rewards: Floats
    advantages: Floats
    starts: Bools
    valid: Bools
    terminals: Bools
    dones: Bools


class Experience:
    """Preallocated segments and the bookkeeping of who writes where.

    Args:
        observation_space, action_space: of one agent.
        num_agents: agents of all environments together.
        horizon: transitions in a segment, `H`.
        segments: full segments that make a batch.
        in_step: every `recv` brings all agents, so that they fill their segments together.
        same_step: the environments reset in the step that ends an episode.
        pinned: allocate what a GPU reads in page-locked memory.
    """

    def __init__(
        self,
        observation_space: Space[Any],
        action_space: Space[Any],
        num_agents: int,
        horizon: int,
        segments: int,
        in_step: bool,
        same_step: bool = False,
        pinned: bool = False,
    ) -> None:
        self.horizon = horizon
        self.segments = segments
        self.same_step = same_step
        self.num_slots = _slots_needed(num_agents, segments, in_step)
        slots = self.num_slots
        observation_shape, observation_dtype = row_layout(observation_space)
        zeros = functools.partial(host_zeros, pinned=pinned)
        self.observations = zeros((slots, horizon, *observation_shape), observation_dtype)
        is_choice = is_discrete(action_space) or is_multidiscrete(action_space)
        action_dtype = np.int64 if is_choice else np.float32
        self.actions = zeros((slots, horizon, *row_layout(action_space)[0]), action_dtype)
        self.logprobs = zeros((slots, horizon), np.float32)
        self.values = zeros((slots, horizon), np.float32)
        self.starts = zeros((slots, horizon), np.bool_)
        self.rewards = np.zeros((slots, horizon + 1), np.float32)
        self.next_values = np.zeros((slots, horizon + 1), np.float32)
        self.terminals = np.zeros((slots, horizon + 1), np.bool_)
        self.truncations = np.zeros((slots, horizon + 1), np.bool_)
        self.masks = np.zeros((slots, horizon + 1), np.bool_)
        self._owner = np.zeros(slots, np.int64)
        self._first_step = np.zeros(slots, np.int64)
        self._slot = np.zeros(num_agents, np.int64)
        self._time = np.zeros(num_agents, np.int64)
        self._steps = np.zeros(num_agents, np.int64)
        self._was_present = np.zeros(num_agents, np.bool_)
        self._was_done = np.zeros(num_agents, np.bool_)
        self.clear()

    def clear(self) -> None:
        """Forget every segment and every agent's life, as before the first reset."""
        self._free = np.arange(self.num_slots)
        self._full: list[NDArray[np.int64]] = []
        self._num_full = 0
        self._slot.fill(UNASSIGNED)
        for array in (self._time, self._steps, self._was_present, self._was_done):
            array.fill(0)

    def release(self) -> None:
        """Forget the full segments: they have been learnt from. Open ones go on."""
        self._free = np.sort(np.concatenate([self._free, *self._full]))
        self._full = []
        self._num_full = 0

    @property
    def is_full(self) -> bool:
        """Whether there are enough full segments for a batch."""
        return self._num_full >= self.segments

    def get_lives(self) -> dict[str, torch.Tensor]:
        """What is known of the agents where no segment is open; copies, each `(num_agents,)`."""
        return {name: torch.from_numpy(array.copy()) for name, array in self._lives().items()}

    def set_lives(self, lives: Mapping[str, torch.Tensor]) -> None:
        """The inverse of `get_lives`."""
        for name, array in self._lives().items():
            array[:] = lives[name].numpy()

    def _lives(self) -> dict[str, NDArray[Any]]:
        return {"steps": self._steps, "present": self._was_present, "done": self._was_done}

    def starts_of(self, rows: Rows) -> Bools:
        """Which rows begin a life: first rows, rows after an absence, rows after an episode's end.

        Where environments reset in the same step, the row that reports the end is itself the
        first of the next episode.

        Returns:
            bool `(B,)`.
        """
        ended = rows.dones if self.same_step else self._was_done[rows.where]
        return rows.masks & (ended | ~self._was_present[rows.where])

    def steps_of(self, rows: Rows) -> NDArray[np.int64]:
        """How many rows each agent had seen before `rows`, since the reset."""
        return self._steps[rows.where]

    def close(self, rows: Rows, choice: Choice) -> None:
        """End the segments whose last row is among `rows`."""
        ending = (self._time[rows.where] == self.horizon) & (self._slot[rows.where] >= 0)
        if not ending.any():
            return
        agents = rows.agents[ending]
        slots = self._slot[agents]
        self._write_arrival((slots, self.horizon), rows, choice, ending)
        self._slot[agents] = UNASSIGNED
        self._full.append(slots)
        self._num_full += len(slots)

    def write(self, rows: Rows, choice: Choice) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Store `rows` and what the policy chose for them, in the agents' open segments.

        Returns:
            The agents for which a new segment began with this row, and its slots.
        """
        opened = self._open_segments(rows)
        index = self._locate(rows.where)
        self._write_arrival(index, rows, choice)
        self.observations[index] = rows.observations
        self.actions[index] = choice.actions
        self.logprobs[index] = choice.logprobs
        self.values[index] = choice.values
        self.starts[index] = choice.starts
        if not rows.masks.all():
            self._blank(index, ~rows.masks)
        self._time[rows.where] += 1
        self._steps[rows.where] += 1
        self._was_present[rows.where] = rows.masks
        self._was_done[rows.where] = rows.dones
        return opened

    def count_valid(self) -> int:
        """Valid samples in the full segments."""
        _, valid = self._validity(self._full_slots()[1])
        return int(valid.sum())

    def collect(self, gamma: float, lam: float) -> Segments:
        """The full segments with their advantages; views where they lie side by side."""
        slots, where = self._full_slots()
        dones, valid = self._validity(where)
        rewards, values = self.rewards[where, 1:], self.values[where]
        next_values, terminals = self.next_values[where, 1:], self.terminals[where, 1:]
        advantages = estimate_advantages(
            rewards, values, next_values, terminals, dones[:, 1:], valid, gamma, lam
        )
        return Segments(
            slots=slots,
            agents=self._owner[where],
            first_steps=self._first_step[where],
            observations=self.observations[where],
            actions=self.actions[where],
            logprobs=self.logprobs[where],
            values=values,
            next_values=next_values,
            rewards=rewards,
            advantages=advantages,
            starts=self.starts[where],
            valid=valid,
            terminals=terminals,
            dones=dones[:, 1:],
        )

    def _full_slots(self) -> tuple[NDArray[np.int64], Any]:
        """The full slots, and the same as an index: a slice where they lie side by side."""
        slots = np.sort(np.concatenate(self._full))
        run = _run_of(slots)
        return slots, slots if run is None else run

    def _validity(self, where: Any) -> tuple[Bools, Bools]:
        """`dones` `(S, H + 1)` and `valid` `(S, H)` of the slots."""
        dones = self.terminals[where] | self.truncations[where]
        return dones, valid_transitions(self.masks[where], dones, self.same_step)

    def _open_segments(self, rows: Rows) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        newcomers = rows.agents[self._slot[rows.where] == UNASSIGNED]
        count = len(newcomers)
        if not count:
            return NOBODY, NOBODY
        slots, self._free = self._free[:count], self._free[count:]
        assert len(slots) == count, "more open and full segments than were planned for"
        self._slot[newcomers] = slots
        self._time[newcomers] = 0
        self._owner[slots] = newcomers
        self._first_step[slots] = self._steps[newcomers]
        return newcomers, slots

    def _locate(self, where: Any) -> Index:
        """Slot and time of each agent; as a slice and an int where agents are in step."""
        slots, times = self._slot[where], self._time[where]
        run = _run_of(slots)
        if run is None or (times != times[0]).any():
            return slots, times
        return run, times[0]

    def _write_arrival(
        self, index: Index, rows: Rows, choice: Choice, which: Any = slice(None)
    ) -> None:
        """Store what the row tells about the transition that led to it."""
        self.rewards[index] = rows.rewards[which]
        self.terminals[index] = rows.terminals[which]
        self.truncations[index] = rows.truncations[which]
        self.masks[index] = rows.masks[which]
        self.next_values[index] = choice.next_values[which]

    def _blank(self, index: Index, absent: Bools) -> None:
        # Whatever an environment leaves in the rows of absent agents (NaN, say) must not reach
        # the network again: 0 * NaN is NaN, also in a gradient.
        for array in (self.observations, self.actions, self.logprobs, self.values):
            stored = array[index]
            stored[absent] = 0
            array[index] = stored


def _run_of(numbers: NDArray[np.int64]) -> slice | None:
    """The slice that selects `numbers`, if each is one more than that before it."""
    first, count = numbers[0], len(numbers)
    if numbers[-1] - first != count - 1 or (numbers != np.arange(first, first + count)).any():
        return None
    return slice(first, first + count)


def _slots_needed(num_agents: int, segments: int, in_step: bool) -> int:
    """Open and full segments that can exist at once.

    No segment is opened on the recv that fills the batch; before it, at most one segment less
    than a batch is full, and every agent has one open.
    """
    if in_step:
        return -(-segments // num_agents) * num_agents
    return segments - 1 + num_agents
