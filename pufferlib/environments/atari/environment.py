"""Atari 2600 games of the Arcade Learning Environment, as deep reinforcement learning plays them.

Frame skip with a maximum over the last two frames, grey 84 × 84 pixels and a stack of frames
(Mnih et al. 2015), by Gymnasium's wrappers. Games do not repeat actions at random unless asked to
(Machado et al. 2018 advise 0.25), which is what published PPO scores were measured with.

For the learner an episode ends with each life. Statistics, and what `puffer eval` counts, are of
whole games and their true score.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import gymnasium
import numpy as np

from pufferlib.emulation import GymnasiumPufferEnv
from pufferlib.environments import check_task, require
from pufferlib.postprocess import ENDED_PART, EpisodeStats
from pufferlib.wrappers import NoInfo

Frames = np.ndarray


@dataclass(frozen=True, kw_only=True)
class EnvConfig:
    """Arguments of `make_env` beside the game's name."""

    framestack: int = 4
    """Frames in an observation `(framestack, screen_size, screen_size)`."""
    frame_skip: int = 4
    """Emulated frames per step; the last two are merged by their maximum."""
    screen_size: int = 84
    """Width and height of a frame."""
    noop_max: int = 30
    """A game begins with 1 to this many steps without an action; 0: none."""
    repeat_action_probability: float = 0.0
    """Chance that the console repeats the previous action instead of the given one."""
    full_action_space: bool = False
    """All 18 actions of the console instead of those that the game uses."""
    episodic_life: bool = True
    """For the learner an episode ends with each life; statistics are of whole games."""
    fire_on_reset: bool = True
    """Press FIRE to begin, where a game has it among its actions and waits for it."""
    reward_clip: float | None = 1.0
    """Clips the reward that the learner sees to plus and minus this; statistics keep the score."""
    render_mode: Literal["rgb_array"] | None = None
    """'rgb_array': `render()` returns the screen `(210, 160, 3)`."""


class EpisodicLife(gymnasium.Wrapper[Frames, int, Frames, int]):
    """Ends the learner's episode with each life; the next reset goes on with the same game.

    Gymnasium's `AtariPreprocessing(terminal_on_life_loss=True)` begins a new game then, so that
    only the first life of a game would ever be seen. Where a life is lost and the game goes on, the
    info is `{ENDED_PART: "life"}`.
    """

    def __init__(self, env: gymnasium.Env[Frames, int]) -> None:
        super().__init__(env)
        self._lives = 0
        self._goes_on = False  # the last step ended a life and left others

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Frames, dict[str, Any]]:
        """The next life where the last step ended one, else a new game; so also with a seed."""
        if self._goes_on and seed is None:
            observation, _, terminal, truncation, info = self.env.step(0)
            if terminal or truncation:  # the game's summary is in the info
                observation, _ = self.env.reset(options=options)
        else:
            observation, info = self.env.reset(seed=seed, options=options)
        self._goes_on = False
        self._lives = self._count_lives()
        return observation, info

    def step(self, action: int) -> tuple[Frames, Any, bool, bool, dict[str, Any]]:
        """One step; terminal also when a life was lost."""
        observation, reward, terminal, truncation, info = self.env.step(action)
        lives = self._count_lives()
        lost_one = 0 < lives < self._lives
        self._goes_on = lost_one and not (terminal or truncation)
        self._lives = lives
        if self._goes_on:
            info = info | {ENDED_PART: "life"}
        return observation, reward, terminal or lost_one, truncation, info

    def _count_lives(self) -> int:
        lives: int = self.env.unwrapped.ale.lives()
        return lives


class FireOnReset(gymnasium.Wrapper[Frames, int, Frames, int]):
    """Presses FIRE after every reset: in some games nothing moves before."""

    FIRE = 1

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Frames, dict[str, Any]]:
        """The observation after FIRE."""
        _, info = self.env.reset(seed=seed, options=options)
        observation, _, terminal, truncation, step_info = self.env.step(self.FIRE)
        info |= step_info
        if terminal or truncation:
            observation, more = self.env.reset(options=options)
            info |= more
        return observation, info


def make_env(
    name: str = "ALE/Breakout-v5",
    framestack: int = 4,
    frame_skip: int = 4,
    screen_size: int = 84,
    noop_max: int = 30,
    repeat_action_probability: float = 0.0,
    full_action_space: bool = False,
    episodic_life: bool = True,
    fire_on_reset: bool = True,
    reward_clip: float | None = 1.0,
    render_mode: Literal["rgb_array"] | None = None,
) -> GymnasiumPufferEnv:
    """Make a game by its Gymnasium id (`ALE/Breakout-v5`) or name (`breakout`); see `EnvConfig`.

    Statistics are of whole games and of the true score.

    Raises:
        ConfigError: there is no such game; the message has the nearest name.
        EnvironmentSetupError: `ale_py` or OpenCV is not installed.
    """
    (ale_py, cv2) = require("atari")
    ale_py.ALEInterface.setLoggerMode(ale_py.LoggerMode.Error)  # no banner in every worker
    gymnasium.register_envs(ale_py)
    # One thread per worker: a frame is too small to share.
    cv2.setNumThreads(1)
    env = gymnasium.make(
        _game_id(name),
        frameskip=1,
        obs_type="grayscale",  # of no use to the wrapper, which reads the screen, but the cheapest
        repeat_action_probability=repeat_action_probability,
        full_action_space=full_action_space,
        render_mode=render_mode,
        disable_env_checker=True,
    )
    has_fire = env.unwrapped.get_action_meanings()[FireOnReset.FIRE] == "FIRE"
    env = gymnasium.wrappers.AtariPreprocessing(env, noop_max, frame_skip, screen_size)
    env = EpisodeStats(NoInfo(env))  # infos are counters of frames and lives
    if episodic_life:
        env = EpisodicLife(env)
    if fire_on_reset and has_fire:
        env = FireOnReset(env)
    if reward_clip is not None:
        env = gymnasium.wrappers.ClipReward(env, -reward_clip, reward_clip)
    return GymnasiumPufferEnv(env=gymnasium.wrappers.FrameStackObservation(env, framestack))


def env_creator(name: str = "ALE/Breakout-v5") -> Callable[..., GymnasiumPufferEnv]:
    """The make function of a game; it takes the keyword arguments of `EnvConfig`.

    Raises:
        ConfigError: there is no such game; the message has the nearest name.
        EnvironmentSetupError: `ale_py` or OpenCV is not installed.
    """
    return functools.partial(make_env, _game_id(name))


def _game_id(name: str) -> str:
    """The id of a game, which may be given as `breakout`, `space_invaders` or the id itself."""
    ale_py, _ = require("atari")
    gymnasium.register_envs(ale_py)
    ids = [key for key in gymnasium.registry if key.startswith("ALE/") and key.endswith("-v5")]
    by_name = {gymnasium.spec(key).kwargs["game"]: key for key in ids}
    return by_name.get(name) or check_task(name, [*ids, *by_name], "atari")
