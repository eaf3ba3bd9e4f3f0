"""Deliberate bugs for `mutations.py`: each takes the place of one function of the package."""

from __future__ import annotations

import functools
import importlib
import multiprocessing
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from pufferlib.trainer import losses


@dataclass(frozen=True)
class Bug:
    """A function of the package and what stands in its place.

    Attributes:
        name: for tables and the command line.
        target: `module:attribute` or `module:Class.attribute`.
        wrong: what is called instead, with the original before its arguments.
        env: the sanity environment that is there to find it.
    """

    name: str
    target: str
    wrong: Callable[..., Any]
    env: str

    def locate(self) -> tuple[Any, str]:
        """The module or class that has the function, and the function's name in it.

        Raises:
            AttributeError: there is none; the package has changed.
        """
        module, _, path = self.target.partition(":")
        *owners, name = path.split(".")
        owner = functools.reduce(getattr, owners, importlib.import_module(module))
        if name not in vars(owner):
            raise AttributeError(f"{self.name}: {self.target} does not exist any more")
        return owner, name

    def install(self) -> Callable[[], bool]:
        """Put it in place, for processes forked from now on too; tells whether it was reached."""
        owner, name = self.locate()
        original, reached = getattr(owner, name), multiprocessing.Event()

        @functools.wraps(original)
        def wrong(*args: Any, **kwargs: Any) -> Any:
            if not reached.is_set():
                reached.set()
            return self.wrong(original, *args, **kwargs)

        setattr(owner, name, wrong)
        return reached.is_set


def state_never_reset(recur: Any, wrapper: Any, hidden: Any, state: Any, *_: Any) -> Any:
    return recur(wrapper, hidden, state, None)


def state_of_another_agent(of: Any, states: Any, agents: Any) -> Any:
    found = of(states, agents)
    return found and tuple(part.roll(1, 1) for part in found)


def workers_crossed(_: Any, vecenv: Any) -> Any:
    for place, team in zip(reversed(vecenv._places), vecenv._batch, strict=True):
        place.write(vecenv._rows[team.index])
    return vecenv._gathered


def agents_crossed(actions_of: Any, rows: Any, agents: Any) -> Any:
    actions = actions_of(rows, agents)
    return dict(zip(actions, reversed(actions.values()), strict=True))


def advantage_across_episodes(
    estimate: Any, rewards: Any, values: Any, next_values: Any, *rest: Any
) -> Any:
    terminals, dones, *others = rest
    never = np.zeros_like(terminals), np.zeros_like(dones)
    return estimate(rewards, values, next_values, *never, *others)


def reward_of_the_step_before(estimate: Any, rewards: Any, *rest: Any) -> Any:
    late = np.roll(rewards, 1, axis=1)
    late[:, 0] = 0
    return estimate(late, *rest)


def mask_ignored(valid: Any, masks: Any, dones: Any, same_step: bool) -> Any:
    return valid(np.ones_like(masks), np.zeros_like(dones), same_step)


def bytes_reordered(nativize: Any, observations: Any, leaf: Any) -> Any:
    return nativize(observations.roll(1, -1), leaf)


def action_offset(send: Any, vecenv: Any, actions: Any) -> None:
    space = vecenv.single_action_space
    last = (space.n if hasattr(space, "n") else space.nvec) - 1
    send(vecenv, np.minimum(np.asarray(actions) + 1, last))


def entropy_sign(sample: Any, *args: Any) -> Any:
    action, logprob, entropy = sample(*args)
    return action, logprob, -entropy


def stale_observation(recv: Any, vecenv: Any) -> Any:
    now, *rest = recv(vecenv)
    agents = rest[4]
    if not hasattr(vecenv, "before"):
        vecenv.before = np.zeros((vecenv.num_agents, *now.shape[1:]), now.dtype)
    before = vecenv.before[agents]
    vecenv.before[agents] = now
    return before, *rest


def seeds_equal(seeds: Any, seed: Any, num_envs: int) -> Any:
    return seeds(seed, num_envs)[:1] * num_envs


def normalisation_leak(init: Any, batch: Any, *args: Any) -> None:
    init(batch, *args)
    valid = torch.from_numpy(batch._valid.ravel())
    batch._advantages[valid] = losses.normalize(batch._advantages[valid])
    batch._returns = batch._advantages + batch._values


BUGS = (
    Bug(
        "state never reset", "pufferlib.models.lstm:LSTMWrapper.recur", state_never_reset, "memory"
    ),
    Bug(
        "state of another agent",
        "pufferlib.trainer.states:RecurrentStates.of",
        state_of_another_agent,
        "memory",
    ),
    Bug(
        "workers crossed",
        "pufferlib.vector.parallel:Parallel._gather_rows",
        workers_crossed,
        "squared",
    ),
    Bug(
        "agents crossed",
        "pufferlib.emulation.multi_agent_rows:PettingZooRows._actions_of",
        agents_crossed,
        "multiagent",
    ),
    Bug(
        "advantage across episodes",
        "pufferlib.trainer.experience:estimate_advantages",
        advantage_across_episodes,
        "bandit",
    ),
    Bug(
        "reward of the step before",
        "pufferlib.trainer.experience:estimate_advantages",
        reward_of_the_step_before,
        "bandit",
    ),
    Bug("mask ignored", "pufferlib.trainer.experience:valid_transitions", mask_ignored, "bandit"),
    Bug("bytes reordered", "pufferlib.pytorch:_nativize_leaf", bytes_reordered, "spaces"),
    Bug("action offset", "pufferlib.vector.base:VecEnv.send", action_offset, "multiagent"),
    Bug("entropy sign", "pufferlib.trainer.learn:sample_logits", entropy_sign, "password"),
    Bug("stale observation", "pufferlib.vector.base:VecEnv.recv", stale_observation, "spaces"),
    Bug("seeds equal", "pufferlib.vector.base:env_seeds", seeds_equal, "spaces"),
    Bug(
        "normalisation leak", "pufferlib.trainer.batch:Batch.__init__", normalisation_leak, "bandit"
    ),
)
BY_NAME = {bug.name: bug for bug in BUGS}
