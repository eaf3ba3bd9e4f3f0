"""Pokemon Red through PyBoy: the hero walks, talks and fights for what is new.

* The cartridge is copyrighted and not part of any package: bring your own, as a file that `rom` or
  the variable `POKEMON_RED_ROM` names. Any Game Boy cartridge runs; the rewards are Pokemon's.
* Without a saved `state` an episode begins when the console is switched on, many steps before
  there is anything to explore. PyBoy's window (`python -m pyboy ROM`) saves one with the key Z.
* The console does the same whenever the same buttons are pressed. A seed decides how many frames
  pass before the first step, and the game's own chances follow from those.
* Reward is progress (`Progress`): new places, events of the story, badges, catches and levels.
"""

from __future__ import annotations

import functools
import io
import os
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import gymnasium
import numpy as np
from gymnasium import wrappers

from pufferlib.emulation import GymnasiumPufferEnv
from pufferlib.environments import ROWS, check_task, require
from pufferlib.environments.pokemon_red.progress import Amounts, Progress
from pufferlib.exceptions import ConfigError, EnvironmentSetupError
from pufferlib.postprocess import EpisodeStats

DEFAULT = "pokemon_red"
BUTTONS = ("down", "left", "right", "up", "a", "b", "start")
HELD = 8  # frames that a button is pressed: enough for one step of the hero, too few for two

Screen = np.ndarray


@dataclass(frozen=True, kw_only=True)
class EnvConfig:
    """Keyword arguments of `make_env`."""

    rom: str | None = None
    """File of the cartridge; None: the one that the variable POKEMON_RED_ROM names."""
    state: str | None = None
    """File of a saved state, where every episode begins; None: the console is switched on."""
    framestack: int = 3
    """Screens in an observation `(framestack, 72, 80)`: every second pixel, in grey."""
    frame_skip: int = 24
    """Emulated frames per step, more than 8; a step of the hero takes 16."""
    wait_max: int = 60
    """An episode begins after 0 to this many frames without a button."""
    max_episode_steps: int = 8_192
    """Truncate episodes after this many steps; the game itself has no end that is reached."""
    tile_reward: float = 0.01
    """For each place that the hero has not stood on before."""
    map_reward: float = 0.5
    """For each map that is new."""
    event_reward: float = 1.0
    """For each event of the story."""
    badge_reward: float = 10.0
    """For each badge."""
    caught_reward: float = 1.0
    """For each kind of Pokemon caught."""
    level_reward: float = 0.5
    """For each level that the party gains."""
    render_mode: Literal["rgb_array"] | None = None
    """'rgb_array': `render()` returns the screen `(144, 160, 3)`."""


class GameBoy(gymnasium.Env[Screen, int]):
    """The console with a cartridge in it.

    The info of an episode's last step has its progress (`Amounts`); other infos are empty.
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 2.5}
    observation_space = gymnasium.spaces.Box(0, 255, (72, 80), np.uint8)
    action_space = gymnasium.spaces.Discrete(len(BUTTONS))

    def __init__(self, config: EnvConfig) -> None:
        (pyboy,) = require("pokemon_red")
        _require_possible(config)
        self.render_mode = config.render_mode
        self._config = config
        worth = Amounts(
            tiles=config.tile_reward,
            maps=config.map_reward,
            events=config.event_reward,
            badges=config.badge_reward,
            caught=config.caught_reward,
            levels=config.level_reward,
        )
        self.console = pyboy.PyBoy(
            str(_file(config.rom)), window="null", sound_emulated=False, log_level="ERROR"
        )
        self._start = Path(config.state).read_bytes() if config.state else self._saved()
        self._progress = Progress(self.console.memory, worth)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Screen, dict[str, Any]]:
        """Back to the state where episodes begin, and a few frames on."""
        super().reset(seed=seed)
        self.console.load_state(io.BytesIO(self._start))
        wait = int(self.np_random.integers(self._config.wait_max + 1))
        self.console.tick(1 + wait, True, False)
        self._progress.begin()
        self._steps = 0
        return self._screen(), {}

    def step(self, action: int) -> tuple[Screen, float, bool, bool, dict[str, Any]]:
        """Press a button, let it go, and wait for the last frame."""
        button = BUTTONS[int(action)]
        self.console.button_press(button)
        self.console.tick(HELD, False, False)
        self.console.button_release(button)
        self.console.tick(self._config.frame_skip - HELD, True, False)
        self._steps += 1
        reward = self._progress.update()
        truncation = self._steps >= self._config.max_episode_steps
        info = asdict(self._progress.result()) if truncation else {}
        return self._screen(), reward, False, truncation, info

    def render(self) -> Screen:
        """The screen `(144, 160, 3)`."""
        picture: Screen = self.console.screen.ndarray[:, :, :3].copy()
        return picture

    def close(self) -> None:
        """Switch it off; nothing is written beside the cartridge's file."""
        self.console.stop(save=False)

    def _screen(self) -> Screen:
        grey: Screen = self.console.screen.ndarray[::2, ::2, 0].copy()  # the stack keeps it
        return grey

    def _saved(self) -> bytes:
        file = io.BytesIO()
        self.console.save_state(file)
        return file.getvalue()


def make_env(name: str = DEFAULT, **options: Any) -> GymnasiumPufferEnv:
    """Make the game, with episode statistics; `options` are those of `EnvConfig`.

    Raises:
        ConfigError: the name is another one, `frame_skip` is too small, or `state` is no file.
        EnvironmentSetupError: `pyboy` is not installed, or there is no cartridge.
    """
    check_task(name, (DEFAULT,), "pokemon_red")
    config = EnvConfig(**options)
    env = EpisodeStats(GameBoy(config))
    return GymnasiumPufferEnv(env=wrappers.FrameStackObservation(env, config.framestack))


def env_creator(name: str = DEFAULT) -> Callable[..., GymnasiumPufferEnv]:
    """The make function; it takes the keyword arguments of `EnvConfig`.

    Raises:
        ConfigError: the name is another one.
    """
    return functools.partial(make_env, check_task(name, (DEFAULT,), "pokemon_red"))


def _require_possible(config: EnvConfig) -> None:
    if config.frame_skip <= HELD:
        raise ConfigError(
            f"pokemon_red: expected a frame_skip above the {HELD} frames that a button is pressed, "
            f"got {config.frame_skip}"
        )
    if config.state is not None and not Path(config.state).is_file():
        raise ConfigError(
            f"pokemon_red: expected the file of a saved state, got {config.state!r}; PyBoy's "
            "window (python -m pyboy ROM) saves one with the key Z"
        )


def _file(rom: str | None) -> Path:
    """The cartridge's file."""
    variable = ROWS["pokemon_red"].file_variable
    given = rom or os.environ.get(variable, "")
    if not Path(given).is_file():
        raise EnvironmentSetupError(
            f"pokemon_red: expected the file of a Game Boy cartridge, got {given!r}; name the one "
            f"that you own by the option rom, or with: export {variable}=FILE"
        )
    return Path(given)
