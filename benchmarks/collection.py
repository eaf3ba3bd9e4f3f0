"""How fast other libraries' loops collect over our vectorization and over their own.

    python benchmarks/collection.py [--envs nethack breakout] [--networks own small]
                                    [--seconds 3] [--repeats 3] [--markdown FILE]

Collection only: nothing is learnt. Stable-Baselines3's loop is that of its PPO; the other is that
of CleanRL's scripts. In one run all contestants have the same environments and network, on one
torch thread, and collect in turn, several times for `--seconds`; the median counts. A pool hands
out half of the environments, so that the network acts on these while the workers step the others.

The network is the environment's own, which on a CPU takes most of the time, or a small one, which
costs what a GPU would leave of it. `network alone` acts on as many rows without any environment:
no vectorization can be faster.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import functools
import math
import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from gymnasium.vector import AsyncVectorEnv, SyncVectorEnv
from loops import WORKLOADS, Workload
from report import Judged, as_markdown, show
from stable_baselines3 import PPO
from stable_baselines3.common.vec_env import DummyVecEnv, SubprocVecEnv
from torch import Tensor, nn

from pufferlib import vector
from pufferlib.frameworks import cleanrl
from pufferlib.frameworks.gymnasium import GymnasiumVectorEnv
from pufferlib.frameworks.sb3 import Policy, SB3VecEnv
from pufferlib.models import ActionHead
from pufferlib.pytorch import Logits
from pufferlib.vector.sizes import available_cores

NETWORK = "network alone"
SB3, CLEANRL = "Stable-Baselines3", "CleanRL's loop"
OURS, POOL = "pufferlib", "pufferlib, pool"
IN_TURN = {SB3: "DummyVecEnv", CLEANRL: "SyncVectorEnv"}
PROCESSES = {SB3: "SubprocVecEnv", CLEANRL: "AsyncVectorEnv"}
GOALS = {"nethack": 1.5, "breakout": 1.0}  # of ours against their processes

Collect = Callable[[], int]  # returns how many rows it collected
Name = tuple[str, str]  # of a contestant: its loop and its vectorization


class Small(nn.Module):
    """Looks at a part of a row, through one layer."""

    def __init__(self, env: Any) -> None:
        super().__init__()
        features = len(range(0, math.prod(env.single_observation_space.shape), 16))
        self.hidden = nn.Linear(features, 64)
        self.action_head = ActionHead(env, 64)
        self.value_head = nn.Linear(64, 1)

    def forward(self, observations: Tensor) -> tuple[Logits, Tensor]:
        """Observations `(B, *observation_shape)` to logits and value `(B, 1)`."""
        hidden = self.hidden(observations.flatten(1)[:, ::16].float()).relu()
        return self.action_head(hidden), self.value_head(hidden)


class Collector(PPO):
    """Collects and learns nothing."""

    def train(self) -> None:
        """Leave the policy as it is."""


NETWORKS: dict[str, Callable[[Workload], Workload]] = {
    "own": lambda workload: workload,
    "small": lambda workload: dataclasses.replace(workload, policy=Small),
}


def our_vecenv(workload: Workload, **kwargs: Any) -> vector.VecEnv:
    make = vector.SameStep(workload.make)
    workers = available_cores()
    return vector.make(
        make, backend="multiprocessing", num_envs=workload.num_envs, num_workers=workers, **kwargs
    )


def policy_for(workload: Workload) -> nn.Module:
    """The network; the environment that says its sizes is closed again."""
    with contextlib.closing(workload.make()) as env:
        return workload.policy(env)


@contextlib.contextmanager
def sb3_loop(make: Callable[[Workload], Any], workload: Workload) -> Iterator[Collect]:
    with contextlib.closing(make(workload)) as envs:
        model = Collector(
            Policy,
            envs,
            n_steps=workload.num_steps,
            batch_size=workload.batch,
            policy_kwargs={"policy": policy_for(workload)},
            device="cpu",
        )

        def collect() -> int:
            model.learn(workload.batch, reset_num_timesteps=False)
            return workload.batch

        yield collect


@contextlib.contextmanager
def cleanrl_loop(make: Callable[[Workload], Any], workload: Workload) -> Iterator[Collect]:
    agent = cleanrl.Policy(policy_for(workload))
    with contextlib.closing(make(workload)) as envs:
        x = torch.tensor(envs.reset(seed=1)[0])

        @torch.no_grad()
        def collect() -> int:
            nonlocal x
            rollout = []
            for _ in range(workload.num_steps):
                action, logprob, _, value = agent.get_action_and_value(x)
                following, reward, terminal, truncation, _ = envs.step(action.numpy())
                ends = terminal | truncation
                rollout.append((x, action, logprob, value, torch.tensor(reward), ends))
                x = torch.tensor(following)
            return workload.batch

        yield collect


@contextlib.contextmanager
def cleanrl_pool(workload: Workload) -> Iterator[Collect]:
    """The same loop over halves of the environments, in the order in which they are done."""
    agent = cleanrl.Policy(policy_for(workload))
    with our_vecenv(workload, batch_size=workload.num_envs // 2) as envs:
        envs.async_reset(seed=1)

        @torch.no_grad()
        def collect() -> int:
            rollout = []
            for _ in range(2 * workload.num_steps):
                rows, reward, terminal, truncation, _, ids, _ = envs.recv()
                x = torch.tensor(rows)
                action, logprob, _, value = agent.get_action_and_value(x)
                envs.send(action.numpy())
                kept = (torch.tensor(reward), terminal | truncation, ids)
                rollout.append((x, action, logprob, value, *kept))
            return workload.batch

        yield collect


@contextlib.contextmanager
def network_alone(workload: Workload) -> Iterator[Collect]:
    agent = cleanrl.Policy(policy_for(workload))
    with contextlib.closing(workload.make()) as env:
        x = torch.tensor(np.stack([env.reset(seed=1)[0]] * workload.num_envs))

    @torch.no_grad()
    def collect() -> int:
        for _ in range(workload.num_steps):
            agent.get_action_and_value(x)
        return workload.batch

    yield collect


def theirs(cls: Any, workload: Workload, **kwargs: Any) -> Any:
    return cls([workload.plain] * workload.num_envs, **kwargs)


def contestants() -> dict[Name, Any]:
    """By loop and vectorization, in the order of the table."""
    makers = {
        SB3: {
            IN_TURN[SB3]: functools.partial(theirs, DummyVecEnv),
            PROCESSES[SB3]: functools.partial(theirs, SubprocVecEnv, start_method="fork"),
            OURS: lambda workload: SB3VecEnv(our_vecenv(workload)),
        },
        CLEANRL: {
            IN_TURN[CLEANRL]: functools.partial(theirs, SyncVectorEnv),
            PROCESSES[CLEANRL]: functools.partial(theirs, AsyncVectorEnv),
            OURS: lambda workload: GymnasiumVectorEnv(our_vecenv(workload)),
        },
    }
    loops = {SB3: sb3_loop, CLEANRL: cleanrl_loop}
    found: dict[Name, Any] = {
        (loop, name): functools.partial(loops[loop], make)
        for loop, some in makers.items()
        for name, make in some.items()
    }
    return found | {(CLEANRL, POOL): cleanrl_pool, (NETWORK, ""): network_alone}


def rows_per_second(collect: Collect, seconds: float) -> float:
    count, start = 0, time.perf_counter()
    while (elapsed := time.perf_counter() - start) < seconds:
        count += collect()
    return count / elapsed


def measure(workload: Workload, seconds: float, repeats: int) -> dict[Name, float]:
    """The median speed of every contestant; all are open at once and take turns."""
    speeds: dict[Name, list[float]] = {}
    with contextlib.ExitStack() as stack:
        opened = {name: stack.enter_context(make(workload)) for name, make in contestants().items()}
        for collect in opened.values():
            collect()
        for _ in range(repeats):
            for name, collect in opened.items():
                speeds.setdefault(name, []).append(rows_per_second(collect, seconds))
    return {name: statistics.median(some) for name, some in speeds.items()}


def table(env: str, network: str, speeds: dict[Name, float]) -> Iterator[tuple[str, ...]]:
    """Rows of environment, loop, vectorization, speed, and how ours compares with theirs."""
    for (loop, name), speed in speeds.items():
        ratio = verdict = ""
        if name in (OURS, POOL):
            ratio = f"{speed / speeds[loop, IN_TURN[loop]]:.2f}"
            reached = speed / speeds[loop, PROCESSES[loop]]
            verdict = str(Judged(name, reached, GOALS[env], PROCESSES[loop]))
        yield f"{env}, {network} network", loop, name, f"{speed:,.0f}", ratio, verdict


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--envs", nargs="+", choices=GOALS, default=list(GOALS))
    parser.add_argument("--networks", nargs="+", choices=NETWORKS, default=list(NETWORKS))
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--markdown", type=Path, help="write the table here")
    args = parser.parse_args()
    torch.set_num_threads(1)
    headings = ("environment", "loop", "vectorization", "rows/s", "× in turn", "× processes")
    rows = []
    for env in args.envs:
        for network in args.networks:
            speeds = measure(NETWORKS[network](WORKLOADS[env]), args.seconds, args.repeats)
            new = list(table(env, network, speeds))
            show("Collection", headings, new)
            rows += new
    if args.markdown:
        args.markdown.write_text(as_markdown(headings, rows))


if __name__ == "__main__":
    main()
