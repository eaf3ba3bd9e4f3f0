"""`puffer autotune ENV`: how to run an environment fastest on this machine, kept for training."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from gymnasium.spaces import Space
from numpy.typing import NDArray

from pufferlib import environments
from pufferlib.commands.arguments import Option, parse_config
from pufferlib.commands.train import find_option, split_environment
from pufferlib.exceptions import ConfigError
from pufferlib.models import is_recurrent
from pufferlib.pytorch import sample_logits
from pufferlib.trainer import tuned
from pufferlib.trainer.collect import as_env_actions
from pufferlib.trainer.config import Config
from pufferlib.trainer.prepare import pick_device, use_threads
from pufferlib.trainer.setup import config_of_files, make_policy, make_vecenv
from pufferlib.vector import Tuning
from pufferlib.vector import autotune as find_fastest
from pufferlib.vector.tuning.bench import Watchdog

OPTIONS: dict[str, Option] = {
    "config": (Path | None, None, "A TOML file that goes over the environment's own."),
    "seconds": (float, 60.0, "How long it may take."),
    "max_envs": (
        int | None,
        None,
        "Also try other numbers of environments than vec.num_envs, up to this. That changes what "
        "is learnt from: an 'auto' train.batch_size grows with them.",
    ),
    "pools": (
        bool,
        True,
        "Also try batches with fewer environments than there are. Which come first depends on "
        "timing: equal seeds give different runs, and a resumed one starts new episodes.",
    ),
    "timeout": (float, 60.0, "Seconds that making, resetting or stepping may take."),
}
SUMMARY = """Measure how to run an environment fastest here, with the policy that is trained.

Of the vec options only num_envs counts; the others are what is found out.

Train with the result: puffer train ENV --vec.auto True"""
POOL_WARNING = (
    "Which of the smaller batches come first depends on timing: equal seeds give different runs. "
    "Leave them out with --no-pools."
)


def autotune(arguments: Sequence[str]) -> int:
    """The command `puffer autotune`; returns its exit code."""
    env_name, rest = split_environment(arguments, "autotune")
    defaults = config_of_files(env_name, find_option(rest, "--config"))
    prog = f"puffer autotune {defaults.env_name}"
    config, options = parse_config(defaults, OPTIONS, rest, prog, SUMMARY)
    config.validate()
    tuning = tune(config, **{name: options[name] for name in OPTIONS if name != "config"})
    path = tuned.save(config, tuning.make_kwargs, tuning.steps_per_second)
    tuning.show()
    if "batch_size" in tuning.make_kwargs:
        print(f"\n{POOL_WARNING}")
    train = tuned.command_of(config, defaults).replace("autotune", "train", 1)
    print(f"\nstored in {path}\ntrain with it: {train} --vec.auto True")
    return 0


def tune(
    config: Config, seconds: float, max_envs: int | None, pools: bool, timeout: float
) -> Tuning:
    """The fastest way to run the environment of `config` with its policy.

    Raises:
        ConfigError: an option is impossible.
        WorkerError: an environment failed; names the setting.
    """
    for name, value in (("seconds", seconds), ("max-envs", max_envs), ("timeout", timeout)):
        if value is not None and not value > 0:
            raise ConfigError(f"--{name}: expected more than 0, got {value}")
    use_threads(config.train.torch_threads)
    task = environments.resolve(config.env_name)
    creator = environments.load(config.env_name).env_creator(task.task)
    tuning = find_fastest(
        creator,
        env_kwargs={f.name: getattr(config.env, f.name) for f in dataclasses.fields(config.env)},
        policy=_policy(config, timeout),
        num_envs=config.vec.num_envs if max_envs is None else None,
        max_envs=max_envs or config.vec.num_envs,
        pools=pools,
        seconds=seconds,
        timeout=timeout,
        show=False,
    )
    made = f"pufferlib.environments.load({config.env_name!r}).env_creator({task.task!r})"
    _, comma, env_kwargs = tuning.creator.partition(", ")
    return dataclasses.replace(tuning, creator=made + comma + env_kwargs)


def _policy(config: Config, timeout: float) -> Callable[[NDArray[Any]], NDArray[Any]]:
    """The policy that would be trained, from observations to sampled actions."""
    one = {"backend": "multiprocessing", "num_envs": 1, "num_workers": 1, "batch_size": "auto"}
    with Watchdog(timeout).guard(0):
        vecenv = make_vecenv(config, **one)
    with vecenv:
        policy = make_policy(config, vecenv.driver_env)
        space: Space[Any] = vecenv.single_action_space
    device = pick_device(config.train.device)
    policy.to(device)
    recurrent = is_recurrent(policy)

    @torch.no_grad()
    def act(observations: NDArray[Any]) -> NDArray[Any]:
        inputs = torch.from_numpy(observations).to(device)
        logits = policy(inputs, None, None)[0] if recurrent else policy(inputs)[0]
        return as_env_actions(sample_logits(logits)[0].cpu().numpy(), space)

    return act
