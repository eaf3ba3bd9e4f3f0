"""Everything that one training run consists of."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from pufferlib.pytorch import NativeDtype
from pufferlib.trainer.config import ResolvedTrainConfig
from pufferlib.trainer.distributed import ALONE, Group
from pufferlib.trainer.experience import Experience, Rows
from pufferlib.trainer.optimizers import Optimizer
from pufferlib.trainer.states import RecurrentStates, State
from pufferlib.trainer.statistics import Statistics, Tally
from pufferlib.vector import VecEnv


class Clock:
    """Where the time goes: `lap` adds what has passed since the last lap to a phase."""

    def __init__(self) -> None:
        self.seconds = dict.fromkeys(("env", "copy", "forward", "learn", "other"), 0.0)
        self._last = time.perf_counter()

    def lap(self, phase: str) -> None:
        """Everything since the last lap was `phase`."""
        now = time.perf_counter()
        self.seconds[phase] += now - self._last
        self._last = now


@dataclass(eq=False, kw_only=True)
class Trainer:
    """Everything that one training run consists of.

    Attributes:
        config: how to learn, with its sizes resolved.
        vecenv: the vectorized environments.
        policy: the module whose weights are trained and saved; never a compiled one.
        model: what is called to learn: the policy, compiled or in another number format if asked.
        actor: what is called to act: the model, or its CUDA graphs.
        optimizer: as `config` names it.
        ent_coef: the current weight of the entropy bonus.
        device: where the policy is.
        is_recurrent: whether the policy has the recurrent interface.
        experience: the segments.
        states: the recurrent states, None without.
        native_dtype: layout of structured observations, None where there are none.
        run_dir: directory of the run; checkpoints go to its `checkpoints`.
        record: what checkpoints say about the run's configuration, ready for JSON.
        tally: adds up the infos of the batch that is being collected.
        group: the processes that train together.
        global_step: valid agent steps collected by all of them.
        epoch: updates done.
        stats: means over the episodes that ended in the last `evaluate`.
        losses: means over all minibatches of the last `train`.
        clock: where the time goes.
        started: `time.monotonic()` of the creation or of the resumption.
        first_step: `global_step` at that time.
        env_seed: seed (or one per environment) of their next reset; None is that of `vector.make`.
        needs_reset: whether the next `evaluate` begins with a reset.
        pending: between two batches, the rows that the next one begins with.
    """

    config: ResolvedTrainConfig
    vecenv: VecEnv
    policy: nn.Module
    model: Callable[..., Any]
    actor: Callable[..., Any]
    optimizer: Optimizer
    ent_coef: float
    device: torch.device
    is_recurrent: bool
    experience: Experience
    states: RecurrentStates | None
    native_dtype: NativeDtype | None
    run_dir: Path
    record: dict[str, Any]
    tally: Tally
    group: Group = ALONE
    global_step: int = 0
    epoch: int = 0
    stats: Statistics = field(default_factory=Statistics)
    losses: dict[str, float] = field(default_factory=dict)
    clock: Clock = field(default_factory=Clock)
    started: float = field(default_factory=time.monotonic)
    first_step: int = 0
    env_seed: int | Sequence[int] | None = None
    needs_reset: bool = True
    pending: Rows | None = None

    def begin(self, step: int) -> None:
        """Go on from `step`; the time that `max_seconds` limits begins now."""
        self.global_step = self.first_step = step
        self.started = time.monotonic()

    @property
    def elapsed(self) -> float:
        """Seconds since the creation or the resumption."""
        return time.monotonic() - self.started

    def progress(self, step: int | None = None) -> float:
        """The used share of steps or of time, whichever is further; 1 and above is the end.

        A resumed run has its time anew, for the share of steps that was left then.

        Args:
            step: reckon with this step instead of `global_step`.
        """
        limits = self.config
        steps = (self.global_step if step is None else step) / limits.total_timesteps
        if limits.max_seconds is None:
            return steps
        begun = self.first_step / limits.total_timesteps
        return max(steps, begun + (1 - begun) * self.elapsed / limits.max_seconds)

    def agreed_progress(self, step: int | None = None) -> float:
        """`progress` by the first process's clock: for decisions, which all ask for together."""
        return self.group.from_main(self.progress(step))

    @property
    def timings(self) -> dict[str, float]:
        """Seconds spent in each phase since the creation: env, copy, forward, learn, other."""
        return self.clock.seconds

    @property
    def learning_rate(self) -> float:
        """The optimizer's current one."""
        return float(self.optimizer.param_groups[0]["lr"])

    def run_policy(
        self, observations: Tensor, state: State | None = None, starts: Tensor | None = None
    ) -> tuple[Any, Tensor, State | None]:
        """Logits, values `(rows,)` and the new state, of a policy with or without memory.

        Policies may return values as `(B,)` or `(B, 1)`; everything after this has `(B,)`.
        """
        return self._run(self.model, observations, state, starts)

    def act(
        self, observations: Tensor, state: State | None, starts: Tensor
    ) -> tuple[Any, Tensor, State | None]:
        """The same for the rows of one `recv`; the next call may overwrite the results."""
        return self._run(self.actor, observations, state, starts)

    def _run(
        self,
        model: Callable[..., Any],
        observations: Tensor,
        state: State | None,
        starts: Tensor | None,
    ) -> tuple[Any, Tensor, State | None]:
        if self.is_recurrent:
            logits, values, state = model(observations, state, starts)
        else:
            logits, values = model(observations)
        return logits, values.reshape(-1), state
