"""What the emulation of both APIs shares."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from pufferlib.emulation.masks import ActionMask, find_mask
from pufferlib.exceptions import APIUsageError
from pufferlib.flatten import ActionPlan, ObservationPlan
from pufferlib.flatten.casting import as_array, cast_actions, misfit
from pufferlib.spaces import row_layout

Check = Literal["first", "always", "never"]


@dataclass(frozen=True)
class Emulated:
    """How to undo emulation; `pufferlib.pytorch.nativize_dtype` reads it.

    Attributes:
        observation_dtype: one observation as an aligned struct, or a plain dtype when only the
            actions are emulated.
        emulated_observation_dtype: dtype of the flat row.
        action_dtype: one action as an aligned struct.
        action_mask: where observations say which actions are allowed; None if they do not.
    """

    observation_dtype: np.dtype[Any]
    emulated_observation_dtype: np.dtype[Any]
    action_dtype: np.dtype[Any]
    action_mask: ActionMask | None = None


def emulated_by(observation: Any, action: Any) -> Emulated | None:
    """What the two plans emulate, or None if rows are what the environment itself gives."""
    if not (observation.is_emulated or action.is_emulated):
        return None
    flat = isinstance(observation, ObservationPlan) and isinstance(action, ActionPlan)
    mask = find_mask(observation, action) if flat else None
    row_dtype = row_layout(observation.row_space)[1]
    return Emulated(observation.dtype, row_dtype, action.dtype, mask)


def make_env(
    env: Any, env_creator: Any, env_args: Sequence[Any], env_kwargs: Mapping[str, Any] | None
) -> Any:
    """The environment from an object, a class or a creator function."""
    if (env is None) == (env_creator is None):
        got = "neither" if env is None else "both"
        raise APIUsageError(f"expected either env or env_creator, got {got}")
    if env is not None and (isinstance(env, type) or not hasattr(env, "step")):
        env, env_creator = None, env
    if env is not None:
        if env_args or env_kwargs:
            raise APIUsageError("env_args and env_kwargs go with env_creator, not with an object")
        return env
    if not callable(env_creator):
        raise APIUsageError(
            f"env_creator: expected a class or a function that returns an environment, got "
            f"{type(env_creator).__name__}"
        )
    return env_creator(*env_args, **(env_kwargs or {}))


def check_mode(check: str) -> Check:
    """`check` if it is one of the modes, else an APIUsageError."""
    if check not in ("first", "always", "never"):
        raise APIUsageError(f"check: expected 'first', 'always' or 'never', got {check!r}")
    return check  # type: ignore[return-value]


def name_of(env: Any) -> str:
    """What messages call an environment: the innermost one's class."""
    return type(getattr(env, "unwrapped", env)).__name__


def fill_row(row: NDArray[Any], value: Any, name: str) -> None:
    """Copy `value` (number, list, array, CPU tensor) into `row`, whatever its rank.

    Raises:
        SpaceError: another number of elements, or values that the row cannot hold.
    """
    array = as_array(value)
    if array.dtype != object and array.size != row.size:
        raise misfit(name, f"shape {row.shape}", f"shape {array.shape}")
    row[...] = cast_actions(value, row.dtype, name).reshape(row.shape)
