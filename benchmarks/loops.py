"""Whole training loops of `training.py`: one contestant on one workload, in a process of its own.

    python benchmarks/loops.py CONTESTANT WORKLOAD [--seconds 3] [--threads 1] [--workers 0]

Prints environment steps per second, from the end of the first update to the end of a later one.
Every contestant has the network, the environments, the batch, the passes and the minibatches of
the workload. `--workers 0` steps the environments in the learner's process.
"""

from __future__ import annotations

import argparse
import atexit
import contextlib
import io
import itertools
import os
import runpy
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import gymnasium
import torch
from gymnasium.wrappers import FlattenObservation
from networks import ActorCritic
from torch import nn

from pufferlib import clean_pufferl, vector
from pufferlib.emulation import GymnasiumPufferEnv
from pufferlib.postprocess import EpisodeStats
from pufferlib.trainer.config import TrainConfig

ENDLESS = 1_000_000_000
Env = gymnasium.Env[Any, Any]


@dataclass(frozen=True, kw_only=True)
class Workload:
    """What every contestant does.

    Attributes:
        make: our environment.
        policy: our network, from the spaces of the environments.
        script: CleanRL's with the same network, None if it has none.
        bare: the environment for that script, where that brings its own preprocessing.
        sb3: SB3's policy with the same network; None: ours, on rows that emulation made.
        num_envs, num_steps, num_minibatches, update_epochs: as in `curriculum.Settings`.
    """

    make: Callable[[], GymnasiumPufferEnv]
    policy: Callable[[Any], nn.Module]
    script: str | None = None
    bare: Callable[[], Env] | None = None
    sb3: str | None = None
    num_envs: int = 8
    num_steps: int = 128
    num_minibatches: int = 4
    update_epochs: int = 4

    def plain(self) -> Env:
        """The environment for the others."""
        env = self.make()
        return env.env if self.sb3 else env

    @property
    def batch(self) -> int:
        """Steps in an update."""
        return self.num_envs * self.num_steps


def cartpole() -> GymnasiumPufferEnv:
    from pufferlib.environments.classic_control import make_env

    return make_env("CartPole-v1")


def squared() -> GymnasiumPufferEnv:
    from pufferlib.environments.ocean.sanity import Squared

    return GymnasiumPufferEnv(EpisodeStats(FlattenObservation(Squared())))


def breakout() -> GymnasiumPufferEnv:
    from pufferlib.environments.atari import make_env

    return make_env("breakout")


def breakout_frames() -> Env:
    import curriculum

    return curriculum.breakout_frames()


def nethack() -> GymnasiumPufferEnv:
    from pufferlib.environments.nethack import make_env

    return make_env()


def atari_policy(env: Any) -> nn.Module:
    from pufferlib.environments.atari import Policy

    return Policy(env)


def nethack_policy(env: Any) -> nn.Module:
    from pufferlib.environments.nethack import Policy

    return Policy(env)


WORKLOADS: dict[str, Workload] = {
    "cartpole": Workload(make=cartpole, policy=ActorCritic, script="ppo", sb3="MlpPolicy"),
    "squared": Workload(make=squared, policy=ActorCritic, script="ppo", sb3="MlpPolicy"),
    "breakout": Workload(
        make=breakout,
        policy=atari_policy,
        script="ppo_atari",
        bare=breakout_frames,
        sb3="CnnPolicy",
        num_steps=32,
    ),
    "nethack": Workload(make=nethack, policy=nethack_policy, num_steps=32),
}


@dataclass(frozen=True)
class Setting:
    """How a contestant uses the machine."""

    threads: int = 1
    """Of torch."""
    workers: int = 0
    """Processes that step environments; 0: the learner's own process does."""
    pool: bool = False
    """The policy gets half of the environments at a time, while the others step."""

    def __str__(self) -> str:
        parts = [f"{self.workers} workers"] if self.workers else []
        return ", ".join([*parts, *["pool"] * self.pool, f"{self.threads} torch threads"])


class Enough(Exception):  # noqa: N818 - ends a loop that does not end by itself; no error
    """The loop was measured."""


class Pace:
    """Steps per second between the ends of two updates, the first one not counted."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._first: tuple[int, float] | None = None
        self.speed = 0.0

    def mark(self, steps: int) -> None:
        """`steps` were done, and learnt from.

        Raises:
            Enough: the first mark is long enough ago; `speed` is there.
        """
        now = time.perf_counter()
        if self._first is None:
            self._first = steps, now
            return
        first_steps, begun = self._first
        if now - begun >= self._seconds:
            self.speed = (steps - first_steps) / (now - begun)
            raise Enough


class Paced(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Marks the pace when the first environment begins to collect another batch."""

    def __init__(self, env: Env, pace: Pace, workload: Workload) -> None:
        super().__init__(env)
        self._pace, self._workload = pace, workload
        self._steps = 0

    def step(self, action: Any) -> Any:
        """One step."""
        if self._steps and self._steps % self._workload.num_steps == 0:
            self._pace.mark(self._steps * self._workload.num_envs)
        self._steps += 1
        return self.env.step(action)


@contextlib.contextmanager
def made_trainer(workload: Workload, setting: Setting) -> Iterator[clean_pufferl.Trainer]:
    """Ours, with a directory while the context is open."""
    kwargs: dict[str, Any] = {"backend": "serial"}
    if setting.workers:
        kwargs = {"backend": "multiprocessing", "num_workers": setting.workers}
    if setting.pool:
        kwargs |= {"batch_size": workload.num_envs // 2}
    config = TrainConfig(
        device="cpu",
        torch_threads=setting.threads,
        total_timesteps=ENDLESS,
        batch_size=workload.batch,
        minibatch_size=workload.batch // workload.num_minibatches,
        bptt_horizon=workload.num_steps,
        update_epochs=workload.update_epochs,
    )
    with (
        vector.make(workload.make, num_envs=workload.num_envs, **kwargs) as vecenv,
        tempfile.TemporaryDirectory() as directory,
    ):
        policy = workload.policy(vecenv.driver_env)
        yield clean_pufferl.create(config, vecenv, policy, run_dir=directory)


def run_pufferlib(workload: Workload, pace: Pace, setting: Setting) -> None:
    with made_trainer(workload, setting) as trainer:
        while True:
            clean_pufferl.evaluate(trainer)
            clean_pufferl.train(trainer)
            pace.mark(trainer.global_step)


def run_sb3(workload: Workload, pace: Pace, setting: Setting) -> None:
    """Workers are a process per environment, however many: SB3 has no other kind."""
    from stable_baselines3 import PPO
    from stable_baselines3.common.callbacks import BaseCallback
    from stable_baselines3.common.vec_env import DummyVecEnv, SubprocVecEnv

    from pufferlib.frameworks.sb3 import Policy

    class Mark(BaseCallback):
        def _on_rollout_start(self) -> None:
            if self.num_timesteps:
                pace.mark(self.num_timesteps)

        def _on_step(self) -> bool:
            return True

    makers = [workload.plain] * workload.num_envs
    envs = SubprocVecEnv(makers, start_method="fork") if setting.workers else DummyVecEnv(makers)
    ours = {"policy": Policy, "policy_kwargs": {"policy": workload.policy(workload.make())}}
    model = PPO(
        **({"policy": workload.sb3} if workload.sb3 else ours),
        env=envs,
        n_steps=workload.num_steps,
        batch_size=workload.batch // workload.num_minibatches,
        n_epochs=workload.update_epochs,
        device="cpu",
    )
    torch.set_num_threads(setting.threads)
    try:
        model.learn(ENDLESS, callback=Mark())
    finally:
        envs.close()


def run_cleanrl(workload: Workload, pace: Pace, setting: Setting) -> None:
    """CleanRL's own script: environments step in turn, in this process."""
    import cleanrl_gym

    number = itertools.count()

    def make() -> Env:
        env = (workload.bare or workload.plain)()
        return env if next(number) else Paced(env, pace, workload)

    sys.modules["gym"] = cleanrl_gym.as_gym(make)
    torch.set_num_threads(setting.threads)
    flags = {
        "cuda": False,
        "total_timesteps": ENDLESS,
        "num_envs": workload.num_envs,
        "num_steps": workload.num_steps,
        "num_minibatches": workload.num_minibatches,
        "update_epochs": workload.update_epochs,
    }
    sys.argv = [str(workload.script), *cleanrl_gym.as_flags(flags)]
    # Its log is still written at the exit, by what registers itself after this.
    directory = tempfile.mkdtemp()
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    os.chdir(directory)
    runpy.run_module(f"cleanrl.{workload.script}", run_name="__main__")


CONTESTANTS = {"pufferlib": run_pufferlib, "CleanRL": run_cleanrl, "SB3": run_sb3}


def steps_per_second(contestant: str, workload: str, seconds: float, setting: Setting) -> float:
    pace = Pace(seconds)
    with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(Enough):
        CONTESTANTS[contestant](WORKLOADS[workload], pace, setting)
    return pace.speed


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("contestant", choices=CONTESTANTS)
    parser.add_argument("workload", choices=WORKLOADS)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--threads", type=int, default=1, help="of torch")
    parser.add_argument("--workers", type=int, default=0, help="processes for the environments")
    parser.add_argument("--pool", action="store_true", help="batches are half of the environments")
    args = parser.parse_args()
    setting = Setting(args.threads, args.workers, args.pool)
    print(steps_per_second(args.contestant, args.workload, args.seconds, setting))


if __name__ == "__main__":
    main()
