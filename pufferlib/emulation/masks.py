"""Action masks: what an observation says about which actions its agent may take now."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from gymnasium.spaces import Box, Dict, Space
from numpy.typing import NDArray

from pufferlib.exceptions import SpaceError
from pufferlib.flatten import ActionPlan, ObservationPlan
from pufferlib.flatten.action import options_of
from pufferlib.flatten.leaves import Leaf, children_of
from pufferlib.spaces import dtype_bounds

ACTION_MASK = "action_mask"
"""The key that is reserved for masks in a Dict observation space."""

Path = tuple[Any, ...]


@dataclass(frozen=True)
class ActionMask:
    """Where structured observations hold the mask of the choices in an action row.

    Attributes:
        fields: the names that lead to each part of the mask in `Emulated.observation_dtype`. The
            parts side by side are in the order of the row's choices.
        nvec: the number of options of each choice. The mask has one element per option; zero
            rules it out.
    """

    fields: tuple[tuple[str, ...], ...]
    nvec: tuple[int, ...]

    def parts(self, structs: NDArray[Any]) -> list[NDArray[Any]]:
        """Views of the parts, each `(N, size)`, in structs `(N,)` of the observation."""
        parts = []
        for names in self.fields:
            part = structs
            for name in names:
                part = part[name]
            parts.append(part.reshape(len(structs), math.prod(part.shape[1:])))
        return parts

    def allowed(self, structs: NDArray[Any]) -> NDArray[np.bool_]:
        """Bool `(N, sum(nvec))` from structs `(N,)` of the observation."""
        return np.concatenate(self.parts(structs), axis=-1) != 0

    def choose(self, structs: NDArray[Any], draws: NDArray[np.float64]) -> NDArray[np.int64]:
        """One allowed option of each choice: `(N, len(nvec))`.

        Args:
            structs: `(N,)`, structured observations.
            draws: `(N, sum(nvec))` within 0 … 1; the option with the highest is taken, so that
                uniform draws make uniform choices. Where nothing is allowed, anything is taken.
        """
        ranks = draws + self.allowed(structs)
        heads = np.split(ranks, np.cumsum(self.nvec)[:-1], axis=-1)
        return np.stack([head.argmax(-1) for head in heads], axis=-1)


def find_mask(observation: ObservationPlan, action: ActionPlan) -> ActionMask | None:
    """The mask in observations that are a Dict with the key `action_mask`; None without one.

    It has an element for each option, flat in the order of the action row's choices, or nested
    as the action space nests them (a MultiDiscrete's part may be a Tuple with a part for each
    dimension). Continuous actions have none.

    Raises:
        SpaceError: the mask does not fit the actions, or is not of zeros and ones.
    """
    space = observation.space
    if not isinstance(space, Dict) or ACTION_MASK not in space.spaces:
        return None
    parts = {leaf.path[1:]: leaf for leaf in observation.leaves if leaf.path[0] == ACTION_MASK}
    choices = [leaf for leaf in action.leaves if not isinstance(leaf.space, Box)]
    expected = dict(_expected_parts(choices, parts))
    got = {path: math.prod(leaf.shape) for path, leaf in parts.items()}
    name = f"{observation.name}[{ACTION_MASK!r}]"
    if not choices or got != expected:
        raise SpaceError(
            f"{name}: expected one element for each option of the actions {action.space}, that is, "
            f"{_sizes(expected)}, got {_sizes(got)}; the key is reserved for action masks: rename "
            "it if it is something else"
        )
    for leaf in parts.values():
        _require_bits(leaf)
    fields = tuple(_field_names(space, (ACTION_MASK, *path)) for path in expected)
    return ActionMask(fields, tuple(int(n) for leaf in choices for n in options_of(leaf.space)))


def _expected_parts(choices: list[Leaf], parts: Mapping[Path, Leaf]) -> Iterator[tuple[Path, int]]:
    """Path and size of each part that the mask should have, given the way it is nested."""
    if set(parts) == {()}:
        yield (), sum(int(options_of(leaf.space).sum()) for leaf in choices)
        return
    for leaf in choices:
        options = options_of(leaf.space).tolist()
        if leaf.path in parts:
            yield leaf.path, sum(options)
        else:
            yield from (((*leaf.path, i), n) for i, n in enumerate(options))


def _sizes(parts: Mapping[Path, int]) -> str:
    if set(parts) <= {()}:
        return f"{parts.get((), 0)} elements"
    return ", ".join(f"{size} at {list(path)}" for path, size in parts.items())


def _require_bits(leaf: Leaf) -> None:
    low, high = dtype_bounds(leaf.space)
    if np.any(low < 0) or np.any(high > 1):
        raise SpaceError(
            f"{leaf.name}: expected zeros and ones, such as MultiBinary({math.prod(leaf.shape)}), "
            f"got {leaf.space}"
        )


def _field_names(space: Space[Any], path: Path) -> tuple[str, ...]:
    names = []
    for step in path:
        children = {key: (field, child) for key, field, child in children_of(space)}  # type: ignore[arg-type]
        field, space = children[step]
        names.append(field)
    return tuple(names)


def mask_checker(mask: ActionMask, row: NDArray[Any], plan: ObservationPlan) -> Callable[[], None]:
    """A function that raises SpaceError if the observation in `row` leaves a choice no option."""
    parts = [part[0] for part in mask.parts(row.view(plan.dtype))]
    starts, count = np.cumsum((0, *mask.nvec[:-1])), len(mask.nvec)

    def check() -> None:
        # Called at every step: count_nonzero() takes a fraction of the time of any() and all().
        bits = parts[0] if len(parts) == 1 else np.concatenate(parts)
        if np.count_nonzero(bits if count == 1 else np.maximum.reduceat(bits, starts)) >= count:
            return
        possible = np.maximum.reduceat(bits, starts) != 0
        raise SpaceError(
            f"{plan.name}[{ACTION_MASK!r}]: expected at least one allowed option for each of "
            f"{count} choices, got none for choice {int(possible.argmin())}; allow one, end the "
            "agent's episode with this observation, or emulate with check='never', where an agent "
            "may do anything if it is allowed nothing"
        )

    return check


def take_allowed(
    actions: NDArray[Any],
    observations: NDArray[Any],
    emulated: Any,
    source: np.random.Generator | NDArray[np.float64],
) -> None:
    """Overwrite the choices in `actions` by random ones that the observations allow.

    Without a mask, the actions stay as they are.

    Args:
        actions: `(N, *action_shape)`, as sampled from the action space.
        observations: `(N, row_size)`, as environments deliver them.
        emulated: `env.emulated`.
        source: of the draws that `ActionMask.choose` takes, or these draws themselves.
    """
    mask: ActionMask | None = getattr(emulated, "action_mask", None)
    if mask is None:
        return
    structs = np.ascontiguousarray(observations).view(emulated.observation_dtype)[:, 0]
    if isinstance(source, np.random.Generator):
        source = source.random((len(structs), sum(mask.nvec)))
    rows = actions.reshape(len(actions), math.prod(actions.shape[1:]))
    rows[:, : len(mask.nvec)] = mask.choose(structs, source)
