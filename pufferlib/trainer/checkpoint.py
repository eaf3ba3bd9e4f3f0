"""One file per checkpoint: written whole or not at all, read without running code from it."""

from __future__ import annotations

import io
import json
import os
import random
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

import pufferlib
from pufferlib.exceptions import CheckpointError
from pufferlib.trainer import episodes
from pufferlib.trainer.runs import LATEST, checkpoint_dir
from pufferlib.trainer.trainer import Trainer

FORMAT = 1


def save(trainer: Trainer) -> Path:
    """Write `checkpoints/EPOCH.pt` and let `latest.pt` be the same file; returns the first.

    Both appear at once and complete, or not at all; an older file of the name stays otherwise.

    Raises:
        CheckpointError: the file could not be written, for example because the disk is full.
    """
    directory = checkpoint_dir(trainer.run_dir)
    path = directory / f"{trainer.epoch:06d}.pt"
    buffer = io.BytesIO()
    torch.save(describe(trainer), buffer)
    try:
        directory.mkdir(parents=True, exist_ok=True)
        _write_atomically(path, buffer.getbuffer())
        _link_atomically(path, directory / LATEST)
    except OSError as error:
        raise CheckpointError(
            f"{path}: could not write the checkpoint: {error.strerror}. Earlier checkpoints are "
            "untouched; free some space or choose another train.data_dir"
        ) from error
    return path


def describe(trainer: Trainer) -> dict[str, Any]:
    """What a checkpoint holds: tensors and plain Python values only."""
    vecenv = trainer.vecenv
    return {
        "format": FORMAT,
        "pufferlib": pufferlib.__version__,
        "env_name": trainer.record.get("env_name", ""),
        "spaces": {
            "observation": str(vecenv.single_observation_space),
            "action": str(vecenv.single_action_space),
        },
        "config": json.dumps(trainer.record, default=str),
        "policy": canonical_state(trainer.policy),
        "optimizer": trainer.optimizer.state_dict(),
        "rng": rng_state(),
        "global_step": trainer.global_step,
        "epoch": trainer.epoch,
        "episodes": episodes.capture(trainer),
    }


def read(path: str | Path) -> dict[str, Any]:
    """The content of a checkpoint, on the CPU.

    Raises:
        CheckpointError: there is no such file, or it is not a whole checkpoint.
    """
    path = Path(path)
    if not path.is_file():
        raise CheckpointError(f"{path}: no such checkpoint{_others(path)}")
    try:
        content = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # torch raises a dozen unrelated types for a damaged file
        raise CheckpointError(
            f"{path}: the file is damaged or no checkpoint ({type(error).__name__}: {error})"
            f"{_others(path)}"
        ) from error
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        found = content.get("format") if isinstance(content, dict) else type(content).__name__
        raise CheckpointError(
            f"{path}: expected a pufferlib checkpoint of format {FORMAT}, got {found}"
        )
    return content


def restore(trainer: Trainer, content: Mapping[str, Any], source: str = "checkpoint") -> None:
    """Put policy, optimizer and counters back to where a checkpoint was; `source` is its path.

    Raises:
        CheckpointError: the weights do not fit the policy, and nothing was changed then; or the
            optimizer is another one.
    """
    load_policy(trainer.policy, content["policy"], source)
    try:
        trainer.optimizer.load_state_dict(content["optimizer"])
    except (KeyError, ValueError) as error:
        raise CheckpointError(
            f"{source}: its optimizer is another one than train.optimizer "
            f"{trainer.config.optimizer} ({error}); resume with the one it was trained with"
        ) from error
    trainer.epoch = content["epoch"]
    trainer.begin(content["global_step"])


def load_policy(policy: nn.Module, state: Mapping[str, Tensor], source: str = "state") -> None:
    """Copy weights into `policy`; prefixes of compiled or distributed modules do not matter.

    Raises:
        CheckpointError: lists every key that is missing, unknown or of another shape.
    """
    names = _canonical_names(policy.state_dict())
    own = {canonical: policy.state_dict()[name] for name, canonical in names.items()}
    given = {canonical: state[name] for name, canonical in _canonical_names(state).items()}
    problems = [f"missing {key}" for key in own.keys() - given.keys()]
    problems += [f"unknown {key}" for key in given.keys() - own.keys()]
    problems += [
        f"{key} has shape {tuple(given[key].shape)}, expected {tuple(own[key].shape)}"
        for key in own.keys() & given.keys()
        if given[key].shape != own[key].shape
    ]
    if problems:
        raise CheckpointError(
            f"{source}: the weights do not fit {type(policy).__name__}: "
            f"{'; '.join(sorted(problems))}. Build the policy with the options of the checkpoint"
        )
    policy.load_state_dict({name: given[canonical] for name, canonical in names.items()})


def canonical_state(policy: nn.Module) -> dict[str, Tensor]:
    """The weights under the names that the plain module gives them, whatever wraps it."""
    state = policy.state_dict()
    return {canonical: state[name] for name, canonical in _canonical_names(state).items()}


def _canonical_names(state: Mapping[str, Any]) -> dict[str, str]:
    """Each key without what torch.compile (anywhere) and DistributedDataParallel put before it."""
    names = {key: key.replace("_orig_mod.", "") for key in state}
    while names and all(name.startswith("module.") for name in names.values()):
        names = {key: name.removeprefix("module.") for key, name in names.items()}
    return names


def rng_state() -> dict[str, Any]:
    """The states of torch's, NumPy's and Python's global generators, as tensors and tuples."""
    _, keys, position, has_gauss, gauss = np.random.get_state()  # noqa: NPY002 - the legacy global one
    return {
        "torch": torch.get_rng_state(),
        "cuda": torch.cuda.get_rng_state_all() if torch.cuda.is_available() else [],
        "numpy": (torch.from_numpy(np.array(keys, np.int64)), position, has_gauss, gauss),
        "python": random.getstate(),
    }


def set_rng_state(state: Mapping[str, Any]) -> None:
    """The inverse of `rng_state`. CUDA's generators only where there are as many as then."""
    torch.set_rng_state(state["torch"])
    if torch.cuda.is_available() and len(state["cuda"]) == torch.cuda.device_count():
        torch.cuda.set_rng_state_all(state["cuda"])
    keys, position, has_gauss, gauss = state["numpy"]
    legacy = ("MT19937", keys.numpy().astype(np.uint32), position, has_gauss, gauss)
    np.random.set_state(legacy)  # noqa: NPY002 - the legacy global one
    version, internal, gauss_next = state["python"]
    random.setstate((version, tuple(internal), gauss_next))


def _write_atomically(path: Path, content: memoryview) -> None:
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    _sync_directory(path.parent)


def _link_atomically(target: Path, path: Path) -> None:
    """Let `path` be another name of `target`, or a copy where the file system has no links."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    temporary.unlink(missing_ok=True)
    try:
        os.link(target, temporary)
    except OSError:
        _write_atomically(path, memoryview(target.read_bytes()))
        return
    temporary.replace(path)
    # A replace between two names of one file does nothing, and leaves both.
    temporary.unlink(missing_ok=True)
    _sync_directory(path.parent)


def _sync_directory(directory: Path) -> None:
    """Make a rename durable; not every platform lets one open a directory."""
    with suppress(OSError):
        descriptor = os.open(directory, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _others(path: Path) -> str:
    """The other checkpoints beside `path`, for an error message."""
    others = sorted(other.name for other in path.parent.glob("*.pt") if other != path)
    if not others:
        return f"; there is no other in {path.parent}"
    return f"; others in {path.parent}: {', '.join(others[-5:])}"
