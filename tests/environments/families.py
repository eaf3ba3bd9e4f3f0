"""What the contract suite plays: the environments of every family, by name.

A family that is no part of the extra `test` is marked slow. One whose checks take more than six
seconds of CPU time is marked bench, unless it can be made cheaper.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from pufferlib import environments


@dataclass(frozen=True, kw_only=True)
class Case:
    """One environment, and how to see all of its contract in a few steps."""

    name: str
    """Anything that `pufferlib.environments.resolve` accepts."""
    mark: str = "slow"
    """The tier of its tests: 'quick', 'slow' or 'bench'."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Options that make its episodes short."""
    num_envs: int = 2
    """How many the backends hold."""
    steps: int = 150
    """What each of them plays there; two episodes of each must end by then."""
    checked_steps: int = 75
    """The length of the four runs of `check_env`; with those of two backends 300 or more."""
    render_mode: str = "rgb_array"
    """'rgb_array' or 'ansi', as `puffer eval --render` finds it."""

    @property
    def task(self):
        """The row of the family, and the task."""
        return environments.resolve(self.name)

    @property
    def package(self):
        """The family's package."""
        return environments.load(self.name)

    @property
    def creator(self):
        """The make function of the task."""
        return self.package.env_creator(self.task.task)


CASES = (
    Case(name="atari", options={"noop_max": 0}),
    Case(name="box2d", options={"max_episode_steps": 60}),
    Case(
        name="car_racing",
        mark="bench",
        options={"max_episode_steps": 20},
        num_envs=1,
        steps=45,
        checked_steps=53,
    ),
    Case(name="bsuite", mark="bench", render_mode="ansi"),
    Case(name="butterfly", options={"max_cycles": 40}),
    Case(name="cooperative_pong", mark="bench", options={"max_cycles": 20}),
    Case(name="pistonball", mark="bench", options={"max_cycles": 20, "n_pistons": 8}),
    Case(name="classic_control", mark="quick"),
    Case(name="crafter", options={"area": 16, "max_episode_steps": 70}),
    Case(name="dm_control", mark="bench", options={"max_episode_steps": 60}),
    Case(name="griddly", options={"max_episode_steps": 50}),
    Case(name="gym"),
    Case(
        name="highway",
        mark="bench",
        options={"vehicles_count": 3, "max_episode_steps": 15},
    ),
    Case(name="magent", options={"map_size": 14, "max_cycles": 40}),
    Case(name="tiger_deer", mark="bench", options={"map_size": 14, "max_cycles": 40}),
    Case(name="mario", mark="bench", options={"frame_skip": 1, "max_episode_steps": 60}),
    Case(name="microrts", mark="bench", options={"max_episode_steps": 60}, render_mode="ansi"),
    Case(name="minigrid", options={"max_episode_steps": 50}),
    Case(name="babyai", options={"max_episode_steps": 50}),
    Case(name="minihack", options={"max_episode_steps": 20}, render_mode="ansi"),
    Case(name="mpe"),
    Case(name="simple_tag", mark="bench"),
    Case(name="mujoco", options={"max_episode_steps": 50}),
    Case(name="nethack", mark="quick", options={"max_episode_steps": 40}, render_mode="ansi"),
    Case(
        name="neural_mmo",
        options={
            "systems": ("Terrain", "Resource", "Combat", "NPC"),
            "num_players": 8,
            "horizon": 40,
            "num_maps": 1,
        },
    ),
    Case(name="ocean", mark="quick", render_mode="ansi"),
    Case(name="open_spiel", render_mode="ansi"),
    Case(name="pokemon_red", options={"max_episode_steps": 40, "frame_skip": 10}),
    Case(name="starpilot", steps=300, checked_steps=20),
    Case(
        name="retro",
        options={"frame_skip": 2, "max_episode_steps": 60, "screen_size": 44},
        num_envs=1,  # of which `Serial` can hold no more
        steps=300,
    ),
    Case(name="vizdoom", options={"max_episode_steps": 50}),
)


def params(cases=CASES):
    """The cases as parameters of a test, each with its mark."""
    return [
        pytest.param(
            case,
            id=case.name,
            marks=() if case.mark == "quick" else getattr(pytest.mark, case.mark),
        )
        for case in cases
    ]


def one_per_family():
    """The first case of every family."""
    firsts = {}
    for case in CASES:
        firsts.setdefault(case.task.row.name, case)
    return tuple(firsts.values())
