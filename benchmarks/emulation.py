"""What emulation and `Serial` add to an environment's own step, beside Gymnasium's SyncVectorEnv.

    python benchmarks/emulation.py [--seconds 1] [--repeats 5]

Times are microseconds of CPU time per environment step (all is one process, so that other programs
matter little), medians of runs in turn; "added" is the difference to as many bare environments,
stepped one after the other. All of them play the same episodes, from the same seeds.

What is added to an environment with a step of its own is not all work of ours. Our code and its
data, and the environment's, take turns in the processor's caches and branch predictors, and each
finds them emptier than it would alone, the more of them the environment uses. `replay` separates
the two: it has the spaces, the observations (a new array each, as there), the rewards and the
episodes of CartPole, which it recorded beforehand, so that its step costs next to nothing and what
is added is what our code takes, resets included. The row `cartpole` shows the sum, which has to
stay below Gymnasium's.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any

import gymnasium
from contestants import SERIAL, SYNC, Stepper, contestants
from rich.console import Console
from rich.table import Table
from vector import ratio, sample_actions
from workloads import WORKLOADS, Creator, Workload, cartpole

from pufferlib.vector.seeds import spread_seed

BARE = "bare"

# The goals: microseconds, a share of the environment's step, the ratio to Sync.
LIMIT_US = {"noop": 1.0, "replay": 1.0}
LIMIT_SHARE = {"nethack": 0.10}
LIMIT_RATIO = {"noop": 1.5, "cartpole": 1.0}


class Replay(gymnasium.Env):
    """Gives what CartPole gave under one action, for three episodes and then again."""

    def __init__(self) -> None:
        env = cartpole()
        self.observation_space, self.action_space = env.observation_space, env.action_space
        self.recorded = itertools.cycle(list(self.record(env)))

    def record(self, env: gymnasium.Env[Any, Any]) -> Iterator[tuple[Any, ...]]:
        """What reset and step return, in turn."""
        for seed in range(3):
            result: tuple[Any, ...] = env.reset(seed=seed)
            yield result
            while len(result) == 2 or not (result[2] or result[3]):
                result = env.step(0)
                yield result

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        """Begin the next episode."""
        while len(result := next(self.recorded)) != 2:
            pass
        return result[0].copy(), {}

    def step(self, action: Any) -> Any:
        """Whatever the action is."""
        observation, reward, terminal, truncation, _ = next(self.recorded)
        return observation.copy(), reward, terminal, truncation, {}


MEASURED = {
    "noop": WORKLOADS["noop"],
    "replay": Workload([Replay] * 8),
    "cartpole": WORKLOADS["cartpole"],
    "nethack": WORKLOADS["nethack"],
}


@contextlib.contextmanager
def bare(creators: list[Creator], actions: Any) -> Iterator[Callable[[], Any]]:
    """Environments without any vectorization, each reset when it must be, as `Serial` does."""
    envs = [creator() for creator in creators]
    for env, seed in zip(envs, spread_seed(0, len(envs)), strict=True):
        env.reset(seed=seed)
    pairs = list(zip(envs, actions.tolist(), strict=True))
    ended = [False] * len(pairs)

    def step() -> None:
        for i, (env, action) in enumerate(pairs):
            if ended[i]:
                env.reset()
                ended[i] = False
            else:
                _, _, terminal, truncation, _ = env.step(action)
                ended[i] = terminal or truncation

    yield step
    for env in envs:
        env.close()


def microseconds(workload: Workload, seconds: float, repeats: int) -> dict[str, float]:
    """Per step, by contestant, over as many steps as Gymnasium's do in `seconds`."""
    creators, actions = workload.creators, sample_actions(workload)
    others = contestants(())
    chosen = {BARE: bare, SYNC: others[SYNC], SERIAL: others[SERIAL]}
    steps = int(seconds * 1e6 / step_time(chosen[SYNC](creators, actions), 200, len(creators)))
    runs: dict[str, list[float]] = {name: [] for name in chosen}
    for _ in range(repeats):
        for name, make in chosen.items():
            runs[name].append(step_time(make(creators, actions), steps, len(creators)))
    return {name: statistics.median(values) for name, values in runs.items()}


def step_time(stepper: Stepper, steps: int, num_envs: int) -> float:
    """Microseconds of CPU time per environment step over `steps` of them, after a warm-up."""
    with stepper as step:
        for _ in range(20):
            step()
        rounds = max(1, steps // num_envs)
        start = time.process_time()
        for _ in range(rounds):
            step()
        return 1e6 * (time.process_time() - start) / (rounds * num_envs)


def verdicts(env: str, bare: float, sync: float, serial: float) -> str:
    added, texts = serial - bare, []
    if env in LIMIT_US or env in LIMIT_SHARE:
        limit = LIMIT_US.get(env, LIMIT_SHARE.get(env, 0) * bare)
        texts.append(judged(added <= limit, f"adds at most {limit:.2f} µs"))
    if env in LIMIT_RATIO:
        text = f"at least {ratio(LIMIT_RATIO[env])} × Sync"
        texts.append(judged(sync / serial >= LIMIT_RATIO[env], text))
    return "\n".join(texts)


def judged(good: bool, text: str) -> str:
    color, word = ("green", "pass") if good else ("red", "FAIL")
    return f"[{color}]{word}[/] {text}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=1.0, help="per measurement")
    parser.add_argument("--repeats", type=int, default=5, help="of which the median counts")
    args = parser.parse_args()
    table = Table(title="microseconds per step")
    table.add_column("environment")
    for heading in (BARE, SYNC, SERIAL, "added by Sync", "added by us", "ratio to Sync"):
        table.add_column(heading, justify="right")
    table.add_column("target")
    for env, workload in MEASURED.items():
        if workload.missing:
            continue
        times = microseconds(workload, args.seconds, args.repeats)
        bare, sync, serial = times[BARE], times[SYNC], times[SERIAL]
        cells = [f"{value:.2f}" for value in (bare, sync, serial, sync - bare, serial - bare)]
        row = [env, *cells, ratio(sync / serial), verdicts(env, bare, sync, serial)]
        table.add_row(*row)
    Console(width=140).print(table)


if __name__ == "__main__":
    main()
