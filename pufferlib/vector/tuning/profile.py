"""What one environment takes: time, memory and bytes, seen from inside a worker process."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import numpy as np
import psutil
from gymnasium.vector import AutoresetMode
from numpy.typing import NDArray

from pufferlib.buffers import Buffers
from pufferlib.environment import Infos, PufferEnv
from pufferlib.exceptions import WorkerError
from pufferlib.spaces import joint_space
from pufferlib.vector.group import EnvGroup
from pufferlib.vector.serial import Serial

# Actions are drawn before the clock starts and then used in turn.
DRAWN = 64


@dataclass(frozen=True)
class Profile:
    """What one environment takes, under random actions, and the policy beside it.

    Attributes:
        num_agents: rows of one environment.
        steps: how many were timed, resets not counted.
        step_seconds: their mean.
        step_variance: their variance in square seconds.
        resets: how many were timed.
        reset_share: share of the environment's time that resets take, 0 to 1.
        resets_in_step: the environment resets in the step that ends an episode, so that resets
            are part of the steps' time.
        env_bytes: memory of one more environment in a process.
        worker_bytes: memory that each process takes besides its environments.
        step_bytes: bytes of all rows that one step reads and writes.
        shares_process: whether a second environment could live in the same process.
        policy_seconds: mean time that the policy takes for the rows of one environment.
    """

    num_agents: int
    steps: int
    step_seconds: float
    step_variance: float
    resets: int
    reset_share: float
    resets_in_step: bool
    env_bytes: int
    worker_bytes: int
    step_bytes: int
    shares_process: bool
    policy_seconds: float = 0.0


class Moments:
    """Count, mean and variance of a stream of numbers (Welford 1962)."""

    def __init__(self) -> None:
        self.count = 0
        self.mean = 0.0
        self._squares = 0.0

    def add(self, value: float) -> None:
        """Take in one number."""
        self.count += 1
        difference = value - self.mean
        self.mean += difference / self.count
        self._squares += difference * (value - self.mean)

    @property
    def variance(self) -> float:
        """The unbiased one; 0 for fewer than two numbers."""
        return self._squares / (self.count - 1) if self.count > 1 else 0.0


class Stand(PufferEnv):
    """Takes an environment's place in a worker, so that `call` reaches what measures it there."""

    def _describe_as(self, env: Any) -> None:
        self.single_observation_space = env.single_observation_space
        self.single_action_space = env.single_action_space
        self.num_agents = env.num_agents
        self.autoreset_mode = env.autoreset_mode
        super().__init__()

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> Infos:
        """Nothing: what is measured is not stepped by the worker, and has rows of its own."""
        return []

    def step(self, actions: NDArray[Any]) -> Infos:
        """Nothing, as `reset`."""
        return []


class ProfileStand(Stand):
    """One environment, and on demand a second, in a process of their own."""

    def __init__(self, creator: Callable[[], Any]) -> None:
        self._creator = creator
        self._lives: list[_Life] = []
        self._bytes_before = _private_bytes()
        try:
            self.add()
        except WorkerError as error:  # the worker names its environment itself
            raise error.__cause__ or error from None
        self._describe_as(self._lives[0].group.envs[0])

    def add(self) -> None:
        """One more environment."""
        self._lives.append(_Life(self._creator, len(self._lives)))

    def run(self, seconds: float) -> tuple[Moments, Moments]:
        """Times in seconds of the steps and of the resets in about `seconds`."""
        steps, resets = Moments(), Moments()
        for life in self._lives:
            life.run(seconds / len(self._lives), steps, resets)
        return steps, resets

    def memory(self) -> tuple[int, int]:
        """Bytes of this process alone, before it had an environment and now."""
        return self._bytes_before, _private_bytes()

    def rows(self) -> tuple[NDArray[Any], int]:
        """The first environment's observations, and the bytes of all its rows."""
        rows = self._lives[0].rows
        return rows.observations.copy(), sum(a.nbytes for a in rows.arrays() if a is not None)

    def close(self) -> None:
        """Close the environments."""
        for life in self._lives:
            life.group.close()


class SerialStand(Stand):
    """`Serial` in a process that is not the caller's, without a policy."""

    def __init__(self, creator: Callable[[], Any], num_envs: int) -> None:
        try:
            self._vecenv = Serial([creator] * num_envs)
        except WorkerError as error:
            raise error.__cause__ or error from None
        self._describe_as(self._vecenv.driver_env)
        self._act = draw_actions(
            self._vecenv.single_action_space,
            self._vecenv.num_agents,
            self._vecenv.driver_env.emulated,
        )

    def start(self) -> None:
        """Reset all environments, which takes no part in the first run."""
        observations, _ = self._vecenv.reset()
        self._vecenv.send(self._act(observations))

    def run(self, seconds: float) -> tuple[int, float]:
        """Step for `seconds`; how many batches that were, and their time."""
        vecenv, act = self._vecenv, self._act
        batches, start = 0, perf_counter()
        while True:
            observations = vecenv.recv()[0]
            vecenv.send(act(observations))
            batches += 1
            passed = perf_counter() - start
            if passed >= seconds:
                return batches, passed

    def close(self) -> None:
        """Close the environments."""
        self._vecenv.close()


def draw_actions(
    single_space: Any, num_agents: int, emulated: Any
) -> Callable[[NDArray[Any]], NDArray[Any]]:
    """A function of observations that gives random actions for `num_agents` rows.

    They are the same ones in turn for ever, but where observations have a mask of the actions.
    """
    # Here: whoever has emulated environments has loaded it, others save its time.
    from pufferlib.emulation.masks import take_allowed

    space = joint_space(single_space, num_agents)
    space.seed(0)
    drawn = itertools.cycle([np.asarray(space.sample()) for _ in range(DRAWN)])
    rng = np.random.default_rng(0)

    def act(observations: NDArray[Any]) -> NDArray[Any]:
        actions = next(drawn)
        take_allowed(actions, observations, emulated, rng)
        return actions

    return act


class _Life:
    """One environment with rows of its own, being stepped."""

    def __init__(self, creator: Callable[[], Any], index: int) -> None:
        self.group = EnvGroup([creator], index)
        kind = self.group.description
        self._same_step = kind.autoreset_mode == AutoresetMode.SAME_STEP
        self.rows = Buffers.allocate(
            kind.observation_space, kind.action_space, kind.num_agents, self._same_step
        )
        self.group.bind(self.rows)
        self._act = draw_actions(kind.action_space, kind.num_agents, kind.emulated)
        self._is_new = True
        self._has_ended = False

    def run(self, seconds: float, steps: Moments, resets: Moments) -> None:
        """Step for `seconds`, at least twice, and add what each took."""
        if self._is_new:
            self._is_new = False
            self.group.reset([0], None)
            self._step()  # whatever happens on the first one only
        end = perf_counter() + seconds
        for number in itertools.count():
            if number >= 2 and perf_counter() >= end:
                return
            moments = resets if self._has_ended else steps
            moments.add(self._step())

    def _step(self) -> float:
        rows = self.rows
        rows.actions[...] = self._act(rows.observations)
        start = perf_counter()
        self.group.step()
        took = perf_counter() - start
        goes_on = rows.masks & ~(rows.terminals | rows.truncations)
        self._has_ended = not self._same_step and not goes_on.any()
        return took


def _private_bytes() -> int:
    """Memory of this process that it shares with no other."""
    return int(psutil.Process().memory_full_info().uss)
