"""The episodes that are under way at a checkpoint, so that a resumed run goes on with them.

Between two batches a run is more than its weights: the environments are in the middle of episodes,
their last rows wait for actions, and recurrent policies remember. All of that goes into the
checkpoint where the environments' states can be taken (`pufferlib.snapshot`) and one batch holds
all of them; a resumed run is then bit-equal to one that never stopped. Elsewhere the checkpoint
says why not, and a resumed run starts new episodes.
"""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from typing import Any

import torch

from pufferlib.exceptions import PufferError, SnapshotError
from pufferlib.trainer.trainer import Trainer


def capture(trainer: Trainer) -> dict[str, Any]:
    """What `restore` needs, as tensors; or `{"missing": reason}`. Never raises.

    The environments' states are pickled into one tensor of bytes, which nothing but `restore`
    unpickles, so that the checkpoint around it can be read without trust.
    """
    if not trainer.config.resume_episodes:
        return {"missing": "train.resume_episodes is off"}
    if trainer.group.size > 1:
        return {"missing": f"the run had {trainer.group.size} processes"}
    if trainer.pending is None or trainer.experience.is_full:
        return {"missing": "the checkpoint was not written between two batches"}
    # None until all is there: after an interruption, what workers still send is not to be trusted.
    pending, trainer.pending = trainer.pending, None
    try:
        environments = pickle.dumps(trainer.vecenv.get_state())
    except PufferError as error:  # also a worker that has died: the weights are worth saving
        environments, reason = b"", str(error)
    trainer.pending = pending
    if not environments:
        return {"missing": reason}
    return {
        "environments": torch.frombuffer(bytearray(environments), dtype=torch.uint8),
        "lives": trainer.experience.get_lives(),
        "memory": trainer.states.get() if trainer.states else None,
    }


def restore(trainer: Trainer, episodes: Mapping[str, Any]) -> str | None:
    """Let the run go on with the episodes of a checkpoint.

    Unpickles the environments' states, and so runs code that the checkpoint names: it must come
    from a source that you trust, unless `train.resume_episodes` is off.

    Returns:
        None; or why not, and then the environments must be reset.
    """
    if not trainer.config.resume_episodes:
        return "train.resume_episodes is off"
    if trainer.group.size > 1:
        return f"the run has {trainer.group.size} processes"
    if "missing" in episodes:
        return str(episodes["missing"])
    if len(episodes["lives"]["steps"]) != trainer.vecenv.num_agents:
        return f"the checkpoint has {len(episodes['lives']['steps'])} agents"
    try:
        trainer.vecenv.set_state(pickle.loads(episodes["environments"].numpy().tobytes()))
    except SnapshotError as error:
        return str(error)
    trainer.needs_reset = False
    trainer.pending = None
    trainer.experience.clear()
    trainer.experience.set_lives(episodes["lives"])
    if trainer.states:
        trainer.states.set(episodes["memory"], trainer.device)
    return None
