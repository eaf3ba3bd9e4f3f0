"""The arguments of the native environments, typed for `puffer` and its settings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, kw_only=True)
class NativeBreakoutConfig:
    """Arguments of `NativeBreakout`."""

    num_agents: int = 4096
    """Games in one environment, of one agent each."""
    frameskip: int = 4
    """Frames per step."""
    max_steps: int = 10_000
    """Steps after which an episode is truncated."""
    threads: int = 1
    """How many threads share each step."""
    render_mode: Literal["ansi", "rgb_array"] | None = "ansi"
    """What `render()` makes of the first game: coloured text, or an array of pixels."""


@dataclass(frozen=True, kw_only=True)
class NativeConnectFourConfig:
    """Arguments of `NativeConnectFour`."""

    num_agents: int = 4096
    """Players in one environment: two in each game, or one against the random opponent."""
    opponent: Literal["self", "random"] = "self"
    """'self': both players are agents; 'random': one plays any column that is not full."""
    opening: int = 0
    """Up to so many random moves, 5 at most, before a game: more different games."""
    threads: int = 1
    """How many threads share each step."""
    render_mode: Literal["ansi", "rgb_array"] | None = "ansi"
    """What `render()` makes of the first game: coloured text, or an array of pixels."""


@dataclass(frozen=True, kw_only=True)
class NativeMazeConfig:
    """Arguments of `NativeMaze`."""

    num_agents: int = 4096
    """Mazes in one environment, of one agent each."""
    size: int = 8
    """Cells on each side of a maze."""
    view: int = 3
    """Squares that the agent sees in each direction."""
    levels: int = 0
    """How many different mazes there are; 0: a new one for every episode."""
    first_level: int = 0
    """The first of them: train on some and test on others."""
    threads: int = 1
    """How many threads share each step."""
    render_mode: Literal["ansi", "rgb_array"] | None = "ansi"
    """What `render()` makes of the first maze: coloured text, or an array of pixels."""


@dataclass(frozen=True, kw_only=True)
class NativePongConfig:
    """Arguments of `NativePong`."""

    num_agents: int = 4096
    """Players in one environment, two in each game."""
    points: int = 11
    """Points that win a game."""
    max_steps: int = 10_000
    """Steps after which an episode is truncated."""
    threads: int = 1
    """How many threads share each step."""
    render_mode: Literal["ansi", "rgb_array"] | None = "ansi"
    """What `render()` makes of the first game: coloured text, or an array of pixels."""


@dataclass(frozen=True, kw_only=True)
class NativeSnakeConfig:
    """Arguments of `NativeSnake`."""

    num_agents: int = 4096
    """Snakes in one environment, on all maps together; a multiple of `num_snakes`."""
    num_snakes: int = 16
    """Snakes on each map."""
    rows: int = 48
    """Of a map."""
    columns: int = 48
    """Of a map."""
    food: int = 32
    """Cells of food that a map has at least."""
    vision: int = 5
    """How many cells a snake sees in each direction."""
    max_length: int = 40
    """Cells of the snake that wins."""
    max_steps: int = 400
    """Steps of the longest life."""
    threads: int = 1
    """How many threads share each step."""
    render_mode: Literal["ansi", "rgb_array"] | None = "ansi"
    """What `render()` makes of the first map: coloured text, or an array of pixels."""


@dataclass(frozen=True, kw_only=True)
class NativeSquaredConfig:
    """Arguments of `NativeSquared`."""

    num_agents: int = 4096
    """Squares in one environment, of one agent each."""
    distance_to_target: int = 3
    """Moves from the centre to the edge; a larger square asks for more exploration."""
    num_targets: int = 1
    """Targets on the edge; with several of them memory helps."""
    threads: int = 1
    """How many threads share each step."""
    render_mode: Literal["ansi", "rgb_array"] | None = "ansi"
    """What `render()` makes of the first square: coloured text, or an array of pixels."""
