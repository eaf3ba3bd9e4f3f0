"""`make`: the one way to build a vectorized environment."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pufferlib.exceptions import APIUsageError, EnvironmentSetupError
from pufferlib.vector.backend import Creator
from pufferlib.vector.base import VecEnv
from pufferlib.vector.demands import one_per_process
from pufferlib.vector.serial import Serial

BACKENDS = ("serial", "multiprocessing", "ray")


def make(
    env_creator_or_creators: Callable[..., Any] | Sequence[Callable[..., Any]],
    env_args: Sequence[Any] | None = None,
    env_kwargs: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None = None,
    backend: type[VecEnv] | str | None = None,
    num_envs: int = 1,
    num_workers: int | str | None = None,
    batch_size: int | None = None,
    zero_copy: bool = True,
    seed: int | None = 0,
    context: Any = None,
    copy: bool = False,
    timeout: float | None = None,
    restart: int = 0,
) -> VecEnv:
    """Many environments as one.

    Args:
        env_creator_or_creators: a class or function that returns a `PufferEnv` or an emulated
            environment, or a list of `num_envs` such.
        env_args, env_kwargs: arguments of the creator; with a list of creators, a list of
            arguments and a list of keywords, one entry per environment.
        backend: `Serial`, `Multiprocessing`, `Ray`, or their names in lower case. None: `Serial`,
            or `Multiprocessing` if there are several environments and the creator's attribute
            `one_per_process` demands a process for each.
        num_envs: environments in all.
        num_workers: processes, a divisor of `num_envs`. 'auto' and None: one per core that this
            process may use (affinity and cgroup quota) or, with Ray, that the cluster has, as far
            as that divides; one per environment where `one_per_process` demands it.
        batch_size: environments per result; fewer than `num_envs` makes a pool whose batches
            come as they finish. A multiple of the environments per worker. None: all.
        zero_copy: batches are fixed neighbouring workers, handed out without a copy. False: any
            workers that finished first make a batch, which is gathered by a copy.
        seed: for the first reset that names none, and for the workers' global generators; None
            takes fresh entropy.
        context: start method ('fork', 'forkserver', 'spawn') or multiprocessing context. None:
            what the creator's attribute `start_method` demands, else what the program has set,
            else fork on Linux and spawn elsewhere. With Ray: options of its actors, such as
            `{"num_cpus": 1}`.
        copy: return copies instead of live views.
        timeout: seconds that a worker may take for the step or reset of its environments; then a
            `WorkerError` names those that are still busy. None: as long as it takes.
        restart: how often an environment that raises in step or reset, or whose worker dies or
            hangs, is made anew in its place. Its episode ends with a row that is truncated and
            absent (mask False); an info `{'restarted': {index: error}}` and a warning tell.

    Raises:
        APIUsageError: arguments that do not go together; names the nearest that do.
        EnvironmentSetupError: the backend needs a package that is missing.
        WorkerError: an environment's constructor raised, or its process died.
    """
    creators = _creators(env_creator_or_creators, env_args, env_kwargs, num_envs)
    if backend is None:
        parts = num_envs > 1 and one_per_process(creators)
        backend = "multiprocessing" if parts else Serial
    if isinstance(backend, str):
        backend = load_backend(backend)
    if not (isinstance(backend, type) and issubclass(backend, VecEnv)):
        raise APIUsageError(f"backend: expected Serial, Multiprocessing or Ray, got {backend!r}")
    if seed is not None and (isinstance(seed, bool) or int(seed) != seed or seed < 0):
        raise APIUsageError(f"seed: expected an int of at least 0, or None, got {seed!r}")
    _check_failing(timeout, restart)
    make_backend: Callable[..., VecEnv] = backend  # all take these, whatever their base says
    return make_backend(
        creators,
        num_workers=num_workers,
        batch_size=batch_size,
        zero_copy=zero_copy,
        seed=None if seed is None else int(seed),
        context=context,
        copy=copy,
        timeout=timeout,
        restart=restart,
    )


def load_backend(name: str) -> type[VecEnv]:
    """The backend of this name in lower case.

    Raises:
        APIUsageError: there is none.
        EnvironmentSetupError: it needs a package that is missing.
    """
    if name not in BACKENDS:
        raise APIUsageError(f"backend: expected one of {list(BACKENDS)}, got {name!r}")
    try:
        module = importlib.import_module(f"pufferlib.vector.{name}")
    except ImportError as error:
        raise EnvironmentSetupError(
            f"backend {name!r} cannot be imported: {error}; install it with: "
            f"pip install 'pufferlib[{name}]'"
        ) from error
    backend: type[VecEnv] = getattr(module, name.title())
    return backend


def _check_failing(timeout: Any, restart: Any) -> None:
    if timeout is not None and not timeout > 0:
        raise APIUsageError(f"timeout: expected seconds above 0, or None, got {timeout!r}")
    if isinstance(restart, bool) or not isinstance(restart, int) or restart < 0:
        raise APIUsageError(f"restart: expected an int of at least 0, got {restart!r}")


def _creators(creators: Any, args: Any, kwargs: Any, num_envs: int) -> list[Creator]:
    """One function without arguments per environment."""
    if isinstance(num_envs, bool) or not isinstance(num_envs, int) or num_envs < 1:
        raise APIUsageError(f"num_envs: expected an int of at least 1, got {num_envs!r}")
    if not isinstance(creators, Sequence):
        _check_arguments(creators, args or (), kwargs or {})
        creator = functools.partial(creators, *(args or ()), **(kwargs or {}))
        return [creator] * num_envs
    args = [()] * num_envs if args is None else args
    kwargs = [{}] * num_envs if kwargs is None else kwargs
    for name, given in (("creators", creators), ("env_args", args), ("env_kwargs", kwargs)):
        if isinstance(given, Mapping) or len(given) != num_envs:
            raise APIUsageError(
                f"{name}: expected a list of num_envs={num_envs} entries beside a list of "
                f"creators, got {given!r:.200}"
            )
    for creator, some_args, some_kwargs in zip(creators, args, kwargs, strict=True):
        _check_arguments(creator, some_args, some_kwargs)
    return [
        functools.partial(creator, *some_args, **some_kwargs)
        for creator, some_args, some_kwargs in zip(creators, args, kwargs, strict=True)
    ]


def _check_arguments(creator: Any, args: Any, kwargs: Any) -> None:
    if not callable(creator):
        raise APIUsageError(
            f"env creator: expected a class or a function, got {type(creator).__name__}; pass the "
            "function itself, not an environment"
        )
    if not isinstance(args, Sequence) or isinstance(args, str):
        raise APIUsageError(f"env_args: expected a list or tuple, got {type(args).__name__}")
    if not isinstance(kwargs, Mapping):
        raise APIUsageError(f"env_kwargs: expected a dict, got {type(kwargs).__name__}")
