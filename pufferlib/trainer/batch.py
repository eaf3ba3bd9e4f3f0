"""From the segments of one batch to shuffled minibatches of tensors."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pufferlib.trainer.experience import Segments
from pufferlib.trainer.states import State


@dataclass(frozen=True, slots=True)
class Whole:
    """The minibatch that all processes learn from together, each from its part.

    Attributes:
        samples: in all parts together, at least 1.
        mean, std: of the advantages of these samples; the population's standard deviation.
    """

    samples: int
    mean: float
    std: float


@dataclass(frozen=True, slots=True)
class Minibatch:
    """What one optimizer step learns from: `n` valid samples among `B` rows, or `B` by `T`.

    Attributes:
        observations: `(B, *observation_shape)`; for a recurrent policy
            `(B, T, *observation_shape)`.
        actions: `(B, …)` or `(B * T, …)`, one per row.
        logprobs, values, advantages, returns: `(n,)`.
        chosen: `(n,)`, the valid ones among the flattened rows; None when all are.
        state, starts: for recurrent policies, else None.
        weights: `(n,)`, at most 1, what a sample counts; None: all count 1.
        whole: what several processes' parts make together; None: this is the whole minibatch.
    """

    observations: Tensor
    actions: Tensor
    logprobs: Tensor
    values: Tensor
    advantages: Tensor
    returns: Tensor
    chosen: Tensor | None = None
    state: State | None = None
    starts: Tensor | None = None
    weights: Tensor | None = None
    whole: Whole | None = None

    @property
    def samples(self) -> int:
        """How many the whole minibatch has."""
        return self.whole.samples if self.whole else len(self.advantages)


class Batch:
    """One batch on the device, and how it is cut.

    Args:
        segments: what was collected.
        device: where the policy is.
        state: the recurrent states that the segments began with; None for a policy without.
    """

    def __init__(
        self, segments: Segments, device: torch.device, state: State | None = None
    ) -> None:
        self.steps = int(segments.valid.sum())
        self._valid = segments.valid
        self._state = state
        rows = segments.valid.size
        self._observations = _to(segments.observations, device)
        self._actions = _flat(_to(segments.actions, device), rows)
        self._starts = _to(segments.starts, device)
        self._logprobs = _to(segments.logprobs, device).reshape(rows)
        self._values = _to(segments.values, device).reshape(rows)
        self._advantages = _to(segments.advantages, device).reshape(rows)
        self._returns = self._advantages + self._values

    def set_targets(self, advantages: NDArray[np.float32], returns: NDArray[np.float32]) -> None:
        """Learn towards these instead, each `(S, H)`."""
        self._advantages = _to(advantages, self._values.device).reshape(-1)
        self._returns = _to(returns, self._values.device).reshape(-1)

    def in_order(self, size: int) -> Iterator[tuple[NDArray[np.int64], Minibatch]]:
        """All valid samples once, in parts of about `size`, and where they lie among all rows."""
        if self._state is None:
            for part in _parts(np.flatnonzero(self._valid), size):
                yield part, self._of_samples(part)
            return
        for part in _parts(*self.pieces(size, in_segments=True)):
            yield self._rows(part)[self._valid[part]], self._of_segments(part)

    def minibatches(self, size: int, count: int | None = None) -> Iterator[Minibatch]:
        """One pass over all valid samples in random order, in nearly equal parts of up to `size`.

        For a recurrent policy the parts are whole segments; segments without a valid sample are
        left out. The order comes from torch's global random generator.

        Args:
            size: of a minibatch in samples.
            count: of minibatches, instead of the fewest; some of them may be empty then.
        """
        items, per_part = self.pieces(size, self._state is not None)
        items = items[torch.randperm(len(items)).numpy()]
        cut = self._of_samples if self._state is None else self._of_segments
        return (cut(part) for part in _parts(items, per_part, count))

    def pieces(self, size: int, in_segments: bool) -> tuple[NDArray[np.int64], int]:
        """The valid samples, or the segments that have any, and how many make a minibatch.

        Args:
            size: of a minibatch in samples.
            in_segments: cut between segments only.

        Returns:
            int64 `(n,)`, numbers of samples among all rows or of segments; and of these per part.
        """
        if not in_segments:
            return np.flatnonzero(self._valid), size
        return np.flatnonzero(self._valid.any(1)), max(1, size // self._valid.shape[1])

    def prioritized_minibatches(
        self, size: int, alpha: float, beta: float, count: int | None = None
    ) -> Iterator[Minibatch]:
        """As many minibatches as one pass has, of segments drawn with replacement.

            P(i) = p_i^alpha / sum_k p_k^alpha;   w_i = (N P(i))^-beta / max_k w_k

        where `p_i` is the mean of |A| over the valid samples of segment i. Source: Schaul et al.
        2016, *Prioritized Experience Replay*, equation 1 and section 3.4, with advantages in place
        of temporal-difference errors. Draws come from torch's global random generator.

        Args:
            size: of a minibatch in samples, as in `minibatches`.
            alpha: 0 draws evenly, 1 in proportion.
            beta: 0 corrects nothing, 1 makes the expected gradient that of even draws.
            count: of minibatches, as in `minibatches`.
        """
        counts = self._valid.sum(1)
        segments, per_part = self.pieces(size, in_segments=True)
        if not len(segments):
            yield from (self._of_samples(segments) for _ in range(count or 0))
            return
        sizes = self._advantages.abs().reshape(self._valid.shape).sum(1).cpu().numpy()
        priorities = (sizes[segments] / counts[segments] + 1e-6) ** alpha
        shares = priorities / priorities.sum()
        weights = (len(segments) * shares) ** -beta
        weights /= weights.max()
        for _ in range(-(-len(segments) // per_part) if count is None else count):
            drawn = torch.multinomial(torch.from_numpy(shares), per_part, replacement=True).numpy()
            yield self._of_drawn(segments[drawn], weights[drawn])

    def _of_drawn(self, segments: NDArray[np.int64], weights: NDArray[Any]) -> Minibatch:
        valid = self._valid[segments]
        if self._state is None:
            minibatch = self._of_samples(self._rows(segments)[valid])
        else:
            minibatch = self._of_segments(segments)
        per_sample = np.repeat(weights, valid.sum(1)).astype(np.float32)
        return replace(minibatch, weights=_to(per_sample, self._values.device))

    def _of_samples(self, samples: NDArray[np.int64]) -> Minibatch:
        index = _to(samples, self._values.device)
        observations = _flat(self._observations, self._valid.size)
        return Minibatch(
            observations.index_select(0, index),
            self._actions.index_select(0, index),
            *self._targets(index),
        )

    def _of_segments(self, segments: NDArray[np.int64]) -> Minibatch:
        device = self._values.device
        rows = self._rows(segments).ravel()
        chosen = np.flatnonzero(self._valid[segments])
        index = _to(segments, device)
        assert self._state is not None
        return Minibatch(
            self._observations.index_select(0, index),
            self._actions.index_select(0, _to(rows, device)),
            *self._targets(_to(rows[chosen], device)),
            chosen=None if len(chosen) == len(rows) else _to(chosen, device),
            state=tuple(part.index_select(1, index) for part in self._state),
            starts=self._starts.index_select(0, index),
        )

    def _rows(self, segments: NDArray[np.int64]) -> NDArray[np.int64]:
        """`(n, H)`: where the samples of these segments lie among all of the batch."""
        horizon = self._valid.shape[1]
        return segments[:, None] * horizon + np.arange(horizon)

    def _targets(self, index: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Log-probabilities, values, advantages and returns of these samples."""
        return (
            self._logprobs.index_select(0, index),
            self._values.index_select(0, index),
            self._advantages.index_select(0, index),
            self._returns.index_select(0, index),
        )


def _parts(
    items: NDArray[np.int64], size: int, count: int | None = None
) -> list[NDArray[np.int64]]:
    """`count` parts, else the fewest of at most `size`; none more than 1 larger than another."""
    count = -(-len(items) // size) if count is None else count
    return np.array_split(items, count) if count else []


def _flat(tensor: Tensor, rows: int) -> Tensor:
    """`(S, H, …)` as `(S * H, …)`."""
    return tensor.reshape(rows, *tensor.shape[2:])


def _to(array: NDArray[Any], device: torch.device) -> Tensor:
    # Nothing waits for the copy: it is in the order of the device's work, and the experience is
    # written again only after the losses have been read.
    return torch.from_numpy(np.ascontiguousarray(array)).to(device, non_blocking=True)
