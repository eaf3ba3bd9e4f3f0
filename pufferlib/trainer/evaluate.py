"""Measure a policy: a fixed number of whole episodes per environment, and an interval.

Counting the first N episodes that end would favour short ones. Here every agent row plays the
same number of episodes. Then it gets actions of zero, which cost nothing, until all are done
(where a mask rules zero out, random ones).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import torch
from gymnasium.vector import AutoresetMode
from numpy.typing import NDArray

from pufferlib.emulation.masks import take_allowed
from pufferlib.exceptions import APIUsageError
from pufferlib.models import is_recurrent
from pufferlib.postprocess import end_records
from pufferlib.pytorch import Logits, greedy_actions, sample_logits
from pufferlib.spaces import row_layout
from pufferlib.trainer.collect import as_env_actions
from pufferlib.trainer.states import RecurrentStates
from pufferlib.vector import VecEnv

Array = NDArray[Any]
Bools = NDArray[np.bool_]
Ints = NDArray[np.int64]

RESAMPLES = 2000


@dataclass(frozen=True)
class EvalResult:
    """What an evaluation found. The three lists hold one entry per episode."""

    mean: float
    """Mean score."""
    interval95: tuple[float, float]
    """95 % confidence interval of the mean (bootstrap percentiles)."""
    scores: list[float] = field(repr=False)
    """The statistic that measures success."""
    returns: list[float] = field(repr=False)
    """Sum of the rewards."""
    lengths: list[int] = field(repr=False)
    """Number of steps."""

    @property
    def episodes(self) -> int:
        """How many episodes were counted."""
        return len(self.scores)


class Actor(Protocol):
    """Chooses the actions of a batch."""

    def act(self, observations: Array, starts: Bools, rows: Ints) -> Array:
        """Actions `(B, *action_shape)` for the agents `rows` `(B,)`; `starts` marks new lives.

        The arrays are copies, and `rows` may be some of a batch.
        """


class RandomActor:
    """Uniformly random actions from the joint action space, of those that a mask allows."""

    def __init__(self, vecenv: VecEnv, seed: int) -> None:
        self._space = vecenv.action_space
        self._space.seed(seed)
        self._emulated = vecenv.driver_env.emulated
        self._rng = np.random.default_rng(seed)

    def act(self, observations: Array, starts: Bools, rows: Ints) -> Array:
        """Samples of the action space, whatever the observations show."""
        actions = self._space.sample()[: len(rows)]
        take_allowed(actions, observations, self._emulated, self._rng)
        return actions


class PolicyActor:
    """Actions of a policy, sampled or (`greedy`) the most likely; keeps the recurrent state."""

    def __init__(self, vecenv: VecEnv, policy: torch.nn.Module, greedy: bool) -> None:
        self._policy = policy
        self._greedy = greedy
        self._space = vecenv.single_action_space
        self._recurrent = is_recurrent(policy)
        self._states = RecurrentStates(vecenv.num_agents, num_slots=0)
        self._device = next((p.device for p in policy.parameters()), torch.device("cpu"))

    @torch.no_grad()
    def act(self, observations: Array, starts: Bools, rows: Ints) -> Array:
        """Actions as the environments take them: clipped to the bounds where they have any."""
        inputs = torch.as_tensor(observations, device=self._device)
        logits = self._forward(inputs, starts, rows)
        actions = greedy_actions(logits) if self._greedy else sample_logits(logits)[0]
        return as_env_actions(actions.cpu().numpy(), self._space)

    def _forward(self, inputs: torch.Tensor, starts: Bools, rows: Ints) -> Logits:
        if not self._recurrent:
            return self._policy(inputs)[0]
        begins = torch.as_tensor(starts, device=self._device)
        logits, _, state = self._policy(inputs, self._states.of(rows), begins)
        self._states.advance(rows, state)
        return logits


class EpisodeCounter:
    """Follows every agent row and keeps the first `quota` episodes of each.

    Rewards are summed here. Where the environments report one episode record (an info with
    `episode_return`) per episode that ends, the records are used instead: a wrapper may have
    changed the rewards that the policy sees. Ends of a part, such as a life (`ENDED_PART`), do not
    count.

    Args:
        num_agents: rows of all environments together.
        quota: episodes that count, of each row.
        score_key: the statistic that `scores` takes from the records.
        autoreset: when the environments reset themselves.

    Raises (from `add`):
        APIUsageError: the records have no `score_key`.
    """

    def __init__(
        self, num_agents: int, quota: int, score_key: str, autoreset: AutoresetMode
    ) -> None:
        self._left = np.full(num_agents, quota)
        self._seen = np.zeros(num_agents, bool)
        self._returns = np.zeros(num_agents)
        self._lengths = np.zeros(num_agents, int)
        self._absent = np.ones(num_agents, bool)
        self._same_step = np.bool_(autoreset == AutoresetMode.SAME_STEP)
        self._score_key = score_key
        self.scores: list[float] = []
        self.returns: list[float] = []
        self.lengths: list[int] = []

    @property
    def done(self) -> bool:
        """Whether every agent that has ever appeared has played its episodes."""
        return bool(self._seen.any()) and not self._left[self._seen].any()

    def is_playing(self, rows: Ints) -> Bools:
        """Which of these agents have episodes left to play, bool `(B,)`."""
        return self._left[rows] > 0

    def add(
        self,
        rows: Ints,
        rewards: NDArray[np.float32],
        ended: Bools,
        masks: Bools,
        infos: Sequence[Mapping[str, Any]],
    ) -> Bools:
        """Take in one batch; returns which of its rows begin a life, bool `(B,)`.

        Args:
            rows: int64 `(B,)`, the agents.
            rewards: float32 `(B,)`.
            ended: bool `(B,)`, terminal or truncated.
            masks: bool `(B,)`, presence.
            infos: what came with the batch, any number of dicts.
        """
        begins = self._absent[rows] & masks
        counted = masks & ~begins
        self._seen[rows] |= masks
        self._returns[rows] += np.where(counted, rewards, 0.0)
        self._lengths[rows] += counted
        finished = ended & masks
        records = self._records(infos, int(finished.sum()))
        for row, record in zip(rows[finished], records, strict=True):
            if record is not None:
                self._finish(row, record)
        self._absent[rows] = ~masks | (finished & ~self._same_step)
        return begins | (finished & self._same_step)

    def _finish(self, row: int, record: Mapping[str, Any]) -> None:
        length = int(record.get("episode_length", self._lengths[row]))
        total = float(record.get("episode_return", self._returns[row]))
        self._returns[row] = self._lengths[row] = 0
        if length == 0 or not self._left[row]:
            return
        self._left[row] -= 1
        self.returns.append(total)
        self.lengths.append(length)
        if self._score_key == "episode_return":
            self.scores.append(total)
        elif self._score_key in record:
            self.scores.append(float(record[self._score_key]))
        else:
            raise APIUsageError(
                f"score_key: the episodes report no '{self._score_key}' for each episode; "
                f"they have: {', '.join(sorted({'episode_return', *record}))}"
            )

    def _records(
        self, infos: Sequence[Mapping[str, Any]], finished: int
    ) -> Sequence[Mapping[str, Any] | None]:
        """One record per finished row, in order: None where only a part of its episode ended.

        Empty ones where infos and rows do not match.
        """
        records = list(end_records(infos))
        return records if len(records) == finished else [{}] * finished


def evaluate_policy(
    vecenv: VecEnv,
    policy: torch.nn.Module | None,
    episodes: int,
    greedy: bool = False,
    seed: int = 0,
    score_key: str = "episode_return",
    on_step: Callable[[], None] | None = None,
) -> EvalResult:
    """Play whole episodes and return their scores.

    Args:
        vecenv: vectorized environments, as made by `pufferlib.vector.make`; it is reset.
        policy: None plays uniformly random actions.
        episodes: at least this many; rounded up to the same number for every agent row.
        greedy: take the most likely action instead of sampling.
        seed: of the environments and of the sampled actions. Torch's global generator is left
            as it was.
        score_key: the episode statistic that is averaged in `mean`.
        on_step: called whenever a batch has arrived, for example to render.

    Raises:
        APIUsageError: `episodes` is below one, or the environments do not report `score_key`.
    """
    if episodes < 1:
        raise APIUsageError(f"episodes: expected at least 1, got {episodes}")
    quota = math.ceil(episodes / vecenv.num_agents)
    counter = EpisodeCounter(vecenv.num_agents, quota, score_key, vecenv.autoreset_mode)
    actor = PolicyActor(vecenv, policy, greedy) if policy else RandomActor(vecenv, seed)
    training = policy is not None and policy.training
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        if policy is not None:
            policy.eval()
        try:
            _play(vecenv, actor, counter, seed, on_step)
        finally:
            if policy is not None:
                policy.train(training)
    scores = np.array(counter.scores)
    interval = bootstrap_interval(scores, seed)
    return EvalResult(
        float(scores.mean()), interval, counter.scores, counter.returns, counter.lengths
    )


def bootstrap_interval(values: NDArray[np.float64], seed: int = 0) -> tuple[float, float]:
    """95 % percentile interval of the mean of `values` `(n,)`, from `RESAMPLES` resamples.

    Source: Efron 1979, *Bootstrap Methods: Another Look at the Jackknife*.
    """
    rng = np.random.default_rng(seed)
    means = [rng.choice(values, len(values)).mean() for _ in range(RESAMPLES)]
    low, high = np.percentile(means, [2.5, 97.5])
    return float(low), float(high)


def _play(
    vecenv: VecEnv,
    actor: Actor,
    counter: EpisodeCounter,
    seed: int,
    on_step: Callable[[], None] | None,
) -> None:
    shape, dtype = row_layout(vecenv.single_action_space)
    zeros = np.zeros((vecenv.agents_per_batch, *shape), dtype)
    idle = as_env_actions(zeros, vecenv.single_action_space)
    rng = np.random.default_rng(seed)
    vecenv.async_reset(seed)
    while True:
        observations, rewards, terminals, truncations, infos, rows, masks = vecenv.recv()
        if on_step:
            on_step()
        starts = counter.add(rows, rewards, terminals | truncations, masks, infos)
        if counter.done:
            return
        playing = counter.is_playing(rows)
        actions = idle.copy()
        take_allowed(actions, observations, vecenv.driver_env.emulated, rng)
        if playing.any():
            actions[playing] = actor.act(observations[playing], starts[playing], rows[playing])
        vecenv.send(actions)
