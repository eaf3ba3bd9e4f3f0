"""NetHack tasks of the NetHack Learning Environment, ready for vectorization.

What NLE 1.3.0 does, and what is changed here:

* `reset(seed)` of NLE seeds nothing in the game. Here a seed decides the game: the environment's
  own generator draws the two seeds of NetHack's generators for every episode, NetHack's
  periodic reseeding is off and moon phase, Friday the 13th and midnight follow the seed instead
  of the clock. (`NetHackChallenge` forbids seeding to agents; the environment still seeds it.)
* At its step limit NLE quits the game, reports the end as terminal *and* truncated and
  returns the blank screen after quitting. Here the limit only truncates: the last observation is
  the position that was reached, so that a learner can bootstrap from it.
* After death NLE's `blstats` are zero. The score in `info` is the last one seen in the game.
* Every game lives in a temporary folder of its own, removed by `close()` or at interpreter exit;
  recording of games (`ttyrec`) is off.
"""

from __future__ import annotations

import functools
import importlib
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import gymnasium
import numpy as np

from pufferlib.emulation import GymnasiumPufferEnv
from pufferlib.environments import check_task, require
from pufferlib.postprocess import EpisodeStats

# Classes of `nle.env` and the step limits that they have by themselves.
TASKS = {
    "NetHack-v0": ("NLE", 5_000),
    "NetHackScore-v0": ("NetHackScore", 5_000),
    "NetHackStaircase-v0": ("NetHackStaircase", 5_000),
    "NetHackStaircasePet-v0": ("NetHackStaircasePet", 5_000),
    "NetHackOracle-v0": ("NetHackOracle", 5_000),
    "NetHackGold-v0": ("NetHackGold", 5_000),
    "NetHackEat-v0": ("NetHackEat", 5_000),
    "NetHackScout-v0": ("NetHackScout", 5_000),
    "NetHackChallenge-v0": ("NetHackChallenge", 1_000_000),
}

# Always requested from NLE, so that `render` works at any time; costs 2 % of a step.
_SCREEN = ("tty_chars", "tty_colors", "tty_cursor")

# Columns of `blstats`.
_SCORE, _DEPTH, _TURN = 9, 12, 20

Observation = dict[str, np.ndarray]


@dataclass(frozen=True, kw_only=True)
class EnvConfig:
    """Arguments of `make_env` beside the task's name."""

    observation_keys: tuple[str, ...] = ("glyphs", "blstats", "message")
    """What the agent sees, out of NLE's observations; `Policy` reads these three."""
    max_episode_steps: int | None = None
    """Truncate episodes after this many steps; None: the task's own limit (5,000; Challenge 1 M).
    """
    reward_scale: float = 1.0
    """Multiplies the reward that the learner sees; episode statistics keep the task's reward."""
    reward_clip: float | None = None
    """Clips the scaled reward to plus and minus this; None: no clipping."""
    render_mode: Literal["ansi"] | None = "ansi"
    """'ansi': `render()` returns the coloured terminal screen."""


class NetHackTask(gymnasium.Wrapper[Observation, int, Observation, int]):
    """Seeds the game, limits its length and reports how it ended.

    The info of an episode's last step has `score` (NetHack's own, as on the status line), `depth`
    (deepest level reached), `turns` (game time) and `died` (0 or 1); other infos are empty.
    """

    def __init__(
        self, env: gymnasium.Env[Observation, int], keys: tuple[str, ...], max_episode_steps: int
    ) -> None:
        super().__init__(env)
        self._keys = keys
        self._limit = max_episode_steps
        self._game: Any = env.unwrapped.nethack
        self._arrays: dict[str, np.ndarray] = self._game._obs_buffers  # NLE writes them in place
        # NetHackChallenge hides this method of the game object behind one that raises.
        self._set_seeds = functools.partial(type(self._game).set_initial_seeds, self._game)
        self._rng = np.random.default_rng()
        self.observation_space = gymnasium.spaces.Dict(
            {key: env.observation_space[key] for key in keys}
        )

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Start a new game; a seed decides this game and those that follow it."""
        if seed is not None:
            self._rng = np.random.default_rng(seed)
        self._seed_game()
        # NLE looks for a kit of items in any options, empty ones too.
        observation, _ = self.env.reset(seed=seed, options=options or None)
        self._steps = self._score = self._depth = self._turns = 0
        return self._visible(observation), {}

    def step(self, action: int) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """One action; truncates at the limit."""
        observation, reward, terminated, _, info = self.env.step(action)
        self._steps += 1
        if not terminated:  # afterwards they are zero
            blstats = self._arrays["blstats"]
            self._score, self._turns = int(blstats[_SCORE]), int(blstats[_TURN])
            self._depth = max(self._depth, int(blstats[_DEPTH]))
        truncated = not terminated and self._steps >= self._limit
        summary = self._summary(info) if terminated or truncated else {}
        return self._visible(observation), float(reward), terminated, truncated, summary

    def render(self) -> str:
        """The terminal screen with its colours."""
        (nle,) = require("nethack")
        text: str = nle.nethack.tty_render(*(self._arrays[key] for key in _SCREEN))
        return text

    def _seed_game(self) -> None:
        """Seeds for NetHack's generators, which the next reset makes use of."""
        core, display = self._rng.integers(2**63, size=2).tolist()
        self._set_seeds(core, display, False)

    def _visible(self, observation: Observation) -> Observation:
        return {key: observation[key] for key in self._keys}

    def _summary(self, info: dict[str, Any]) -> dict[str, int]:
        died = int(info["end_status"] == self.env.unwrapped.StepStatus.DEATH)
        return {"score": self._score, "depth": self._depth, "turns": self._turns, "died": died}


class LearnerReward(gymnasium.RewardWrapper[Observation, int]):
    """Scales and clips the reward for a learner; sits outside the episode statistics."""

    def __init__(
        self, env: gymnasium.Env[Observation, int], scale: float, clip: float | None
    ) -> None:
        super().__init__(env)
        self._scale = scale
        self._bound = np.inf if clip is None else clip

    def reward(self, reward: Any) -> float:
        """`reward` times the scale, within plus and minus the bound."""
        return min(max(float(reward) * self._scale, -self._bound), self._bound)


def make_env(
    name: str = "NetHackScore-v0",
    observation_keys: tuple[str, ...] = EnvConfig.observation_keys,
    max_episode_steps: int | None = None,
    reward_scale: float = 1.0,
    reward_clip: float | None = None,
    render_mode: Literal["ansi"] | None = "ansi",
) -> GymnasiumPufferEnv:
    """Make a task by its Gymnasium id, with episode statistics; see `EnvConfig`.

    Raises:
        ConfigError: there is no such task; the message has the nearest name.
        EnvironmentSetupError: `nle` is not installed.
    """
    class_name, default_limit = TASKS[check_task(name, TASKS, "nethack")]
    env = _make_game(class_name, observation_keys, render_mode)
    task = NetHackTask(env, tuple(observation_keys), max_episode_steps or default_limit)
    stats = EpisodeStats(task)
    if (reward_scale, reward_clip) == (1.0, None):
        return GymnasiumPufferEnv(env=stats)
    return GymnasiumPufferEnv(env=LearnerReward(stats, reward_scale, reward_clip))


def env_creator(name: str = "NetHackScore-v0") -> Callable[..., GymnasiumPufferEnv]:
    """The make function of a task; it takes the keyword arguments of `EnvConfig`.

    Raises:
        ConfigError: there is no such task; the message has the nearest name.
    """
    return functools.partial(make_env, check_task(name, TASKS, "nethack"))


def _make_game(
    class_name: str, keys: tuple[str, ...], render_mode: str | None
) -> gymnasium.Env[Observation, int]:
    """NLE's own environment, without a step limit and with the screen for rendering."""
    require("nethack")
    module = importlib.import_module("nle.env" if class_name == "NLE" else "nle.env.tasks")
    game: gymnasium.Env[Observation, int] = getattr(module, class_name)(
        observation_keys=tuple(dict.fromkeys((*keys, *_SCREEN))),
        max_episode_steps=sys.maxsize,
        save_ttyrec_every=0,
        render_mode=render_mode,
        fix_moon_phase=True,
    )
    return game
