"""What the benchmarks compare: everything that steps several environments at once."""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import time
from collections.abc import Callable, Iterator
from typing import Any

from gymnasium.vector import AsyncVectorEnv, SyncVectorEnv
from workloads import Creator

from pufferlib import vector
from pufferlib.emulation import GymnasiumPufferEnv
from pufferlib.vector.sizes import available_cores

ASYNC, SUBPROC = "Gymnasium Async", "SB3 Subproc"
SYNC, DUMMY, SERIAL = "Gymnasium Sync", "SB3 Dummy", "pufferlib Serial"
ENVPOOL = "EnvPool"
BOUND = "bound"
PEERS = (ASYNC, SUBPROC)

# The environments that EnvPool has, in C++ and with the same preprocessing.
IN_ENVPOOL = {"cartpole": "CartPole-v1", "breakout": "Breakout-v5"}


def ours(workers: int, pool: bool = False) -> str:
    """The name of a contestant."""
    return f"pufferlib {workers} worker" + "s" * (workers > 1) + ", pool" * pool


# A contestant: something that steps some environments and says how many, while its context is open.
Stepper = contextlib.AbstractContextManager[Callable[[], int]]


@contextlib.contextmanager
def bare(creators: list[Creator], actions: Any) -> Iterator[Callable[[], int]]:
    """One environment without any vectorization, reset when it must be."""
    env = creators[0]()
    env.reset(seed=0)

    def step() -> int:
        for action in actions:
            _, _, terminal, truncation, _ = env.step(action)
            if terminal or truncation:
                env.reset()
        return len(actions)

    yield step
    env.close()


@contextlib.contextmanager
def gymnasium_vector(
    cls: Any, creators: list[Creator], actions: Any
) -> Iterator[Callable[[], int]]:
    envs = cls(creators)
    envs.reset(seed=0)
    yield lambda: len(envs.step(actions)[1])
    envs.close()


@contextlib.contextmanager
def sb3(name: str, creators: list[Creator], actions: Any) -> Iterator[Callable[[], int]]:
    from stable_baselines3.common import vec_env

    # The start method that the others use as well.
    kwargs = {"start_method": "fork"} if name == "SubprocVecEnv" else {}
    envs = getattr(vec_env, name)(creators, **kwargs)
    envs.reset()
    yield lambda: len(envs.step(actions)[1])
    envs.close()


def emulate(creator: Any) -> GymnasiumPufferEnv:
    return GymnasiumPufferEnv(creator())


@contextlib.contextmanager
def pufferlib_vector(
    creators: list[Creator], actions: Any, **kwargs: Any
) -> Iterator[Callable[[], int]]:
    emulated = [functools.partial(emulate, creator) for creator in creators]
    with vector.make(emulated, num_envs=len(actions), **kwargs) as vecenv:
        vecenv.async_reset(seed=0)
        vecenv.recv()
        actions = actions[: vecenv.agents_per_batch]

        def step() -> int:
            vecenv.send(actions)
            return len(vecenv.recv()[1])

        yield step


def pufferlib_pool(creators: list[Creator], actions: Any, num_workers: int) -> Stepper:
    """Batches of half of the environments, those that finished first."""
    kwargs = {"num_workers": num_workers, "batch_size": len(creators) // 2, "zero_copy": False}
    return pufferlib_vector(creators, actions, backend="multiprocessing", **kwargs)


@contextlib.contextmanager
def envpool(task: str, _: Any, actions: Any) -> Iterator[Callable[[], int]]:
    """EnvPool's own environments in threads, one per core."""
    import envpool as library

    envs = library.make_gymnasium(task, num_envs=len(actions), num_threads=available_cores())
    envs.reset()
    yield lambda: len(envs.step(actions)[1])
    envs.close()


def contestants(workers: tuple[int, ...], env: str = "") -> dict[str, Callable[..., Stepper]]:
    """By name, in the order of the table; EnvPool where it has `env`."""
    found: dict[str, Callable[..., Stepper]] = {
        BOUND: bare,
        SYNC: functools.partial(gymnasium_vector, SyncVectorEnv),
        ASYNC: functools.partial(gymnasium_vector, AsyncVectorEnv),
    }
    if importlib.util.find_spec("stable_baselines3"):
        found[DUMMY] = functools.partial(sb3, "DummyVecEnv")
        found[SUBPROC] = functools.partial(sb3, "SubprocVecEnv")
    if env in IN_ENVPOOL and importlib.util.find_spec("envpool"):
        found[ENVPOOL] = functools.partial(envpool, IN_ENVPOOL[env])
    found[SERIAL] = functools.partial(pufferlib_vector, backend="serial")
    for n in workers:
        found[ours(n)] = functools.partial(
            pufferlib_vector, backend="multiprocessing", num_workers=n
        )
    for n in workers:
        if n > 1:
            found[ours(n, pool=True)] = functools.partial(pufferlib_pool, num_workers=n)
    return found


def steps_per_second(
    stepper: Stepper,
    seconds: float,
    warm_up: int = 5,
    clock: Callable[[], float] = time.perf_counter,
) -> float:
    """Environment steps per second of `clock` over about `seconds`, after a short warm-up."""
    with stepper as step:
        for _ in range(warm_up):
            step()
        count, start = 0, clock()
        while (elapsed := clock() - start) < seconds:
            count += step()
        return count / elapsed
