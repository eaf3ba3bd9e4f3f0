"""Sample Factory's loop for `training.py`, in the environment of `constraints/sample-factory.txt`.

    python benchmarks/sample_factory_loop.py cartpole|breakout [--seconds 3] [--workers 1]

Prints environment steps per second, from the first update on. Runs without pufferlib, whose lock
Sample Factory cannot share; the sizes are those of `loops.WORKLOADS`.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import sys
import tempfile
import time
from typing import Any

import gymnasium
import torch
from sample_factory.algo.runners.runner import AlgoObserver, Runner
from sample_factory.cfg.arguments import parse_full_cfg, parse_sf_args
from sample_factory.envs.env_utils import register_env
from sample_factory.train import make_runner
from sf_examples.atari.atari_params import atari_override_defaults
from sf_examples.atari.atari_utils import make_atari_env

NUM_ENVS, NUM_EPOCHS, NUM_MINIBATCHES = 8, 4, 4

WORKLOADS: dict[str, dict[str, Any]] = {
    "cartpole": {
        "env": "CartPole-v1",
        "rollout": 128,
        "encoder_mlp_layers": "64 64",
        "nonlinearity": "tanh",
        "actor_critic_share_weights": False,
        "normalize_input": False,
        "normalize_returns": False,
    },
    "breakout": {"env": "atari_breakout", "rollout": 32, "normalize_returns": False},
}


class Marks(AlgoObserver):
    """When how many steps were learnt from, and the end of it."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self.marks: list[tuple[float, int]] = []

    def on_training_step(self, runner: Runner, training_iteration_since_resume: int) -> None:
        """Note it; after long enough let this be the last one."""
        steps = runner.total_env_steps_since_resume
        if steps:
            self.marks.append((time.perf_counter(), steps))
            if self.marks[-1][0] - self.marks[0][0] >= self._seconds:
                runner.cfg.train_for_env_steps = 0  # version 2.1.1 never counts the seconds

    def speed(self) -> float:
        """Steps per second from the first mark to the last."""
        (begun, first), (end, last) = self.marks[0], self.marks[-1]
        return (last - first) / (end - begun) if end > begun else 0.0


def make_registered(name: str, *_: Any, **__: Any) -> Any:
    """The signature is Sample Factory's, and a function of a module travels to its workers."""
    return gymnasium.make(name)


def make_breakout(*arguments: Any, **options: Any) -> Any:
    """As Sample Factory's example makes it; its workers have to know of the games, too."""
    importlib.import_module("ale_py")
    return make_atari_env(*arguments, **options)


def settings(workload: str, workers: int, directory: str) -> dict[str, Any]:
    """Command-line options of Sample Factory."""
    chosen = WORKLOADS[workload]
    return chosen | {
        "algo": "APPO",
        "train_dir": directory,
        "experiment": "loop",
        "device": "cpu",
        "num_workers": workers,
        "num_envs_per_worker": NUM_ENVS // workers,
        "worker_num_splits": 2 if NUM_ENVS // workers > 1 else 1,
        "batch_size": NUM_ENVS * chosen["rollout"] // NUM_MINIBATCHES,
        "num_batches_per_epoch": NUM_MINIBATCHES,
        "num_epochs": NUM_EPOCHS,
        "use_rnn": False,
        "recurrence": 1,
        "with_vtrace": False,
        "restart_behavior": "overwrite",
    }


def steps_per_second(workload: str, workers: int, threads: int, seconds: float) -> float:
    torch.set_num_threads(threads)
    with tempfile.TemporaryDirectory() as directory:
        flags = []
        for name, value in settings(workload, workers, directory).items():
            flags += [f"--{name}", *str(value).split()]
        parser, partial = parse_sf_args(flags)
        if workload == "breakout":
            register_env("atari_breakout", make_breakout)
            atari_override_defaults(partial.env, parser)
        else:
            register_env("CartPole-v1", make_registered)
        _, runner = make_runner(parse_full_cfg(parser, flags))
        observer = Marks(seconds)
        runner.register_observer(observer)
        runner.init()
        runner.run()
        return observer.speed()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("workload", choices=WORKLOADS)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--threads", type=int, default=1, help="of torch, in the learner")
    parser.add_argument("--workers", type=int, default=1)
    args = parser.parse_args()
    with contextlib.redirect_stdout(sys.stderr):
        speed = steps_per_second(args.workload, args.workers, args.threads, args.seconds)
    print(speed)


if __name__ == "__main__":
    main()
