"""CleanRL's loop for Atari over any vectorized environments, for `claims.py`.

All contestants have the same environments, agent and updates, and learn in turn in one process, so
that nothing but the stepping of the environments differs. Settings are those of `ppo_atari.py`
(Huang et al. 2022).
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from loops import WORKLOADS
from numpy.typing import NDArray
from torch import Tensor, nn
from workloads import breakout

from pufferlib import vector
from pufferlib.pytorch import sample_logits

NUM_ENVS, NUM_STEPS = 8, 128
EPOCHS, MINIBATCHES = 4, 4
GAMMA, LAMBDA, CLIP = 0.99, 0.95, 0.1
ENTROPY, VALUE, MAX_NORM, LEARNING_RATE = 0.01, 0.5, 0.5, 2.5e-4

# From actions to observations, rewards, and whether an episode ended, of all environments.
Step = Callable[[NDArray[Any]], tuple[NDArray[Any], NDArray[Any], NDArray[Any]]]


@dataclass
class Side:
    """Environments after their first reset."""

    observations: NDArray[Any]
    step: Step


@contextlib.contextmanager
def gymnasium_side(cls: Any) -> Iterator[Side]:
    """Gymnasium's vectorization."""
    envs = cls([breakout] * NUM_ENVS)

    def step(actions: NDArray[Any]) -> Any:
        observations, rewards, terminals, truncations, _ = envs.step(actions)
        return observations, rewards, terminals | truncations

    try:
        yield Side(envs.reset(seed=1)[0], step)
    finally:
        envs.close()


@contextlib.contextmanager
def our_side(**kwargs: Any) -> Iterator[Side]:
    """Ours, as `vector.make` takes `kwargs`."""
    with vector.make(WORKLOADS["breakout"].make, num_envs=NUM_ENVS, **kwargs) as vecenv:

        def step(actions: NDArray[Any]) -> Any:
            observations, rewards, terminals, truncations, _ = vecenv.step(actions)
            return observations, rewards, terminals | truncations

        yield Side(vecenv.reset(seed=1)[0], step)


class Agent:
    """The network of Mnih et al. (2015) and its optimizer."""

    def __init__(self) -> None:
        self.network: nn.Module = WORKLOADS["breakout"].policy(WORKLOADS["breakout"].make())
        parameters = self.network.parameters()
        self.optimizer = torch.optim.Adam(parameters, lr=LEARNING_RATE, eps=1e-5)

    def act(self, observations: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Actions, their log probabilities, and values."""
        with torch.no_grad():
            logits, values = self.network(observations)
            actions, logprobs, _ = sample_logits(logits)
        return actions, logprobs, values.flatten()

    def learn(self, batch: dict[str, Tensor]) -> None:
        """All passes over one batch."""
        for _ in range(EPOCHS):
            for rows in torch.randperm(NUM_ENVS * NUM_STEPS).chunk(MINIBATCHES):
                self.optimizer.zero_grad()
                self.loss({name: column[rows] for name, column in batch.items()}).backward()
                nn.utils.clip_grad_norm_(self.network.parameters(), MAX_NORM)
                self.optimizer.step()

    def loss(self, batch: dict[str, Tensor]) -> Tensor:
        """PPO's, with a clipped value loss."""
        logits, values = self.network(batch["observations"])
        _, logprobs, entropy = sample_logits(logits, batch["actions"])
        advantages = batch["advantages"]
        advantages = (advantages - advantages.mean()) / (advantages.std() + 1e-8)
        ratio = (logprobs - batch["logprobs"]).exp()
        clipped = ratio.clamp(1 - CLIP, 1 + CLIP)
        policy_loss = -torch.min(advantages * ratio, advantages * clipped).mean()
        old, returns = batch["values"], batch["values"] + batch["advantages"]
        values = values.flatten()
        near = old + (values - old).clamp(-CLIP, CLIP)
        value_loss = 0.5 * torch.max((values - returns) ** 2, (near - returns) ** 2).mean()
        return policy_loss + VALUE * value_loss - ENTROPY * entropy.mean()


class Loop:
    """Collects and learns with one side.

    Attributes:
        seconds: that the last update took.
        stepping: how many of those its environments took.
    """

    def __init__(self, side: Side, agent: Agent) -> None:
        self.side, self.agent = side, agent
        self.observations = torch.from_numpy(np.array(side.observations))
        self.ended = torch.zeros(NUM_ENVS)
        self.seconds = self.stepping = 0.0

    def update(self) -> None:
        """One batch and all passes over it."""
        begin, self.stepping = time.perf_counter(), 0.0
        self.agent.learn(self.collect())
        self.seconds = time.perf_counter() - begin

    def collect(self) -> dict[str, Tensor]:
        """A batch of `NUM_ENVS * NUM_STEPS` rows, with advantages."""
        columns: dict[str, list[Tensor]] = {}
        for _ in range(NUM_STEPS):
            actions, logprobs, values = self.agent.act(self.observations)
            row = {
                "observations": self.observations,
                "actions": actions,
                "logprobs": logprobs,
                "values": values,
                "ended": self.ended,
                "rewards": self.step(actions),
            }
            for name, value in row.items():
                columns.setdefault(name, []).append(value)
        columns["advantages"] = self.advantages(columns)
        return {name: torch.stack(column).flatten(0, 1) for name, column in columns.items()}

    def step(self, actions: Tensor) -> Tensor:
        """The rewards; observations and ends are kept."""
        begin = time.perf_counter()
        observations, rewards, ended = self.side.step(actions.numpy())
        self.stepping += time.perf_counter() - begin
        # Copies, as CleanRL makes them: the next step overwrites these arrays.
        self.observations = torch.from_numpy(np.array(observations))
        self.ended = torch.from_numpy(ended.astype(np.float32))
        return torch.from_numpy(rewards.astype(np.float32))

    def advantages(self, columns: dict[str, list[Tensor]]) -> list[Tensor]:
        """Generalized advantages (Schulman et al. 2016), step by step."""
        _, _, next_values = self.agent.act(self.observations)
        next_ended, advantage = self.ended, torch.zeros(NUM_ENVS)
        found = []
        for t in reversed(range(NUM_STEPS)):
            alive, values = 1 - next_ended, columns["values"][t]
            delta = columns["rewards"][t] + GAMMA * next_values * alive - values
            advantage = delta + GAMMA * LAMBDA * alive * advantage
            found.append(advantage)
            next_values, next_ended = values, columns["ended"][t]
        return found[::-1]
