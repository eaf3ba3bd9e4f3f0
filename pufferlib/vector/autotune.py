"""Find the fastest way to run an environment on this machine, by trying."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pufferlib.exceptions import APIUsageError

if TYPE_CHECKING:
    from pufferlib.vector.tuning.bench import Policy
    from pufferlib.vector.tuning.result import Tuning


def autotune(
    env_creator: Callable[..., Any],
    env_args: Sequence[Any] | None = None,
    env_kwargs: Mapping[str, Any] | None = None,
    policy: Policy | None = None,
    *,
    num_envs: int | None = None,
    max_envs: int = 256,
    pools: bool = True,
    seconds: float = 60.0,
    max_bytes: float | None = None,
    timeout: float = 60.0,
    context: Any = None,
    show: bool = True,
) -> Tuning:
    """Profile an environment, try ways to run it, and recommend one.

    Tries `Serial` and `Multiprocessing` with different numbers of workers, environments and
    environments per batch. The number of environments is doubled as long as that brings at least
    5 %; a setting that is clearly slower than the best is cut short; the best two are measured
    once more, and where those cannot be told apart, the simpler one wins. Everything runs in
    worker processes, so that no environment comes into this one.

    Args:
        env_creator, env_args, env_kwargs: as in `pufferlib.vector.make`; one creator, no list.
        policy: takes observations `(rows, *observation_shape)` and returns actions
            `(rows, *action_shape)`, as NumPy arrays; called in this process, with rows of
            different numbers of environments. None costs nothing and acts at random.
        num_envs: try this number of environments only.
        max_envs: try no more than this.
        pools: also try batches with fewer environments than there are, for a trainer that uses
            `recv` and `send`. Which of them come first then depends on timing.
        seconds: how long all of it may take. Environments that take long to start or to step
            can exceed it by one start or step.
        max_bytes: memory that environments may take in all; None: 80 % of what is free.
        timeout: seconds that making, resetting or stepping an environment may take.
        context: start method, as in `pufferlib.vector.make`.
        show: print the profile, a table of the measurements and the recommended line.

    Returns:
        The recommendation. Speeds are in agent steps per second, rows of absent agents included.
        `str()` of it is a line of Python that makes the environments;
        `pufferlib.vector.make(env_creator, env_args, env_kwargs, **result.make_kwargs)` does so.

    Raises:
        APIUsageError: an argument is impossible, or nothing fits into the memory.
        WorkerError: an environment raised or hung, or its process died; names the setting.
        SpaceError: the policy's actions do not fit.
    """
    numbers = {"num_envs": num_envs, "max_envs": max_envs, "max_bytes": max_bytes}
    _check(env_creator, **numbers, seconds=seconds, timeout=timeout)
    # Here, as every worker that is spawned imports this package.
    from pufferlib.vector.tuning.search import find_fastest

    tuning = find_fastest(
        env_creator,
        tuple(env_args or ()),
        dict(env_kwargs or {}),
        policy,
        num_envs=num_envs,
        max_envs=max_envs,
        pools=pools,
        seconds=seconds,
        max_bytes=max_bytes,
        timeout=timeout,
        context=context,
    )
    if show:
        tuning.show()
    return tuning


def _check(env_creator: Any, **numbers: Any) -> None:
    if not callable(env_creator):
        raise APIUsageError(
            f"env_creator: expected one class or function, got {type(env_creator).__name__}"
        )
    for name, value in numbers.items():
        if value is not None and not value > 0:
            raise APIUsageError(f"{name}: expected more than 0, got {value!r}")
