"""What both suites ask of rows, infos and recordings, and how they say that it is not so."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode
from numpy.typing import NDArray

from pufferlib.exceptions import APIUsageError
from pufferlib.spaces import dtype_bounds
from pufferlib.testing.recording import Rollout


def check_rows(record: Rollout, env: Any) -> None:
    """The row kinds that can be told from a recording."""
    ended = record.terminals | record.truncations
    space = env.single_observation_space
    forbid(ended[0], "a row after reset: expected terminal and truncation False, got True")
    forbid(record.rewards[0] != 0, "a row after reset: expected reward 0")
    forbid(~np.isfinite(record.rewards), "expected finite rewards, written at every step")
    if env.autoreset_mode == AutoresetMode.NEXT_STEP:
        after = np.concatenate([np.zeros_like(ended[:1]), ended[:-1]])
        forbid(after & (record.rewards != 0), "the row after an episode's last: expected reward 0")
        forbid(after & ended, "the row after an episode's last: expected no terminal, truncation")
    absent = ~record.masks
    content = record.observations.reshape(*absent.shape, -1).any(axis=-1)
    forbid(absent & content, "an absent agent (mask False): expected an observation of zeros")
    forbid(absent & (record.rewards != 0), "an absent agent (mask False): expected reward 0")
    forbid(absent & ended, "an absent agent (mask False): expected no terminal, truncation")
    observations = [("observation", record.observations, record.masks)]
    if record.final_observations is not None:
        observations.append(("final observation", record.final_observations, record.truncations))
    low, high = dtype_bounds(space)
    for name, rows, where in observations:
        inside = ((rows >= low) & (rows <= high)).reshape(*where.shape, -1).all(axis=-1)
        forbid(where & ~inside, f"expected a valid {name} in {space}, got values out of bounds")


def check_infos(infos: Any, where: str) -> None:
    """Raise unless `infos` is a list of dicts."""
    require(
        isinstance(infos, list) and all(isinstance(info, dict) for info in infos),
        f"{where}: expected a list of info dicts, empty when there is nothing to tell, got "
        f"{infos!r:.100}",
    )


def require(condition: bool, message: str) -> None:
    """Raise `message` unless `condition` holds."""
    if not condition:
        raise APIUsageError(message)


def forbid(bad: NDArray[np.bool_], message: str) -> None:
    """Raise if any entry of `bad`, whose last two axes are step and agent, is True."""
    if bad.any():
        *step, agent = np.argwhere(bad)[0]
        raise APIUsageError(f"step {step[0] if step else 0}, agent {agent}: {message}")


def must_raise(error: type[Exception], call: Callable[[], Any], what: str) -> None:
    """Raise unless `call`, described by `what`, raises `error`."""
    try:
        call()
    except error:
        return
    raise APIUsageError(f"{what}: expected {error.__name__}, but nothing was raised")


def require_equal(expected: Rollout, got: Rollout, what: str = "rollouts") -> None:
    """Raise unless two rollouts are equal to the last bit.

    Raises:
        APIUsageError: names the first array, step and agent that differ, with both values.
    """
    for field in fields(Rollout):
        a, b = getattr(expected, field.name), getattr(got, field.name)
        if a is None and b is None:
            continue
        require(
            a is not None and b is not None and a.shape == b.shape and a.dtype == b.dtype,
            f"{what}: {field.name} have unlike shapes or dtypes",
        )
        different = _bytes(a, 2) != _bytes(b, 2)
        if different.any():
            t, agent, *_ = np.argwhere(different)[0]
            raise APIUsageError(
                f"{what}: {field.name} differ first at step {t}, agent {agent}: expected "
                f"{a[t, agent]}, got {b[t, agent]}"
            )


def _bytes(array: NDArray[Any], axes: int) -> NDArray[np.uint8]:
    """The bytes of the elements under each index of the first `axes` axes: NaNs compare too."""
    flat = np.ascontiguousarray(array).reshape(*array.shape[:axes], -1)
    return flat.view(np.uint8)
