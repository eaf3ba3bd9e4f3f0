"""The steps of collecting a batch: receive rows, let the policy choose, store, act."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pufferlib.flatten.casting import nearest
from pufferlib.pytorch import sample_actions
from pufferlib.spaces import Box, Space
from pufferlib.trainer.experience import Choice, Rows
from pufferlib.trainer.finite import require_finite_actions
from pufferlib.trainer.states import State
from pufferlib.trainer.trainer import Trainer


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


@torch.no_grad()  # not inference_mode: policies may keep what they computed, and train with it
def choose(trainer: Trainer, rows: Rows) -> Choice:
    """Ask the policy what to do on `rows`. Changes nothing.

    Raises:
        NonFiniteError: a continuous action is NaN or infinite; no environment gets it.
    """
    starts = trainer.experience.starts_of(rows)
    state = trainer.states.of(rows.agents) if trainer.states else None
    inputs = torch.from_numpy(rows.observations).to(trainer.device, non_blocking=True)
    logits, values, new_state = trainer.act(
        inputs, state, torch.from_numpy(starts).to(trainer.device, non_blocking=True)
    )
    actions, logprobs = sample_actions(logits)
    values_array = _floats(values)
    choice = Choice(
        actions=actions.cpu().numpy(),
        logprobs=_floats(logprobs),
        values=values_array,
        next_values=_values_led_to(trainer, rows, values_array, state),
        starts=starts,
        state=new_state,
    )
    if choice.actions.dtype.kind == "f":
        agents_per_env = trainer.vecenv.driver_env.num_agents
        steps = trainer.experience.steps_of(rows)
        require_finite_actions(choice.actions, rows, steps, trainer.native_dtype, agents_per_env)
    trainer.clock.lap("forward")
    return choice


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
    final_values = trainer.run_policy(inputs, state)[1]
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
    """Act with `(B, *action_shape)`; continuous actions are brought within their bounds."""
    trainer.vecenv.send(as_env_actions(actions, trainer.vecenv.single_action_space))
    trainer.clock.lap("env")


def as_env_actions(actions: NDArray[Any], space: Space[Any]) -> NDArray[Any]:
    """Actions `(B, *action_shape)` as the environment takes them: the nearest ones of a Box."""
    return nearest(actions, space) if isinstance(space, Box) else actions
