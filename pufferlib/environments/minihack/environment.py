"""MiniHack's tasks, ready for vectorization.

What MiniHack 1.0.2 does, and what is changed here beside what `nethack` changes:

* `reset(seed)` of MiniHack decides neither the level nor the game. Here the environment's own
  generator draws a seed for each of NetHack's three generators (game, display, level) for every
  episode, and one for the MiniGrid that lays out the rooms of MultiRoom tasks.
* At its step limit MiniHack ends the episode as terminal. Here the limit only truncates.
* Not among the tasks: Boxoban, whose levels have to be downloaded and whose `reset` takes no seed;
  LavaCrossing and SimpleCrossing, which MiniGrid 3 no longer makes in NetHack's size; and Custom,
  which is a base for tasks of one's own.
"""

from __future__ import annotations

import functools
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import gymnasium

from pufferlib.emulation import GymnasiumPufferEnv
from pufferlib.environments import check_task, require
from pufferlib.environments.nethack.environment import NetHackTask
from pufferlib.postprocess import EpisodeStats

DEFAULT = "MiniHack-Room-Random-5x5-v0"
_ABSENT = ("Boxoban", "Crossing", "Custom")


@dataclass(frozen=True, kw_only=True)
class EnvConfig:
    """Arguments of `make_env` beside the task's name."""

    observation_keys: tuple[str, ...] = ("glyphs", "blstats", "message")
    """What the agent sees, out of MiniHack's observations; `Policy` reads these three."""
    max_episode_steps: int | None = None
    """Truncate episodes after this many steps; None: the task's own limit."""
    render_mode: Literal["ansi"] | None = "ansi"
    """'ansi': `render()` returns the coloured terminal screen."""


class MiniHackTask(NetHackTask):
    """Seeds the level as well as the game, limits its length and reports how it ended.

    The info of an episode's last step has `solved` (0 or 1), `turns` (game time) and `died` (0 or
    1); other infos are empty.
    """

    def _seed_game(self) -> None:
        core, display, level = self._rng.integers(2**63, size=3).tolist()
        self._set_seeds(core, display, False, level)
        rooms = getattr(self.env.unwrapped, "minigrid_env", None)
        if rooms is not None:  # lays out the level in the reset that follows
            rooms.reset(seed=level % 2**31)

    def _summary(self, info: dict[str, Any]) -> dict[str, int]:
        status, end = self.env.unwrapped.StepStatus, info["end_status"]
        died, solved = int(end == status.DEATH), int(end == status.TASK_SUCCESSFUL)
        return {"solved": solved, "turns": self._turns, "died": died}


def make_env(
    name: str = DEFAULT,
    observation_keys: tuple[str, ...] = EnvConfig.observation_keys,
    max_episode_steps: int | None = None,
    render_mode: Literal["ansi"] | None = "ansi",
) -> GymnasiumPufferEnv:
    """Make a task by its Gymnasium id, with episode statistics; see `EnvConfig`.

    Raises:
        ConfigError: there is no such task; the message has the nearest name.
        EnvironmentSetupError: `minihack` is not installed, or `minigrid` for a MultiRoom task.
    """
    if "MultiRoom" in name:
        require("minigrid")  # which lays out its rooms
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*The environment MiniGrid-.* is out of date")
        game: Any = gymnasium.make(
            _task_id(name),
            observation_keys=tuple(observation_keys),
            render_mode=render_mode,
            fix_moon_phase=True,
            disable_env_checker=True,  # emulation checks shapes, dtypes and bounds
        )
    # The limit is the wrapper's, which does not end the game.
    limit = max_episode_steps or game.unwrapped._max_episode_steps
    game.unwrapped._max_episode_steps = sys.maxsize
    return GymnasiumPufferEnv(env=EpisodeStats(MiniHackTask(game, tuple(observation_keys), limit)))


def env_creator(name: str = DEFAULT) -> Callable[..., GymnasiumPufferEnv]:
    """The make function of a task; it takes the keyword arguments of `EnvConfig`.

    Raises:
        ConfigError: there is no such task; the message has the nearest name.
        EnvironmentSetupError: `minihack` is not installed.
    """
    return functools.partial(make_env, _task_id(name))


def _task_id(name: str) -> str:
    """`name`, if it is the id of a task."""
    require("minihack")
    ids = [key for key in gymnasium.registry if key.startswith("MiniHack-")]
    return check_task(name, [key for key in ids if not any(a in key for a in _ABSENT)], "minihack")
