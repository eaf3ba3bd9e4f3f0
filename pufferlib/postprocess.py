"""Episode statistics: infos are summed up once per episode instead of sent at every step."""

from __future__ import annotations

import numbers
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import gymnasium
import numpy as np
from pettingzoo.utils import BaseParallelWrapper
from pettingzoo.utils.env import ParallelEnv

from pufferlib.ends import flags_of

ENDED_PART = "ended_part"
"""Key of the info at an end that the learner sees while the episode goes on, such as a lost life.

Its value says what ended. Whoever counts episodes leaves such an end out.
"""


def unroll(info: Mapping[Any, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """The leaves of a nested dict as (`a/b/c`, value)."""
    for key, value in info.items():
        if isinstance(value, dict):
            yield from unroll(value, f"{prefix}{key}/")
        else:
            yield f"{prefix}{key}", value


def as_number(value: Any) -> float | None:
    """`value` as a float if it is one number (bool, int, float or an array of one), else None."""
    if isinstance(value, numbers.Real | np.bool_):
        return float(value)
    if isinstance(value, np.ndarray) and value.size == 1 and value.dtype.kind in "biuf":
        return float(value.reshape(()))
    return None


def has_many_episodes(info: Mapping[Any, Any]) -> bool:
    """Whether an info sums up many episodes at once: an array `(episodes,)` under each key.

    Environments of thousands of agents write such infos, in the order of their rows.
    """
    return "episode_return" in info and all(
        isinstance(value, np.ndarray) and value.ndim == 1 for value in info.values()
    )


def split_episodes(info: Mapping[str, np.ndarray]) -> Iterator[dict[str, float]]:
    """An info of arrays `(episodes,)` as one info per episode, in order."""
    columns = [values.tolist() for values in info.values()]
    return (dict(zip(info, row, strict=True)) for row in zip(*columns, strict=True))


def episode_records(infos: Iterable[Mapping[Any, Any]]) -> Iterator[Mapping[Any, Any]]:
    """Infos that tell of an episode's end, one per episode and in the order of the rows.

    Those are the summaries of this module and what Gymnasium's `RecordEpisodeStatistics` writes.
    Those of several agents lie one level deeper, by agent.
    """
    for info in infos:
        if has_many_episodes(info):
            yield from split_episodes(info)
        elif _is_record(info):
            yield info
        else:
            yield from filter(_is_record, info.values())


def end_records(infos: Iterable[Mapping[Any, Any]]) -> Iterator[Mapping[Any, Any] | None]:
    """One per row that ended, in order: None where only a part of an episode did (`ENDED_PART`)."""
    for info in infos:
        if ENDED_PART in info:
            yield None
        else:
            yield from episode_records([info])


def _is_record(info: Any) -> bool:
    return isinstance(info, Mapping) and ("episode_return" in info or "episode" in info)


class EpisodeSummary:
    """Adds up one agent's episode."""

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Begin a new episode."""
        self._return = 0.0
        self._length = 0
        self._sums: dict[str, float] = {}
        self._counts: dict[str, int] = {}
        self._other: dict[str, Any] = {}

    def add(self, reward: Any, info: dict[str, Any]) -> None:
        """Take in one step."""
        self._return += float(reward)
        self._length += 1
        if info:
            self._add_info(info)

    def _add_info(self, info: dict[str, Any]) -> None:
        for key, value in unroll(info):
            number = as_number(value)
            if number is None:
                self._other[key] = value
            else:
                self._sums[key] = self._sums.get(key, 0.0) + number
                self._counts[key] = self._counts.get(key, 0) + 1

    def result(self) -> dict[str, Any]:
        """`episode_return`, `episode_length`, and every key an info had.

        A numeric key's value is the mean over the steps that had it; the last value of every
        other key stands in the dict `other`, which is absent when empty.
        """
        means = {key: total / self._counts[key] for key, total in self._sums.items()}
        other = {"other": self._other} if self._other else {}
        totals = {"episode_return": self._return, "episode_length": self._length}
        return means | other | totals


class EpisodeStats(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Empties every info but the last of an episode, which becomes the episode's summary.

    See `EpisodeSummary.result` for its keys. Cuts the traffic between processes to one message
    per episode.
    """

    def __init__(self, env: gymnasium.Env[Any, Any]) -> None:
        super().__init__(env)
        self._summary = EpisodeSummary()

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Begin an episode; its info is not a step's and is dropped."""
        self._summary.clear()
        observation, _ = self.env.reset(seed=seed, options=options)
        return observation, {}

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """A step whose info is empty unless it ends the episode."""
        observation, reward, terminal, truncation, info = self.env.step(action)
        self._summary.add(reward, info)
        info = self._summary.result() if terminal or truncation else {}
        return observation, reward, terminal, truncation, info


class MultiagentEpisodeStats(BaseParallelWrapper[Any, Any, Any]):
    """`EpisodeStats` for parallel PettingZoo environments: one summary per agent and life.

    The infos are empty but those of the agents whose life ended with this step.
    """

    def __init__(self, env: ParallelEnv[Any, Any, Any]) -> None:
        super().__init__(env)
        self._summaries: dict[Any, EpisodeSummary] = {}
        self._ended: set[Any] = set()  # lives that are over but still listed

    def reset(
        self, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[Any, Any], dict[Any, Any]]:
        """Begin an episode; its infos are not a step's and are dropped."""
        self._summaries.clear()
        self._ended.clear()
        observations, infos = self.env.reset(seed=seed, options=options)
        return observations, {agent: {} for agent in infos}

    def step(
        self, actions: dict[Any, Any]
    ) -> tuple[dict[Any, Any], dict[Any, float], dict[Any, bool], dict[Any, bool], dict[Any, Any]]:
        """A step whose infos hold the summaries of the lives that ended with it."""
        acting = [agent for agent in self.env.agents if agent not in self._ended]
        observations, rewards, terminals, truncations, infos = self.env.step(actions)
        alive = set(self.env.agents)
        summaries: dict[Any, dict[str, Any]] = {agent: {} for agent in infos}
        ended = set()
        for agent in acting:
            if agent not in self._summaries:  # `setdefault` would make one at every step
                self._summaries[agent] = EpisodeSummary()
            self._summaries[agent].add(rewards.get(agent, 0.0), infos.get(agent, {}))
            if any(flags_of(agent, terminals, truncations)) or agent not in alive:
                summaries[agent] = self._summaries.pop(agent).result()
                ended.add(agent)
        self._ended = (self._ended | ended) & alive
        return observations, rewards, terminals, truncations, summaries
