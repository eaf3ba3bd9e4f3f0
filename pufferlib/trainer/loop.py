"""The parts of the training loop; `pufferlib.clean_pufferl` puts them in order."""

from __future__ import annotations

import random
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from gymnasium.vector import AutoresetMode
from numpy.typing import NDArray
from torch import Tensor, nn

from pufferlib.exceptions import ConfigError, NonFiniteError
from pufferlib.flatten.casting import nearest
from pufferlib.pytorch import NativeDtype, sample_logits
from pufferlib.spaces import Box, Space
from pufferlib.trainer import losses
from pufferlib.trainer.batch import Batch, Minibatch
from pufferlib.trainer.config import ResolvedTrainConfig
from pufferlib.trainer.experience import Choice, Experience, Rows
from pufferlib.trainer.finite import require_finite_actions
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
        model: what is called: the policy, or its compiled form.
        optimizer: Adam.
        device: where the policy is.
        is_recurrent: whether the policy has the recurrent interface.
        experience: the segments.
        states: the recurrent states, None without.
        run_dir: directory of the run; checkpoints go to its `checkpoints`.
        record: what checkpoints say about the run's configuration, ready for JSON.
        global_step: valid agent steps collected.
        epoch: updates done.
        stats: means over the episodes that ended in the last `evaluate`.
        losses: means over all minibatches of the last `train`.
        started: `time.monotonic()` of the creation or of the resumption.
        first_step: `global_step` at that time.
        env_seed: seed of the next reset of the environments, where `needs_reset`.
        pending: between two batches, the rows that the next one begins with.
    """

    config: ResolvedTrainConfig
    vecenv: VecEnv
    policy: nn.Module
    model: Callable[..., Any]
    optimizer: torch.optim.Optimizer
    device: torch.device
    is_recurrent: bool
    experience: Experience
    states: RecurrentStates | None
    native_dtype: NativeDtype | None
    run_dir: Path
    record: dict[str, Any]
    tally: Tally
    global_step: int = 0
    epoch: int = 0
    stats: Statistics = field(default_factory=Statistics)
    losses: dict[str, float] = field(default_factory=dict)
    clock: Clock = field(default_factory=Clock)
    started: float = field(default_factory=time.monotonic)
    first_step: int = 0
    env_seed: int | None = None
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

    @property
    def timings(self) -> dict[str, float]:
        """Seconds spent in each phase since the creation: env, copy, forward, learn, other."""
        return self.clock.seconds

    @property
    def learning_rate(self) -> float:
        """The optimizer's current one."""
        return float(self.optimizer.param_groups[0]["lr"])


def seed_everything(seed: int, deterministic: bool = True) -> None:
    """Seed Python's, NumPy's and torch's global generators; optionally pin cuDNN's algorithms."""
    random.seed(seed)
    np.random.seed(seed)  # noqa: NPY002 - what environments in this process use
    torch.manual_seed(seed)
    torch.backends.cudnn.deterministic = deterministic
    torch.backends.cudnn.benchmark = not deterministic


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


def make_experience(config: ResolvedTrainConfig, vecenv: VecEnv) -> Experience:
    """The storage for one batch of `config`.

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
    )


def receive(trainer: Trainer) -> Rows:
    """The next rows from the environments; resets them first where that is due."""
    if trainer.needs_reset:
        trainer.vecenv.async_reset(seed=trainer.env_seed)
        trainer.needs_reset = False
    observations, rewards, terminals, truncations, infos, agents, masks = trainer.vecenv.recv()
    rows = Rows(
        np.array(agents),  # a copy: they are read-only, which torch.from_numpy warns of
        observations,
        rewards,
        terminals,
        truncations,
        masks,
        trainer.vecenv.final_observations,
    )
    trainer.tally.add(infos)
    trainer.clock.lap("env")
    return rows


@torch.no_grad()
def choose(trainer: Trainer, rows: Rows) -> Choice:
    """Ask the policy what to do on `rows`. Changes nothing.

    Raises:
        NonFiniteError: a continuous action is NaN or infinite; no environment gets it.
    """
    starts = trainer.experience.starts_of(rows)
    state = trainer.states.of(rows.agents) if trainer.states else None
    inputs = torch.from_numpy(rows.observations).to(trainer.device)
    logits, values, new_state = run_policy(
        trainer, inputs, state, torch.from_numpy(starts).to(trainer.device)
    )
    actions, logprobs, _ = sample_logits(logits)
    values_array = _floats(values)
    choice = Choice(
        actions=actions.cpu().numpy(),
        logprobs=_floats(logprobs),
        values=values_array,
        next_values=_values_led_to(trainer, rows, values_array, state),
        starts=starts,
        state=new_state,
    )
    require_finite_actions(
        choice.actions,
        rows,
        trainer.experience.steps_of(rows.agents),
        trainer.native_dtype,
        trainer.vecenv.driver_env.num_agents,
    )
    trainer.clock.lap("forward")
    return choice


def run_policy(
    trainer: Trainer, observations: Tensor, state: State | None, starts: Tensor | None
) -> tuple[Any, Tensor, State | None]:
    """Logits, values `(rows,)` and the new state, of a policy with or without memory.

    Policies may return values as `(B,)` or `(B, 1)`; everything after this has `(B,)`.
    """
    if trainer.is_recurrent:
        logits, values, state = trainer.model(observations, state, starts)
    else:
        logits, values = trainer.model(observations)
    return logits, values.reshape(-1), state


def _values_led_to(
    trainer: Trainer, rows: Rows, values: NDArray[np.float32], state: State | None
) -> NDArray[np.float32]:
    """The value of the observation that each agent's last action led to.

    That is the row's own, unless the environment has already reset itself and keeps the
    truncated episode's last observation aside.
    """
    if rows.final_observations is None or not rows.truncations.any():
        return values
    cut = np.flatnonzero(rows.truncations)
    if state is not None:
        index = torch.from_numpy(cut).to(trainer.device)
        state = tuple(part.index_select(1, index) for part in state)
    inputs = torch.from_numpy(rows.final_observations[cut]).to(trainer.device)
    final_values = run_policy(trainer, inputs, state, None)[1]
    next_values = values.copy()
    next_values[cut] = _floats(final_values)
    return next_values


def _floats(tensor: Tensor) -> NDArray[np.float32]:
    array: NDArray[np.float32] = tensor.float().cpu().numpy()
    return array


def store(trainer: Trainer, rows: Rows, choice: Choice) -> None:
    """Write `rows` and the policy's choice to the experience, and note the agents' new states."""
    newcomers, slots = trainer.experience.write(rows, choice)
    if trainer.states and choice.state is not None:
        trainer.states.advance(rows.agents, choice.state, newcomers, slots)
    trainer.clock.lap("copy")


def send(trainer: Trainer, actions: NDArray[Any]) -> None:
    """Act; continuous actions are brought within the bounds of their space."""
    trainer.vecenv.send(as_env_actions(actions, trainer.vecenv.single_action_space))
    trainer.clock.lap("env")


def as_env_actions(actions: NDArray[Any], space: Space[Any]) -> NDArray[Any]:
    """Sampled actions as the environment takes them: the nearest ones of a Box, choices as is."""
    return nearest(actions, space) if isinstance(space, Box) else actions


def anneal_learning_rate(trainer: Trainer, steps: int) -> None:
    """Linear in `Trainer.progress`, from the configured rate to zero at the end, never below.

    Args:
        trainer: whose optimizer is set.
        steps: of the batch about to be learnt from, which are in `global_step` already.
    """
    rate = trainer.config.learning_rate
    if trainer.config.anneal_lr:
        rate *= max(0.0, 1.0 - trainer.progress(trainer.global_step - steps))
    for group in trainer.optimizer.param_groups:
        group["lr"] = rate


def learn(trainer: Trainer, minibatch: Minibatch) -> dict[str, Tensor]:
    """One optimizer step.

    Raises:
        NonFiniteError: the loss or a gradient is NaN or infinite; the weights are unchanged.
    """
    loss, metrics = ppo_loss(trainer, minibatch)
    trainer.optimizer.zero_grad(set_to_none=True)
    loss.backward()
    norm = nn.utils.clip_grad_norm_(trainer.policy.parameters(), trainer.config.max_grad_norm)
    if not torch.isfinite(loss.detach() + norm):
        trainer.optimizer.zero_grad(set_to_none=True)
        raise NonFiniteError(
            f"epoch {trainer.epoch}: expected a finite loss and gradient, got loss "
            f"{loss.item()} and gradient norm {norm.item()}; the weights were left as they were. "
            "Lower train.learning_rate, or check the policy for operations that overflow"
        )
    trainer.optimizer.step()
    return metrics | {"grad_norm": norm}


def ppo_loss(trainer: Trainer, minibatch: Minibatch) -> tuple[Tensor, dict[str, Tensor]]:
    """PPO's objective on one minibatch, and its parts (detached).

    loss = policy_loss - ent_coef * entropy + vf_coef * value_loss
    """
    config = trainer.config
    logits, values, _ = run_policy(
        trainer, minibatch.observations, minibatch.state, minibatch.starts
    )
    _, logprobs, entropy = sample_logits(logits, minibatch.actions)
    if minibatch.chosen is not None:
        logprobs, entropy, values = (x[minibatch.chosen] for x in (logprobs, entropy, values))
    log_ratio = logprobs - minibatch.logprobs
    advantages = minibatch.advantages
    if config.norm_adv:
        advantages = losses.normalize(advantages)
    parts = {
        "policy_loss": losses.policy_loss(log_ratio, advantages, config.clip_coef),
        "value_loss": losses.value_loss(
            values,
            minibatch.values,
            minibatch.returns,
            config.vf_clip_coef if config.clip_vloss else None,
        ),
        "entropy": entropy.mean(),
    }
    loss = (
        parts["policy_loss"]
        - config.ent_coef * parts["entropy"]
        + config.vf_coef * parts["value_loss"]
    )
    metrics = {name: part.detach() for name, part in parts.items()}
    log_ratio = log_ratio.detach()
    return loss, metrics | {
        "old_approx_kl": losses.old_approx_kl(log_ratio),
        "approx_kl": losses.approx_kl(log_ratio),
        "clipfrac": losses.clip_fraction(log_ratio, config.clip_coef),
    }


def learn_epochs(trainer: Trainer, batch: Batch) -> dict[str, float]:
    """Every pass over the batch; means over all minibatches of all passes.

    Stops early once the mean KL divergence over a pass exceeds `target_kl`.
    """
    history: dict[str, list[Tensor]] = defaultdict(list)
    limit = trainer.config.target_kl
    for _ in range(trainer.config.update_epochs):
        passed = len(history["approx_kl"])
        for minibatch in batch.minibatches(trainer.config.minibatch_size):
            for name, value in learn(trainer, minibatch).items():
                history[name].append(value)
        divergences = history["approx_kl"][passed:]
        if limit is not None and divergences and torch.stack(divergences).mean() > limit:
            break
    return {name: torch.stack(values).mean().item() for name, values in history.items() if values}
