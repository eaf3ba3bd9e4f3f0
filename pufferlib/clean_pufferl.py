"""Proximal policy optimization: the main path, read from top to bottom.

    trainer = create(config, vecenv, policy)
    while trainer.global_step < config.total_timesteps:
        evaluate(trainer)
        train(trainer)
    save_checkpoint(trainer)
    close(trainer)

The mathematics is in `pufferlib.trainer.advantage` and `.losses`, the storage in `.experience`,
the single steps in `.collect` and `.learn`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from torch import nn

from pufferlib.exceptions import APIUsageError
from pufferlib.models import is_recurrent
from pufferlib.pytorch import nativize_dtype
from pufferlib.trainer import checkpoint, episodes, losses
from pufferlib.trainer.acceleration import keep_freed_memory, make_actor, make_model
from pufferlib.trainer.batch import Batch
from pufferlib.trainer.collect import choose, receive, send, store
from pufferlib.trainer.config import TrainConfig
from pufferlib.trainer.distributed import ALONE, Group
from pufferlib.trainer.finite import require_finite
from pufferlib.trainer.learn import anneal, correct_off_policy, learn_epochs
from pufferlib.trainer.optimizers import make_optimizer
from pufferlib.trainer.prepare import (
    env_seed,
    make_experience,
    pick_device,
    seed_everything,
    use_threads,
)
from pufferlib.trainer.runs import new_run_dir
from pufferlib.trainer.states import RecurrentStates
from pufferlib.trainer.statistics import Statistics, Tally, pool
from pufferlib.trainer.trainer import Trainer
from pufferlib.vector import VecEnv

__all__ = [
    "Trainer",
    "close",
    "create",
    "evaluate",
    "load_checkpoint",
    "reset",
    "save_checkpoint",
    "train",
]


def create(
    config: TrainConfig,
    vecenv: VecEnv,
    policy: nn.Module,
    run_dir: str | Path | None = None,
    record: Mapping[str, Any] | None = None,
    group: Group = ALONE,
) -> Trainer:
    """Set up a training run.

    Seeds the global random generators, sets torch's CPU threads, and without a GPU lets malloc
    keep what was freed.

    Args:
        config: how to learn.
        vecenv: from `pufferlib.vector.make`; it is closed by `close`.
        policy: a module with `forward(x) -> (logits, value)`, or the recurrent interface of
            `pufferlib.models.LSTMWrapper`. It is moved to the device and trained in place.
        run_dir: where checkpoints go; by default a directory is made in `config.data_dir`.
        record: what checkpoints say about the run beside its weights (JSON-able; `env_name` is
            the key of the environment's name). By default the training configuration.
        group: the processes that train this policy together, of which each has as many
            environments; the sizes in `config` are those of all. `trainer.distributed` has more.

    Raises:
        ConfigError: sizes that do not fit the environments, or a device that does not exist.
    """
    policy = getattr(policy, "_orig_mod", policy)
    recurrent = is_recurrent(policy)
    resolved = config.resolve(vecenv.num_agents, group.size, recurrent)
    seed_everything(group.own_seed(config.seed), config.torch_deterministic)
    use_threads(config.torch_threads)
    device = pick_device(config.device)
    policy = policy.to(device)
    group.copy_from_main(policy.state_dict().values())
    if device.type == "cpu":
        keep_freed_memory()
    model = make_model(resolved, policy, device)
    experience = make_experience(resolved, vecenv, device)
    record = dict(record or {"train": dataclasses.asdict(resolved)})
    return Trainer(
        config=resolved,
        vecenv=vecenv,
        policy=policy,
        model=model,
        actor=make_actor(resolved, model, device),
        optimizer=make_optimizer(resolved, policy, device),
        ent_coef=resolved.ent_coef,
        device=device,
        is_recurrent=recurrent,
        experience=experience,
        states=RecurrentStates(vecenv.num_agents, experience.num_slots) if recurrent else None,
        native_dtype=nativize_dtype(vecenv.emulated),
        run_dir=Path(run_dir or new_run_dir(config.data_dir, record.get("env_name") or "run")),
        record=record,
        tally=Tally(getattr(vecenv.driver_env, "possible_agents", ())),
        group=group,
    )


def evaluate(trainer: Trainer) -> Statistics:
    """Collect one batch with the current policy; returns means over the episodes that ended.

    Steps and episodes are those of all processes.

    The last rows of a batch are only valued, not acted upon: the next batch begins with them,
    under the policy as it is then.
    """
    trainer.clock.lap("other")
    trainer.tally.clear()
    trainer.experience.release()
    rows = trainer.pending or receive(trainer)
    trainer.pending = None
    while True:
        choice = choose(trainer, rows)
        trainer.experience.close(rows, choice)
        if trainer.experience.is_full:
            break
        store(trainer, rows, choice)
        send(trainer, choice.actions)
        rows = receive(trainer)
    trainer.pending = rows
    trainer.global_step += trainer.group.add_counts(trainer.experience.count_valid())
    trainer.stats = pool(trainer.tally.statistics(), trainer.group)
    return trainer.stats


def train(trainer: Trainer) -> dict[str, float]:
    """Learn from the batch that `evaluate` collected; returns means over all minibatches.

    Raises:
        APIUsageError: there is no batch.
        NonFiniteError: something that would be learnt from is NaN or infinite; the weights are
            those of before the failing step.
    """
    trainer.clock.lap("other")
    if not trainer.experience.is_full:
        raise APIUsageError("train() needs a batch: call evaluate() first")
    segments = trainer.experience.collect(trainer.config.gamma, trainer.config.gae_lambda)
    require_finite(segments, trainer.native_dtype, trainer.vecenv.driver_env.num_agents)
    state = trainer.states.at(segments.slots) if trainer.states else None
    batch = Batch(segments, trainer.device, state)
    batch.steps = trainer.group.add_counts(batch.steps)
    returns = segments.values + segments.advantages
    trainer.clock.lap("copy")
    if trainer.config.vtrace:
        returns = correct_off_policy(trainer, segments, batch)
    anneal(trainer, batch.steps)
    trainer.losses = learn_epochs(trainer, batch)
    trainer.group.copy_from_main(trainer.policy.buffers())  # running means, if the policy has any
    valid = segments.valid
    explained = losses.explained_variance(segments.values[valid], returns[valid])
    if explained is not None:
        trainer.losses["explained_variance"] = explained
    trainer.experience.release()
    trainer.epoch += 1
    trainer.clock.lap("learn")
    return trainer.losses


def reset(trainer: Trainer) -> None:
    """Start new episodes in all environments, with a seed that follows from (seed, epoch).

    Segments that were under way are dropped. Where `load_checkpoint` cannot restore episodes, it
    ends with this: the resumed run equals one that calls `reset` at the same epoch.
    """
    trainer.env_seed = env_seed(_seed_of_epoch(trainer), trainer.vecenv.num_envs, trainer.group)
    trainer.needs_reset = True
    trainer.pending = None
    trainer.experience.clear()
    if trainer.states:
        trainer.states.clear()


def save_checkpoint(trainer: Trainer) -> Path:
    """Write a checkpoint that `load_checkpoint` can resume from; returns its path.

    Raises:
        CheckpointError: it could not be written; older checkpoints are untouched.
    """
    return checkpoint.save(trainer)


def load_checkpoint(trainer: Trainer, path: str | Path) -> str | None:
    """Resume: restore policy, optimizer, counters, episodes and random generators.

    Where the checkpoint holds the states of the environments, the run goes on bit-equal to one
    that never stopped. Restoring them unpickles them, which runs code that the file names: resume
    only from checkpoints that you trust, or with `train.resume_episodes` off. Elsewhere this ends
    with `reset`.

    Returns:
        None if the environments go on with their episodes, else why they start new ones.

    Raises:
        CheckpointError: the file is missing, damaged, or does not fit the policy.
    """
    content = checkpoint.read(path)
    checkpoint.restore(trainer, content, str(path))
    why_new = episodes.restore(trainer, content["episodes"])
    if why_new is not None:
        reset(trainer)
    # Last, as environments of this process may have drawn. Of several processes, a checkpoint has
    # the generators of one: all begin anew then.
    if trainer.group.size > 1:
        seed = trainer.group.own_seed(_seed_of_epoch(trainer))
        seed_everything(seed, trainer.config.torch_deterministic)
    else:
        checkpoint.set_rng_state(content["rng"])
    return why_new


def _seed_of_epoch(trainer: Trainer) -> int:
    sequence = np.random.SeedSequence([trainer.config.seed, trainer.epoch])
    return int(sequence.generate_state(1)[0]) & 0x7FFFFFFF


def close(trainer: Trainer) -> None:
    """Close the environments. Saves nothing."""
    trainer.vecenv.close()
