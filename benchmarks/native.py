"""The trainer on environments that cost nearly nothing, beside its network alone.

    python benchmarks/native.py [--env squared] [--kind mlp] [--agents 4096] [--threads 1] …

Prints, as JSON, steps per second of the whole loop, and the bound: what the same network reaches
if all time went into choosing actions (forward, sampling) and into learning (forward, backward,
optimizer), measured in turn with the loop. `training.py` and `gpu.py` run this for their tables.
"""

from __future__ import annotations

import argparse
import functools
import json
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, fields
from typing import Any

import numpy as np
import torch
from bounds import Network, wait_for
from gymnasium.spaces import Box, Discrete
from gymnasium.vector import AutoresetMode
from squared_like import SquaredLike

from pufferlib import clean_pufferl, vector
from pufferlib.environment import PufferEnv
from pufferlib.models import Default, LSTMWrapper, MinGRUWrapper
from pufferlib.trainer.config import TrainConfig
from pufferlib.trainer.trainer import Clock

WRAPPERS = {
    "lstm": LSTMWrapper,
    "mingru": MinGRUWrapper,
    "mingru2": functools.partial(MinGRUWrapper, num_layers=2),
}
"""Memories; of two layers is the minGRU that recites Memory."""
KINDS = ("mlp", *WRAPPERS)


class SnakeLike(PufferEnv):
    """The rows of native Snake, `(11, 11)` bytes and four moves, with nothing behind them."""

    autoreset_mode = AutoresetMode.SAME_STEP

    def __init__(self, num_agents: int = 4096) -> None:
        self.single_observation_space = Box(0, 7, (11, 11), np.int8)
        self.single_action_space = Discrete(4)
        self.num_agents = num_agents
        super().__init__()
        generator = np.random.default_rng(0)
        self._seen = generator.integers(0, 8, (num_agents + 64, 11, 11), np.int8)
        self._ends = generator.random(num_agents + 64) < 0.02
        self._step = 0

    def reset(self, seed: int | None = None, options: Any = None) -> list[dict[str, Any]]:
        """The first rows."""
        self.rewards.fill(0)
        self.terminals.fill(False)
        self.truncations.fill(False)
        self.observations[:] = self._seen[: self.num_agents]
        return []

    def step(self, actions: Any) -> list[dict[str, Any]]:
        """The next rows; going on costs one copy."""
        self._step = (self._step + 1) % 64
        part = slice(self._step, self._step + self.num_agents)
        self.observations[:] = self._seen[part]
        self.terminals[:] = self._ends[part]
        self.rewards[:] = self._ends[part]
        return []


def native_squared(num_agents: int) -> PufferEnv:
    """Ocean's, with the 11 x 11 cells of PufferLib 3.0's."""
    from pufferlib.environments.ocean.native import NativeSquared

    return NativeSquared(num_agents, distance_to_target=5)


ENVS: dict[str, Callable[..., PufferEnv]] = {
    "squared": native_squared,
    "squared-like": SquaredLike,  # for installations without the native core
    "snake": SnakeLike,
}


@dataclass(frozen=True, kw_only=True)
class Case:
    """One measurement; the sizes are those of PufferLib 3.0's own benchmark."""

    env: str = "squared"
    kind: str = "mlp"
    agents: int = 4096
    horizon: int = 64
    minibatch: int = 8192
    hidden: int = 128
    device: str = "cpu"
    threads: int = 1
    options: dict[str, Any] = field(default_factory=dict)
    """More of `TrainConfig`."""

    def config(self) -> TrainConfig:
        """Of the trainer."""
        return TrainConfig(
            device=self.device,
            torch_threads=self.threads,
            total_timesteps=1_000_000_000_000,
            bptt_horizon=self.horizon,
            minibatch_size=min(self.minibatch, self.agents * self.horizon),
            update_epochs=1,
            **self.options,
        )

    def policy(self, env: Any) -> torch.nn.Module:
        """One hidden layer, and the memory if there is one."""
        policy = Default(env, self.hidden)
        if self.kind == "mlp":
            return policy
        return WRAPPERS[self.kind](env, policy, self.hidden, self.hidden)


def measure(case: Case, seconds: float, repeats: int = 3) -> dict[str, Any]:
    """Steps per second of loop and bound, each the median of `repeats` measurements in turn."""
    kwargs = {"num_agents": case.agents}
    with (
        vector.make(ENVS[case.env], env_kwargs=kwargs) as vecenv,
        tempfile.TemporaryDirectory() as directory,
    ):
        policy = case.policy(vecenv.driver_env)
        trainer = clean_pufferl.create(case.config(), vecenv, policy, run_dir=directory)
        update(trainer)  # compiles, allocates, fills caches
        network = Network(trainer)
        loops, bounds = [], []
        for _ in range(repeats):
            loops.append(loop_speed(trainer, seconds / repeats))
            bounds.append(network.speed(seconds / repeats))
        spent = trainer.timings  # of the last measurement
        return asdict(case) | {
            "steps_per_second": statistics.median(loops),
            "bound": statistics.median(bounds),
            "shares": {name: round(part / sum(spent.values()), 3) for name, part in spent.items()},
        }


def update(trainer: clean_pufferl.Trainer) -> None:
    clean_pufferl.evaluate(trainer)
    clean_pufferl.train(trainer)


def loop_speed(trainer: clean_pufferl.Trainer, seconds: float) -> float:
    """Steps per second of whole updates, which alone the trainer's clock has seen."""
    wait_for(trainer.device)
    trainer.clock = Clock()
    steps, begun = trainer.global_step, time.perf_counter()
    while time.perf_counter() - begun < seconds:
        update(trainer)
    wait_for(trainer.device)
    return (trainer.global_step - steps) / (time.perf_counter() - begun)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for option in fields(Case):
        if option.name != "options":
            parser.add_argument(
                f"--{option.name}", type=type(option.default), default=option.default
            )
    parser.add_argument("--seconds", type=float, default=6.0)
    parser.add_argument("--options", type=json.loads, default={}, help="of TrainConfig, as JSON")
    args = vars(parser.parse_args())
    seconds = args.pop("seconds")
    print(json.dumps(measure(Case(**args), seconds)))


if __name__ == "__main__":
    main()
