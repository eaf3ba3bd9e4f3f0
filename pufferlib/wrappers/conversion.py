"""What adapting another API needs: which keywords it takes and its spaces in Gymnasium's terms."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
from gymnasium import spaces

from pufferlib.exceptions import APIUsageError


def accepts(function: Callable[..., Any], argument: str) -> bool:
    """Whether `function` can be called with the keyword `argument`."""
    try:
        parameters = inspect.signature(function).parameters
    except (TypeError, ValueError):  # a builtin without a signature: let the call itself decide
        return True
    keywords = any(p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters.values())
    return keywords or argument in parameters


def reset_keywords(
    reset: Callable[..., Any], seed: int | None, options: dict[str, Any] | None
) -> dict[str, Any]:
    """Only what was given, so that environments without options still reset.

    Raises:
        APIUsageError: options are given, more than an empty dict, but `reset` takes none.
    """
    keywords: dict[str, Any] = {}
    if seed is not None:
        keywords["seed"] = seed
    if options is not None and accepts(reset, "options"):
        keywords["options"] = options
    elif options:
        raise APIUsageError(
            f"reset(options=…): got {options}, but the environment takes none; leave them out"
        )
    return keywords


def to_gymnasium_space(space: Any) -> spaces.Space[Any]:
    """A space of the old `gym` package as the Gymnasium space of the same name.

    Recognized by class name, so `gym` itself is not imported. Gymnasium spaces pass unchanged.
    Stand-ins for an absent `gym`, such as Crafter's `BoxSpace`, are spaces too.

    Raises:
        APIUsageError: the space has no counterpart.
    """
    if isinstance(space, spaces.Space):
        return space
    kind = type(space).__name__.removesuffix("Space")
    if kind == "Discrete":
        return spaces.Discrete(int(space.n), start=int(getattr(space, "start", 0)))
    if kind == "Box":
        return spaces.Box(space.low, space.high, tuple(map(int, space.shape)), space.dtype)
    if kind == "MultiDiscrete":
        return spaces.MultiDiscrete(np.asarray(space.nvec))
    if kind == "MultiBinary":
        return spaces.MultiBinary(space.n)
    if kind == "Dict":
        return spaces.Dict({key: to_gymnasium_space(s) for key, s in space.spaces.items()})
    if kind == "Tuple":
        return spaces.Tuple([to_gymnasium_space(s) for s in space.spaces])
    raise APIUsageError(f"expected a Gym or Gymnasium space, got {type(space)!r}: {space}")
