"""The learners of `learning.py`: one of them on one task with one seed, in a process of its own.

    python benchmarks/learners.py LEARNER TASK SEED --out FILE

All have the network, the optimizer (Adam, eps 1e-5), the learning rate that falls linearly to zero,
the normalized advantages, the unclipped value loss with weight 0.5 and gradients of norm 0.5.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import runpy
import sys
import tempfile
import time
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import cleanrl_gym
import numpy as np
import torch
from curriculum import TASKS, Episodes, Task, make_env
from networks import ActorCritic
from report import commit, versions

from pufferlib import clean_pufferl, vector
from pufferlib.emulation import GymnasiumPufferEnv
from pufferlib.models import Convolutional
from pufferlib.trainer.config import TrainConfig

VF_COEF, MAX_GRAD_NORM = 0.5, 0.5
LAST_EPISODES = 100
CURVE_POINTS = 100


def emulated(task: Task, episodes: Episodes) -> GymnasiumPufferEnv:
    return GymnasiumPufferEnv(make_env(task, episodes))


def train_pufferlib(task: Task, seed: int, episodes: Episodes) -> None:
    """Our trainer as a user calls it."""
    settings = task.settings
    batch = settings.num_envs * settings.num_steps
    config = TrainConfig(
        seed=seed,
        device="cpu",
        total_timesteps=settings.total_timesteps,
        learning_rate=settings.learning_rate,
        gamma=settings.gamma,
        gae_lambda=settings.gae_lambda,
        update_epochs=settings.update_epochs,
        batch_size=batch,
        minibatch_size=batch // settings.num_minibatches,
        bptt_horizon=settings.num_steps,
        clip_coef=settings.clip_coef,
        clip_vloss=False,
        vf_coef=VF_COEF,
        ent_coef=settings.ent_coef,
        max_grad_norm=MAX_GRAD_NORM,
    )
    creator = functools.partial(emulated, task, episodes)
    with vector.make(creator, num_envs=settings.num_envs, seed=seed) as vecenv:
        torch.manual_seed(seed)
        network = Convolutional if task.is_atari else ActorCritic
        policy = network(vecenv.driver_env)
        trainer = clean_pufferl.create(config, vecenv, policy, run_dir=Path.cwd())
        while trainer.global_step < config.total_timesteps:
            clean_pufferl.evaluate(trainer)
            clean_pufferl.train(trainer)


def train_sb3(task: Task, seed: int, episodes: Episodes) -> None:
    """Stable-Baselines3's PPO, whose default network is the same."""
    from stable_baselines3 import PPO
    from stable_baselines3.common.vec_env import DummyVecEnv

    settings = task.settings
    envs = DummyVecEnv([functools.partial(make_env, task, episodes)] * settings.num_envs)
    model = PPO(
        "CnnPolicy" if task.is_atari else "MlpPolicy",
        envs,
        learning_rate=lambda left: left * settings.learning_rate,
        n_steps=settings.num_steps,
        batch_size=settings.num_envs * settings.num_steps // settings.num_minibatches,
        n_epochs=settings.update_epochs,
        gamma=settings.gamma,
        gae_lambda=settings.gae_lambda,
        clip_range=settings.clip_coef,
        ent_coef=settings.ent_coef,
        vf_coef=VF_COEF / 2,  # its value loss has no factor of 1/2
        max_grad_norm=MAX_GRAD_NORM,
        seed=seed,
        device="cpu",
    )
    model.learn(settings.total_timesteps)
    envs.close()


def train_cleanrl(task: Task, seed: int, episodes: Episodes) -> None:
    """CleanRL's own script, as its authors published it."""
    make = functools.partial(task.recorded, episodes)
    if task.is_continuous:
        sys.modules["gymnasium"] = cleanrl_gym.as_gymnasium(make)
    else:
        sys.modules["gym"] = cleanrl_gym.as_gym(make)
    flags = asdict(task.settings) | {
        "env_id": task.title.replace("/", "-"),
        "seed": seed,
        "cuda": False,
        "clip_vloss": False,
        "vf_coef": VF_COEF,
        "max_grad_norm": MAX_GRAD_NORM,
    }
    sys.argv = [task.script, *cleanrl_gym.as_flags(flags)]
    runpy.run_module(f"cleanrl.{task.script}", run_name="__main__")


LEARNERS = {"pufferlib": train_pufferlib, "CleanRL": train_cleanrl, "SB3": train_sb3}


def train(learner: str, task: Task, seed: int) -> dict[str, Any]:
    """Train, and say what came out; see `Episodes` for what is measured."""
    episodes = Episodes()
    torch.set_num_threads(1)
    LEARNERS[learner](task, seed, episodes)
    assert episodes.begun is not None
    wall, cpu = time.perf_counter() - episodes.begun[0], time.process_time() - episodes.begun[1]
    if not episodes.returns:
        sys.exit(f"{task.title}: no episode ended in {episodes.total_steps} steps; train for more")
    steps, returns = np.array(episodes.steps), np.array(episodes.returns)
    return {
        "learner": learner,
        "task": task.title,
        "seed": seed,
        "settings": asdict(task.settings),
        "final_return": float(returns[-LAST_EPISODES:].mean()),
        "final_episodes": len(returns[-LAST_EPISODES:]),
        "episodes": len(returns),
        "wall_seconds": round(wall, 1),
        "cpu_seconds": round(cpu, 1),
        "load": round(os.getloadavg()[0], 1),
        "curve": curve(steps, returns, task.settings.total_timesteps),
        "commit": commit(),
        "versions": versions(),
    }


def curve(steps: Any, returns: Any, total: int) -> list[list[float]]:
    """Mean return of the episodes that ended in each hundredth of the steps, where any did."""
    part = np.minimum(steps * CURVE_POINTS // total, CURVE_POINTS - 1)
    return [
        [round((i + 1) * total / CURVE_POINTS), round(float(returns[part == i].mean()), 4)]
        for i in np.unique(part)
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("learner", choices=LEARNERS)
    parser.add_argument("task", choices=TASKS)
    parser.add_argument("seed", type=int)
    parser.add_argument("--out", type=Path, required=True, help="the JSON file to write")
    parser.add_argument("--steps", type=int, help="instead of the task's own number")
    args = parser.parse_args()
    task, out = TASKS[args.task], args.out.absolute()
    if args.steps:
        task = replace(task, settings=replace(task.settings, total_timesteps=args.steps))
    with tempfile.TemporaryDirectory() as directory:
        os.chdir(directory)  # CleanRL writes its curves below the working directory
        result = train(args.learner, task, args.seed)
        os.chdir(out.parent)
    out.write_text(json.dumps(result) + "\n")


if __name__ == "__main__":
    main()
