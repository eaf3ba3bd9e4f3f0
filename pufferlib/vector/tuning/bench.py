"""Real environments being measured, always in processes that are not the caller's.

Some environments exist only once per process, some never end a step, and some take their process
with them: none of that may reach the caller.
"""

from __future__ import annotations

import contextlib
import functools
import multiprocessing
import threading
import warnings
from collections.abc import Callable, Iterator
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pufferlib.exceptions import WorkerError
from pufferlib.vector.base import VecEnv
from pufferlib.vector.demands import one_per_process, start_methods
from pufferlib.vector.factory import make
from pufferlib.vector.tuning.profile import Profile, ProfileStand, SerialStand, draw_actions
from pufferlib.vector.tuning.rates import Slice, Trial
from pufferlib.vector.tuning.settings import Setting

Policy = Callable[[NDArray[Any]], Any]
Ask = Callable[..., Any]


class Bench:
    """Profiles an environment and runs settings of it.

    Args:
        creator: makes one, without arguments.
        policy: actions for observations `(rows, *observation_shape)`; None draws them beforehand.
        context: start method, as in `vector.make`.
        timeout: seconds that making, resetting or stepping may take before it is called a hang.
    """

    def __init__(
        self, creator: Callable[[], Any], policy: Policy | None, context: Any, timeout: float
    ) -> None:
        self._creator, self._policy = creator, policy
        # Demanded of the environment, not of the stands around it.
        self._context = context or next(iter(start_methods([creator])), None)
        self._timeout = timeout

    def profile(self, seconds: float) -> Profile:
        """What one environment takes, in about `seconds`.

        Raises:
            WorkerError: it raised or hung, or its process died.
        """
        with _named("alone in a worker"), self._worker(ProfileStand, self._creator) as (env, ask):
            steps, resets = ask(seconds, "run", seconds)
            empty, one = ask(0, "memory")
            self._rows, step_bytes = ask(0, "rows")
            two = self._add_second(ask, seconds / 4)
            num_agents, resets_in_step = env.num_agents, env.autoreset_mode.value == "SameStep"
        env_bytes = one - empty if two is None else max(two - one, 0)
        resetting = resets.count * resets.mean
        return Profile(
            num_agents=num_agents,
            steps=steps.count,
            step_seconds=steps.mean,
            step_variance=steps.variance,
            resets=resets.count,
            reset_share=resetting / (resetting + steps.count * steps.mean),
            resets_in_step=resets_in_step,
            env_bytes=env_bytes,
            worker_bytes=one - env_bytes,
            step_bytes=step_bytes,
            shares_process=two is not None,
            policy_seconds=self._time_policy(1, seconds / 4),
        )

    @contextlib.contextmanager
    def open(self, setting: Setting) -> Iterator[Trial]:
        """Start a setting; what it gives runs it. `profile` comes first.

        Raises:
            WorkerError: an environment raised or hung, or its process died; names the setting.
        """
        with _named(str(setting)):
            if setting.num_workers:
                with self._run_parallel(setting) as trial:
                    yield trial
            else:
                with self._run_serial(setting) as trial:
                    yield trial

    @contextlib.contextmanager
    def _run_parallel(self, setting: Setting) -> Iterator[Trial]:
        watchdog = Watchdog(self._timeout)
        with watchdog.guard(0):
            vecenv = self._make(self._creator, **setting.make_kwargs)
        with vecenv:
            act = self._policy or _blind(vecenv)
            vecenv.async_reset()

            def trial(seconds: float) -> Slice:
                with watchdog.guard(seconds):
                    return _run(vecenv, act, seconds)

            yield trial

    @contextlib.contextmanager
    def _run_serial(self, setting: Setting) -> Iterator[Trial]:
        """The environments in one worker, the policy here: neither waits for the other in Serial.

        So their times add up, and no environment comes into the caller's process.
        """
        num_envs = setting.num_envs
        with self._worker(SerialStand, self._creator, num_envs) as (env, ask):
            ask(0, "start")
            rows = num_envs * env.num_agents

            def trial(seconds: float) -> Slice:
                batches, passed = ask(seconds, "run", seconds)
                thinking = batches * self._time_policy(num_envs, seconds)
                return Slice(batches * rows, passed + thinking, thinking)

            yield trial

    @contextlib.contextmanager
    def _worker(self, stand: Callable[..., Any], *args: Any) -> Iterator[tuple[Any, Ask]]:
        """A stand in a worker of its own: what describes its environment, and a way to ask it."""
        watchdog = Watchdog(self._timeout)
        creator = functools.partial(stand, *args)
        with watchdog.guard(0):
            vecenv = self._make(creator, backend="multiprocessing", num_envs=1, num_workers=1)
        with vecenv:

            def ask(seconds: float, verb: str, *args: Any) -> Any:
                with watchdog.guard(seconds):
                    return vecenv.call(verb, *args, indices=[0])[0]

            yield vecenv.driver_env, ask

    def _make(self, creator: Callable[[], Any], **kwargs: Any) -> VecEnv:
        with warnings.catch_warnings():
            # Where an environment needs a process of its own there may be no other way.
            warnings.filterwarnings("ignore", "num_workers=")
            return make(creator, context=self._context, **kwargs)

    def _add_second(self, ask: Ask, seconds: float) -> int | None:
        """The bytes of the process with two environments, or None where that is impossible."""
        if one_per_process([self._creator]):
            return None
        try:
            ask(0, "add")
            ask(seconds, "run", seconds)
            return ask(0, "memory")[1]
        except WorkerError:
            return None

    def _time_policy(self, num_envs: int, seconds: float) -> float:
        """Mean seconds of the policy on the rows of so many environments."""
        if self._policy is None:
            return 0.0
        rows = np.concatenate([self._rows] * num_envs)
        calls, start = 0, perf_counter()
        while True:
            self._policy(rows)
            calls += 1
            passed = perf_counter() - start
            if passed >= seconds:
                return passed / calls


class Watchdog:
    """Kills the workers that were started after it, when they keep the caller waiting.

    Args:
        timeout: how long they may, in seconds, beyond what they were asked to take.
    """

    def __init__(self, timeout: float) -> None:
        self._timeout = timeout
        self._others = set(multiprocessing.active_children())
        self._has_bitten = False

    @contextlib.contextmanager
    def guard(self, seconds: float) -> Iterator[None]:
        """Within this, workers must answer in `seconds` and the timeout.

        Raises:
            WorkerError: they did not.
        """
        timer = threading.Timer(seconds + self._timeout, self._bite)
        timer.daemon = True
        timer.start()
        try:
            yield
        except WorkerError:
            if not self._has_bitten:
                raise
            raise WorkerError(
                f"an environment was not made, reset or stepped within {self._timeout:g} s: it "
                "hangs, or needs a longer timeout"
            ) from None
        finally:
            timer.cancel()

    def _bite(self) -> None:
        self._has_bitten = True
        for process in set(multiprocessing.active_children()) - self._others:
            with contextlib.suppress(ValueError):  # closed meanwhile
                process.kill()


@contextlib.contextmanager
def _named(where: str) -> Iterator[None]:
    """Say in which setting environments failed."""
    try:
        yield
    except WorkerError as error:
        raise WorkerError(f"{where}: {error}") from error


def _run(vecenv: VecEnv, act: Policy, seconds: float) -> Slice:
    """Take batches and act on them for `seconds`."""
    batches, thinking = 0, 0.0
    start = perf_counter()
    while True:
        observations = vecenv.recv()[0]
        before = perf_counter()
        actions = act(observations)
        thinking += perf_counter() - before
        vecenv.send(actions)
        batches += 1
        passed = perf_counter() - start
        if passed >= seconds:
            return Slice(batches * vecenv.agents_per_batch, passed, thinking)


def _blind(vecenv: VecEnv) -> Policy:
    """A policy that costs nothing."""
    return draw_actions(
        vecenv.single_action_space, vecenv.agents_per_batch, vecenv.driver_env.emulated
    )
