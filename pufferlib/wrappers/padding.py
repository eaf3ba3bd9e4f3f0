"""Agents with unequal spaces brought to one common space."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Space, Tuple
from gymnasium.wrappers.utils import create_zero_array
from numpy.typing import NDArray
from pettingzoo.utils import BaseParallelWrapper

from pufferlib.exceptions import SpaceError
from pufferlib.wrappers.conversion import reset_keywords
from pufferlib.wrappers.masks import ACTION_MASK

Change = Callable[[Any], Any]


class PadAgentSpaces(BaseParallelWrapper[Any, Any, Any]):
    """A parallel environment whose agents all have the smallest space that holds everyone's.

    Arrays are padded with zeros at the ends of their dimensions, choices with further options, a
    Dict with the keys and a Tuple with the positions that others have. Observations gain what is
    missing. Actions lose what is not their agent's: the option of a choice that the agent has not
    becomes its first one, and numbers are clipped to the agent's own bounds.

    Args:
        env: a parallel environment.

    Raises:
        SpaceError: spaces that differ and cannot be padded to one, as they are not of one kind or
            not alike in dtype, number of dimensions and start, or are a Text, Sequence, Graph or
            OneOf; names the agents and the place in the space. Or an `action_mask` that lists the
            options of several choices side by side, where padding would take them apart.
    """

    def __init__(self, env: Any) -> None:
        super().__init__(env)
        self._observations, self._actions = (
            join({agent: getattr(env, name)(agent) for agent in env.possible_agents}, name)
            for name in ("observation_space", "action_space")
        )
        for agent in env.possible_agents:
            self._require_aligned_mask(agent)

    def _require_aligned_mask(self, agent: Any) -> None:
        observation, action = self.env.observation_space(agent), self.env.action_space(agent)
        mask = observation.spaces.get(ACTION_MASK) if isinstance(observation, Dict) else None
        is_flat = mask is not None and not isinstance(mask, Dict | Tuple)
        if is_flat and not isinstance(action, Discrete) and action != self._actions.space:
            raise SpaceError(
                f"observation_space[{ACTION_MASK!r}] of {agent!r}: expected a mask nested as the "
                f"actions are, which may be padded, got {mask} for {action}; give it as a Dict or "
                "Tuple with a part for each choice"
            )

    def observation_space(self, agent: Any) -> Space[Any]:
        """The common space of observations."""
        return self._observations.space

    def action_space(self, agent: Any) -> Space[Any]:
        """The common space of actions."""
        return self._actions.space

    def reset(
        self, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[Any, Any], dict[Any, Any]]:
        """First observations, padded, and infos."""
        observations, infos = self.env.reset(**reset_keywords(self.env.reset, seed, options))
        return self._padded(observations), infos

    def step(
        self, actions: dict[Any, Any]
    ) -> tuple[dict[Any, Any], dict[Any, float], dict[Any, bool], dict[Any, bool], dict[Any, Any]]:
        """A step whose actions are cropped and whose observations are padded."""
        crop = self._actions.crop
        own = {agent: crop[agent](action) for agent, action in actions.items()}
        observations, rewards, terminals, truncations, infos = self.env.step(own)
        return self._padded(observations), rewards, terminals, truncations, infos

    def _padded(self, observations: Mapping[Any, Any]) -> dict[Any, Any]:
        pad = self._observations.pad
        return {agent: pad[agent](seen) for agent, seen in observations.items()}


@dataclass(frozen=True)
class Joint:
    """The common space of some agents.

    Attributes:
        space: the common space.
        pad: for each agent, from its own space to the common one.
        crop: the way back.
    """

    space: Space[Any]
    pad: Mapping[Any, Change]
    crop: Mapping[Any, Change]


def join(spaces: Mapping[Any, Space[Any]], name: str) -> Joint:
    """The common space of agents with these spaces.

    Raises:
        SpaceError: there is none; calls the space `name`.
    """
    first = next(iter(spaces.values()))
    if all(space == first for space in spaces.values()):
        same = dict.fromkeys(spaces, _unchanged)
        return Joint(first, same, same)
    for agent, space in spaces.items():
        like = _likeness(space)
        if space != first and (like is None or like != _likeness(first)):
            raise SpaceError(
                f"{name}: expected spaces that can be padded to one, got {first} for "
                f"{next(iter(spaces))!r} and {space} for {agent!r}"
            )
    if isinstance(first, Dict | Tuple):
        return _join_composites(spaces, name)
    return _LEAF_JOINS[type(first)](spaces)


def _likeness(space: Space[Any]) -> Any:
    """What two spaces must have in common; None if there is no padding of their kind."""
    kind = type(space)
    if isinstance(space, Dict | Tuple):
        return kind
    if kind not in _LEAF_JOINS:
        return None
    start = space.start if isinstance(space, Discrete) else 0
    if isinstance(space, MultiDiscrete) and space.start.any():
        return None
    return kind, space.dtype, len(space.shape or ()), start


def _unchanged(value: Any) -> Any:
    return value


def _join_boxes(boxes: Mapping[Any, Any]) -> Joint:
    shape = _largest(boxes)
    lows = [_widen(shape, box.low) for box in boxes.values()]
    highs = [_widen(shape, box.high) for box in boxes.values()]
    dtype = next(iter(boxes.values())).dtype
    low, high = np.asarray(np.min(lows, axis=0)), np.asarray(np.max(highs, axis=0))
    space = Box(low, high, dtype=dtype.type)
    crop = {
        agent: functools.partial(_clip, box.low, box.high, _corner(box))
        for agent, box in boxes.items()
    }
    return Joint(space, dict.fromkeys(boxes, functools.partial(_widen, shape)), crop)


def _join_choices(spaces: Mapping[Any, Any]) -> Joint:
    first = next(iter(spaces.values()))
    most = max(int(space.n) for space in spaces.values())
    crop = {agent: functools.partial(_first_unless_known, space) for agent, space in spaces.items()}
    return Joint(Discrete(most, start=first.start), dict.fromkeys(spaces, _unchanged), crop)


def _join_multidiscrete(spaces: Mapping[Any, Any]) -> Joint:
    shape = _largest(spaces)
    nvec = np.max([_widen(shape, space.nvec) for space in spaces.values()], axis=0)
    dtype = next(iter(spaces.values())).dtype
    crop = {
        agent: functools.partial(_first_beyond, space.nvec, _corner(space))
        for agent, space in spaces.items()
    }
    common = MultiDiscrete(nvec, dtype=dtype.type)
    return Joint(common, dict.fromkeys(spaces, functools.partial(_widen, shape)), crop)


def _join_multibinary(spaces: Mapping[Any, Any]) -> Joint:
    shape = _largest(spaces)
    crop = {agent: functools.partial(_part, _corner(space)) for agent, space in spaces.items()}
    return Joint(MultiBinary(shape), dict.fromkeys(spaces, functools.partial(_widen, shape)), crop)


def _join_composites(spaces: Mapping[Any, Any], name: str) -> Joint:
    if isinstance(next(iter(spaces.values())), Dict):
        own = {agent: dict(space.spaces) for agent, space in spaces.items()}
        joints = _join_children(own, name)
        common: Space[Any] = Dict({key: joint.space for key, joint in joints.items()})
        return Joint(common, *_nested(own, joints, dict))
    own = {agent: dict(enumerate(space.spaces)) for agent, space in spaces.items()}
    joints = _join_children(own, name)
    common = Tuple([joint.space for joint in joints.values()])
    return Joint(common, *_nested(own, joints, lambda parts: tuple(parts.values())))


_LEAF_JOINS: dict[type, Callable[[Mapping[Any, Any]], Joint]] = {
    Box: _join_boxes,
    Discrete: _join_choices,
    MultiDiscrete: _join_multidiscrete,
    MultiBinary: _join_multibinary,
}


def _join_children(own: Mapping[Any, Mapping[Any, Space[Any]]], name: str) -> dict[Any, Joint]:
    """By key, the common space of the agents that have it."""
    keys = dict.fromkeys(key for children in own.values() for key in children)
    return {
        key: join(
            {agent: children[key] for agent, children in own.items() if key in children},
            f"{name}[{key!r}]",
        )
        for key in keys
    }


def _nested(
    own: Mapping[Any, Mapping[Any, Any]], joints: Mapping[Any, Joint], build: Change
) -> tuple[Mapping[Any, Change], Mapping[Any, Change]]:
    """How agents pad and crop samples whose parts are at the keys of `joints`."""
    zeros = {key: create_zero_array(joint.space) for key, joint in joints.items()}
    pad, crop = {}, {}
    for agent, keys in own.items():
        pads = {key: joints[key].pad[agent] for key in keys}
        crops = {key: joints[key].crop[agent] for key in keys}
        pad[agent] = functools.partial(_pad_parts, pads, zeros, build)
        crop[agent] = functools.partial(_crop_parts, crops, build)
    return pad, crop


def _pad_parts(
    pads: Mapping[Any, Change], zeros: dict[Any, Any], build: Change, sample: Any
) -> Any:
    return build(zeros | {key: pad(sample[key]) for key, pad in pads.items()})


def _crop_parts(crops: Mapping[Any, Change], build: Change, sample: Any) -> Any:
    return build({key: crop(sample[key]) for key, crop in crops.items()})


def _largest(spaces: Mapping[Any, Space[Any]]) -> tuple[int, ...]:
    shapes = [space.shape or () for space in spaces.values()]
    return tuple(max(sizes) for sizes in zip(*shapes, strict=True))


def _corner(space: Space[Any]) -> tuple[slice, ...]:
    """Where in the common array the agent's own lies."""
    return tuple(slice(size) for size in space.shape or ())


def _widen(shape: tuple[int, ...], value: Any) -> NDArray[Any]:
    value = np.asarray(value)
    wide = np.zeros(shape, value.dtype)
    wide[tuple(slice(size) for size in value.shape)] = value
    return wide


def _part(corner: tuple[slice, ...], value: Any) -> NDArray[Any]:
    return np.array(np.asarray(value)[corner])


def _clip(
    low: NDArray[Any], high: NDArray[Any], corner: tuple[slice, ...], value: Any
) -> NDArray[Any]:
    return np.asarray(np.clip(_part(corner, value), low, high))


def _first_beyond(nvec: NDArray[Any], corner: tuple[slice, ...], value: Any) -> NDArray[Any]:
    part = _part(corner, value)
    return np.where(part < nvec, part, 0).astype(part.dtype)


def _first_unless_known(space: Discrete, value: Any) -> Any:
    return value if value in space else int(space.start)
