"""Every environment's own seed, whatever the backend and the number of workers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pufferlib.exceptions import APIUsageError


def env_seeds(seed: int | Sequence[int] | None, num_envs: int) -> list[int | None]:
    """A seed per environment: children of an int, a list as it is, or None for each.

    Raises:
        APIUsageError: a list of another length, or a seed below 0.
    """
    if seed is None:
        return [None] * num_envs
    if isinstance(seed, int | np.integer):
        return list(spread_seed(int(seed), num_envs))
    seeds = [int(s) for s in seed]
    if len(seeds) != num_envs or min(seeds) < 0:
        raise APIUsageError(
            f"seed: expected an int or {num_envs} seeds of at least 0, one per environment, got "
            f"{len(seeds)}: {seeds!r:.200}"
        )
    return list(seeds)


def restart_seed(seed: int | None, restarts: int) -> int | None:
    """The seed of an environment that was given `seed` once and has been made anew since.

    Args:
        seed: None has no successor but None.
        restarts: how often it has been made anew, at least once.
    """
    if seed is None:
        return None
    return spread_seed(seed, restarts)[-1]


def spread_seed(seed: int, n: int) -> list[int]:
    """`n` independent seeds below 2^31: children of `SeedSequence(seed)`.

    Neighbouring seeds share no stream, and child i is the same whatever `n`.
    """
    if seed < 0:
        raise APIUsageError(f"seed: expected an int of at least 0, got {seed}")
    children = (np.random.SeedSequence(seed, spawn_key=(i,)) for i in range(n))
    return [int(child.generate_state(1)[0]) & 0x7FFFFFFF for child in children]
