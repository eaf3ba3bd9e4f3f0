"""What a run needs before it starts: generators, threads, a device, storage."""

from __future__ import annotations

import random
from collections.abc import Sequence

import numpy as np
import torch
from gymnasium.vector import AutoresetMode

from pufferlib.exceptions import ConfigError
from pufferlib.trainer.config import ResolvedTrainConfig
from pufferlib.trainer.distributed import Group
from pufferlib.trainer.experience import Experience
from pufferlib.vector import VecEnv
from pufferlib.vector.seeds import spread_seed


def seed_everything(seed: int, deterministic: bool = True) -> None:
    """Seed Python's, NumPy's and torch's global generators; optionally pin cuDNN's algorithms."""
    random.seed(seed)
    np.random.seed(seed)  # noqa: NPY002 - what environments in this process use
    torch.manual_seed(seed)
    torch.backends.cudnn.deterministic = deterministic
    torch.backends.cudnn.benchmark = not deterministic


def env_seed(seed: int, num_envs: int, group: Group) -> int | Sequence[int]:
    """What this process's environments are reset with, so that those of all have unlike seeds.

    The environments of all processes are numbered in the order of the ranks, and each gets the seed
    that it would have in a single process.

    Args:
        seed: of the run.
        num_envs: in this process.
        group: of the processes, all with as many environments.
    """
    return seed if group.size == 1 else group.share(spread_seed(seed, num_envs * group.size))


def use_threads(count: int) -> None:
    """Let torch compute with `count` CPU threads from now on; 0 changes nothing."""
    if count:
        torch.set_num_threads(count)


def pick_device(name: str) -> torch.device:
    """The torch device; 'auto' is CUDA if there is one, else the CPU.

    Raises:
        ConfigError: there is no such device.
    """
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        raise ConfigError(
            f"train.device: expected 'auto' or a device that torch has, got {name!r} ({error})"
        ) from error
    return device


def make_experience(
    config: ResolvedTrainConfig, vecenv: VecEnv, device: torch.device
) -> Experience:
    """The storage for one batch of `config`, which is learnt from on `device`.

    Raises:
        ConfigError: the environments do not reset themselves.
    """
    if vecenv.autoreset_mode == AutoresetMode.DISABLED:
        raise ConfigError(
            "autoreset_mode: expected NEXT_STEP or SAME_STEP, got DISABLED; training needs "
            "environments that reset themselves"
        )
    return Experience(
        vecenv.single_observation_space,
        vecenv.single_action_space,
        num_agents=vecenv.num_agents,
        horizon=config.bptt_horizon,
        segments=config.batch_size // config.bptt_horizon,
        in_step=vecenv.agents_per_batch == vecenv.num_agents,
        same_step=vecenv.autoreset_mode == AutoresetMode.SAME_STEP,
        pinned=config.pin_memory and device.type == "cuda",
    )
