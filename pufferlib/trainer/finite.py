"""Stop at the first NaN or infinity that would be learnt from, and say where it came from."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from pufferlib.exceptions import NonFiniteError
from pufferlib.pytorch import NativeDtype, nativize_tensor
from pufferlib.trainer.experience import Rows, Segments

ENVIRONMENT = "the environment delivered it: fix it there, or clean it in a wrapper"
POLICY = "the policy computed it: a learning rate that is too high, or weights that overflowed"


def require_finite(
    segments: Segments, native_dtype: NativeDtype | None = None, agents_per_env: int = 1
) -> None:
    """Check everything that training reads; once per batch, one pass over each array.

    Args:
        segments: what was collected. Only valid samples are looked at.
        native_dtype: layout of structured observations, whose float leaves are checked.
        agents_per_env: to name the environment of an agent.

    Raises:
        NonFiniteError: names the quantity, the agent, its environment and its step.
    """
    for key, array, late, remedy in _checked(segments, native_dtype):
        bad = _not_finite(array, segments.valid)
        if bad is not None:
            segment, time = bad
            step = segments.first_steps[segment] + time + late
            agent = segments.agents[segment]
            raise _error(key, array[bad], agent, step, agents_per_env, remedy)


def require_finite_actions(
    actions: NDArray[Any],
    rows: Rows,
    steps: NDArray[np.int64],
    native_dtype: NativeDtype | None = None,
    agents_per_env: int = 1,
) -> None:
    """Check continuous actions before an environment gets them.

    Args:
        actions: `(B, …)`, one per row.
        rows: what was acted upon. Absent agents are not looked at.
        steps: `(B,)`, rows that each agent had seen before.
        native_dtype: as for `require_finite`.
        agents_per_env: as for `require_finite`.

    Raises:
        NonFiniteError: names the observation, if that is where it began, else the action.
    """
    bad = _not_finite(actions, rows.masks)
    if bad is None:
        return
    for key, array in _observations(rows.observations, native_dtype):
        origin = _not_finite(array, rows.masks)
        if origin is not None:
            row = origin[0]
            raise _error(key, array[row], rows.agents[row], steps[row], agents_per_env, ENVIRONMENT)
    row = bad[0]
    raise _error("actions", actions[row], rows.agents[row], steps[row], agents_per_env, POLICY)


def _checked(
    segments: Segments, native_dtype: NativeDtype | None
) -> Iterator[tuple[str, NDArray[Any], int, str]]:
    """Name, array `(S, H, …)`, rows by which its column t is late, and whose fault it is."""
    for key, array in _observations(segments.observations, native_dtype):
        yield key, array, 0, ENVIRONMENT
    yield "rewards", segments.rewards, 1, ENVIRONMENT
    yield "logprobs", segments.logprobs, 0, POLICY
    yield "values", segments.values, 0, POLICY
    yield "advantages", segments.advantages, 0, POLICY


def _observations(
    observations: NDArray[Any], native_dtype: NativeDtype | None
) -> Iterator[tuple[str, NDArray[Any]]]:
    """The observations, or each leaf of structured ones, with its name."""
    if native_dtype is None:
        yield "observations", observations
        return
    leaves = nativize_tensor(torch.from_numpy(observations), native_dtype)
    for path, leaf in _leaves(leaves, "observations"):
        yield path, leaf.numpy()


def _leaves(tree: Any, path: str) -> Iterator[tuple[str, Any]]:
    if isinstance(tree, dict):
        for name, value in tree.items():
            yield from _leaves(value, f"{path}[{name!r}]")
    else:
        yield path, tree


def _not_finite(array: NDArray[Any], looked_at: NDArray[np.bool_]) -> tuple[int, ...] | None:
    """Index of the first row that is looked at and holds a NaN or an infinity."""
    if array.dtype.kind != "f":
        return None
    bad = ~np.isfinite(array)
    if bad.ndim > looked_at.ndim:
        bad = bad.any(axis=tuple(range(looked_at.ndim, bad.ndim)))
    bad &= looked_at
    return tuple(np.argwhere(bad)[0]) if bad.any() else None


def _error(
    key: str, row: NDArray[Any], agent: int, step: int, agents_per_env: int, remedy: str
) -> NonFiniteError:
    values = np.ravel(row)
    return NonFiniteError(
        f"{key}: expected finite numbers, got {values[~np.isfinite(values)][0]} for agent {agent} "
        f"(environment {agent // agents_per_env}) at step {step} after the reset; {remedy}"
    )
