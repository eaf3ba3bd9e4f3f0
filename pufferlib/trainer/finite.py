"""Stop at the first NaN or infinity that would be learnt from, and say where it came from."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from pufferlib.exceptions import NonFiniteError
from pufferlib.pytorch import NativeDtype, nativize_tensor
from pufferlib.trainer.experience import Segments

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
    for key, array, offset, remedy in _checked(segments, native_dtype):
        if array.dtype.kind != "f":
            continue
        bad = ~np.isfinite(array)
        if bad.ndim > 2:
            bad = bad.reshape(*bad.shape[:2], -1).any(-1)
        bad &= segments.valid
        if bad.any():
            segment, time = np.argwhere(bad)[0]
            values = np.ravel(array[segment, time])
            agent = segments.agents[segment]
            raise NonFiniteError(
                f"{key}: expected finite numbers, got {values[~np.isfinite(values)][0]} for agent "
                f"{agent} (environment {agent // agents_per_env}) at step "
                f"{segments.first_steps[segment] + time + offset} after the reset; {remedy}"
            )


def _checked(
    segments: Segments, native_dtype: NativeDtype | None
) -> Iterator[tuple[str, NDArray[Any], int, str]]:
    """Name, array `(S, H, …)`, rows by which its column t is late, and whose fault it is."""
    if native_dtype is None:
        yield "observations", segments.observations, 0, ENVIRONMENT
    else:
        leaves = nativize_tensor(torch.from_numpy(segments.observations), native_dtype)
        for path, leaf in _leaves(leaves, "observations"):
            yield path, leaf.numpy(), 0, ENVIRONMENT
    yield "rewards", segments.rewards, 1, ENVIRONMENT
    yield "logprobs", segments.logprobs, 0, POLICY
    yield "values", segments.values, 0, POLICY
    yield "advantages", segments.advantages, 0, POLICY


def _leaves(tree: Any, path: str) -> Iterator[tuple[str, Any]]:
    if isinstance(tree, dict):
        for name, value in tree.items():
            yield from _leaves(value, f"{path}[{name!r}]")
    else:
        yield path, tree
