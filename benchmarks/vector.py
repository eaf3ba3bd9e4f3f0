"""Compare vectorized environments in one run: Gymnasium, Stable-Baselines3 and pufferlib.

    python benchmarks/vector.py [--seconds 2] [--repeats 3] [--envs noop cartpole spin nethack]
                                [--json FILE] [--markdown FILE]

Every contestant steps the same environments with the same actions, several times for `--seconds`,
in turn with the others; the median counts. Only ratios within one run mean anything. The bound is
what the bare environment reaches on one core, times the cores. `noop` copies 64 floats.
`spin100-dev50` uses 100 µs of CPU time a step with a standard deviation of 50 %, cut at 0 (CPU time
of the thread: a spin by the clock would let a process "work" while it does not run). `uneven`
sleeps 1 ms a step, as if every worker had a core, and 1.25 ms in the last environment, whose core
is lastingly 20 % slower. A pool's batch is half of the environments, of any workers that finished
first. Contestants that are not installed are left out.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import importlib.metadata
import importlib.util
import json
import os
import platform
import statistics
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from gymnasium.vector import AsyncVectorEnv, SyncVectorEnv
from rich.console import Console
from rich.table import Table

from pufferlib import vector
from pufferlib.emulation import GymnasiumPufferEnv
from pufferlib.vector.sizes import available_cores

NUM_ENVS = 8
WORKERS = (1, 2, 4, 8)
ASYNC, SUBPROC = "Gymnasium Async", "SB3 Subproc"
SYNC, DUMMY, SERIAL = "Gymnasium Sync", "SB3 Dummy", "pufferlib Serial"
BOUND = "bound"
PEERS = (ASYNC, SUBPROC)


class NoOp(gymnasium.Env):
    """Costs nothing by itself, so that all time is the vectorization's."""

    observation_space = gymnasium.spaces.Box(-1, 1, (64,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self) -> None:
        self.observation = np.zeros(64, np.float32)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        """Show the zeros."""
        return self.observation, {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Show them again."""
        return self.observation, 1.0, False, False, {}


class Spin(NoOp):
    """Uses so many seconds of CPU time in a step, with a deviation relative to that."""

    def __init__(self, seconds: float = 100e-6, deviation: float = 0.0) -> None:
        super().__init__()
        self.seconds, self.deviation = seconds, deviation
        self.generator = np.random.default_rng()  # unlike the other environments'

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Show the zeros after a while."""
        factor = 1 + self.deviation * self.generator.standard_normal()
        end = time.thread_time() + self.seconds * factor
        while time.thread_time() < end:
            pass
        return super().step(action)


class Sleep(NoOp):
    """Takes so many seconds for a step, but no core."""

    def __init__(self, seconds: float = 1e-3) -> None:
        super().__init__()
        self.seconds = seconds

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Show the zeros after a while."""
        time.sleep(self.seconds)
        return super().step(action)


def cartpole() -> gymnasium.Env[Any, Any]:
    return gymnasium.make("CartPole-v1")


def nethack() -> gymnasium.Env[Any, Any]:
    """The binding's environment before emulation, for everybody."""
    from pufferlib.environments.nethack import make_env

    return make_env().env


Creator = Callable[[], gymnasium.Env[Any, Any]]

# What makes an environment, or one such for each.
ENVS: dict[str, Creator | list[Creator]] = {
    "noop": NoOp,
    "cartpole": cartpole,
    **{
        f"spin{mean}" + f"-dev{deviation}" * (deviation > 0): functools.partial(
            Spin, mean * 1e-6, deviation / 100
        )
        for mean in (100, 500)
        for deviation in (0, 50, 100)
    },
    "uneven": [*[Sleep] * (NUM_ENVS - 1), functools.partial(Sleep, 1.25e-3)],
    "nethack": nethack,
}

# How many times a bare environment's speed is possible, where it is not the number of cores.
BOUNDS = {"uneven": NUM_ENVS - 1 + 1 / 1.25}


def each(creator: Creator | list[Creator]) -> list[Creator]:
    """One per environment."""
    return creator if isinstance(creator, list) else [creator] * NUM_ENVS


def ours(workers: int, pool: bool = False) -> str:
    """The name of a contestant."""
    return f"pufferlib {workers} worker" + "s" * (workers > 1) + ", pool" * pool


@dataclass(frozen=True)
class Target:
    """`name` reaches at least `ratio` times each of `against` on `env`."""

    env: str
    name: str
    ratio: float
    against: tuple[str, ...]

    def ratio_reached(self, speeds: dict[str, float]) -> float | None:
        """None if a contestant is missing."""
        if self.name not in speeds or not set(self.against) & set(speeds):
            return None
        return speeds[self.name] / max(speeds[peer] for peer in self.against if peer in speeds)


# The design's numbers for two cores.
TARGETS = (
    Target("noop", ours(2), 20, PEERS),
    Target("noop", ours(4), 10, PEERS),
    Target("noop", ours(8), 10, PEERS),
    Target("noop", SERIAL, 1.5, (SYNC,)),
    Target("cartpole", SERIAL, 1.0, (SYNC,)),
    Target("spin100", ours(2, pool=True), 0.9, (BOUND,)),
    Target("spin500", ours(2, pool=True), 0.9, (BOUND,)),
    Target("spin500-dev100", ours(4, pool=True), 0.9, (BOUND,)),
    Target("nethack", ours(2), 5, (ASYNC,)),
    Target("nethack", ours(2), 0.7, (BOUND,)),
)

# A contestant: something that steps some environments and says how many, while its context is open.
Stepper = contextlib.AbstractContextManager[Callable[[], int]]


@contextlib.contextmanager
def bare(creator: Any, actions: Any) -> Iterator[Callable[[], int]]:
    """One environment without any vectorization, reset when it must be."""
    env = each(creator)[0]()
    env.reset(seed=0)

    def step() -> int:
        for action in actions:
            _, _, terminal, truncation, _ = env.step(action)
            if terminal or truncation:
                env.reset()
        return len(actions)

    yield step
    env.close()


@contextlib.contextmanager
def gymnasium_vector(cls: Any, creator: Any, actions: Any) -> Iterator[Callable[[], int]]:
    envs = cls(each(creator))
    envs.reset(seed=0)
    yield lambda: len(envs.step(actions)[1])
    envs.close()


@contextlib.contextmanager
def sb3(name: str, creator: Any, actions: Any) -> Iterator[Callable[[], int]]:
    from stable_baselines3.common import vec_env

    # The start method that the others use as well.
    kwargs = {"start_method": "fork"} if name == "SubprocVecEnv" else {}
    envs = getattr(vec_env, name)(each(creator), **kwargs)
    envs.reset()
    yield lambda: len(envs.step(actions)[1])
    envs.close()


def emulate(creator: Any) -> GymnasiumPufferEnv:
    return GymnasiumPufferEnv(creator())


@contextlib.contextmanager
def pufferlib_vector(creator: Any, actions: Any, **kwargs: Any) -> Iterator[Callable[[], int]]:
    creators = [functools.partial(emulate, one) for one in each(creator)]
    with vector.make(creators, num_envs=len(actions), **kwargs) as vecenv:
        vecenv.async_reset(seed=0)
        vecenv.recv()
        actions = actions[: vecenv.agents_per_batch]

        def step() -> int:
            vecenv.send(actions)
            return len(vecenv.recv()[1])

        yield step


def contestants(workers: tuple[int, ...]) -> dict[str, Callable[..., Stepper]]:
    """By name, in the order of the table."""
    found: dict[str, Callable[..., Stepper]] = {
        BOUND: bare,
        SYNC: functools.partial(gymnasium_vector, SyncVectorEnv),
        ASYNC: functools.partial(gymnasium_vector, AsyncVectorEnv),
    }
    if importlib.util.find_spec("stable_baselines3"):
        found[DUMMY] = functools.partial(sb3, "DummyVecEnv")
        found[SUBPROC] = functools.partial(sb3, "SubprocVecEnv")
    found[SERIAL] = functools.partial(pufferlib_vector, backend="serial")
    for n in workers:
        found[ours(n)] = functools.partial(
            pufferlib_vector, backend="multiprocessing", num_workers=n
        )
    for n in workers:
        if n > 1:
            found[ours(n, pool=True)] = functools.partial(
                pufferlib_vector,
                backend="multiprocessing",
                num_workers=n,
                batch_size=NUM_ENVS // 2,
                zero_copy=False,
            )
    return found


def steps_per_second(stepper: Stepper, seconds: float) -> float:
    """Environment steps per second over about `seconds`, after a short warm-up."""
    with stepper as step:
        for _ in range(5):
            step()
        count, start = 0, time.perf_counter()
        while (elapsed := time.perf_counter() - start) < seconds:
            count += step()
        return count / elapsed


@dataclass
class Results:
    """Medians in steps per second, by environment and contestant."""

    speeds: dict[str, dict[str, float]] = field(default_factory=dict)

    def measure(self, env: str, workers: tuple[int, ...], seconds: float, repeats: int) -> None:
        """All contestants in turn, `repeats` times."""
        creator = ENVS[env]
        example = each(creator)[0]()
        example.action_space.seed(0)
        actions = np.array([example.action_space.sample() for _ in range(NUM_ENVS)])
        example.close()
        runs: dict[str, list[float]] = {}
        for _ in range(repeats):
            for name, contestant in contestants(workers).items():
                speed = steps_per_second(contestant(creator, actions), seconds)
                runs.setdefault(name, []).append(speed)
        self.speeds[env] = {name: statistics.median(values) for name, values in runs.items()}
        self.speeds[env][BOUND] *= BOUNDS.get(env, available_cores())

    def judged(self) -> Iterator[tuple[Target, float]]:
        """The targets that could be measured and what was reached."""
        for target in TARGETS:
            reached = target.ratio_reached(self.speeds.get(target.env, {}))
            if reached is not None:
                yield target, reached


def ratio(value: float) -> str:
    return f"{value:.2f}" if value < 10 else f"{value:.0f}"


def show(results: Results, console: Console) -> None:
    table = Table(title=f"{NUM_ENVS} environments on {available_cores()} cores")
    table.add_column("environment")
    table.add_column("contestant")
    for heading in ("steps/s", "× Gym Sync", "× Gym Async", "× SB3 Subproc", "% of bound"):
        table.add_column(heading, justify="right")
    table.add_column("target")
    for env, speeds in results.speeds.items():
        for name, speed in speeds.items():
            cells = [ratio(speed / speeds[p]) if p in speeds else "" for p in (SYNC, *PEERS)]
            table.add_row(
                env,
                name,
                f"{speed:,.0f}",
                *cells,
                f"{100 * speed / speeds[BOUND]:.0f}",
                verdicts(results, env, name),
            )
        table.add_section()
    console.print(table)


def verdicts(results: Results, env: str, name: str) -> str:
    texts = []
    for target, reached in results.judged():
        if (target.env, target.name) == (env, name):
            color, word = ("green", "pass") if reached >= target.ratio else ("red", "FAIL")
            against = " and ".join(target.against)
            texts.append(
                f"[{color}]{word}[/] {ratio(reached)} of {ratio(target.ratio)} × {against}"
            )
    return "\n".join(texts)


def as_markdown(results: Results) -> str:
    """The table of the README: steps per second, and ours against the faster peer."""
    envs = list(results.speeds)
    names = [name for name in results.speeds[envs[0]] if name != BOUND]

    def cell(env: str, name: str) -> str:
        speeds = results.speeds[env]
        text = f"{round(speeds[name], -2):,.0f}"
        if name.startswith("pufferlib"):
            fastest = max(speeds[peer] for peer in PEERS if peer in speeds)
            text += f" ({ratio(speeds[name] / fastest)}×)"
        return text

    heading = [f"steps/s, {NUM_ENVS} environments, {available_cores()} cores", *envs]
    rows = [heading, ["---"] * len(heading)]
    rows += [[name, *(cell(env, name) for env in envs)] for name in names]
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def as_json(results: Results) -> dict[str, Any]:
    return {
        "machine": {
            "cores": available_cores(),
            "load": os.getloadavg()[0],
            "platform": platform.platform(),
            "python": platform.python_version(),
        },
        "versions": {
            name: importlib.metadata.version(name)
            for name in ("pufferlib", "gymnasium", "stable_baselines3", "nle")
            if importlib.util.find_spec(name)
        },
        "num_envs": NUM_ENVS,
        "steps_per_second": results.speeds,
        "targets": [
            {
                "env": target.env,
                "name": target.name,
                "against": target.against,
                "ratio": target.ratio,
                "reached": reached,
                "pass": reached >= target.ratio,
            }
            for target, reached in results.judged()
        ],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=2.0, help="per measurement")
    parser.add_argument("--repeats", type=int, default=3, help="of which the median counts")
    parser.add_argument("--envs", nargs="+", choices=ENVS, default=list(ENVS))
    parser.add_argument("--workers", nargs="+", type=int, default=WORKERS)
    parser.add_argument("--markdown", type=Path, help="write the README's table to this file")
    parser.add_argument("--json", type=Path, help="also write the results to this file")
    args = parser.parse_args()
    warnings.simplefilter("ignore")  # more workers than cores is the point
    console, results = Console(width=None if os.isatty(1) else 140), Results()
    for env in args.envs:
        if env == "nethack" and not importlib.util.find_spec("nle"):
            console.print("nle is not installed: nethack is left out (puffer install nethack)")
            continue
        with console.status(f"measuring {env} …"):
            results.measure(env, tuple(args.workers), args.seconds, args.repeats)
    show(results, console)
    if args.markdown:
        args.markdown.write_text(as_markdown(results))
    if args.json:
        args.json.write_text(json.dumps(as_json(results), indent=2) + "\n")


if __name__ == "__main__":
    main()
