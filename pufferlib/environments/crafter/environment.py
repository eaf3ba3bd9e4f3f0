"""Crafter (Hafner 2022): an open world with 22 achievements, which give the reward.

What crafter 1.8.3 does, and what is changed here:

* It takes a seed only when it is made. Here the seed of `reset` decides this world and those that
  follow it.
* It keeps creatures in sets, in the order of their addresses in memory, and draws one of them to
  vanish: games of one seed drift apart. Here they are drawn from in the order of their places.
* Drawing the night takes numbers from the generator of the world. Here `render` leaves the game
  as it is.
* It reports death and the limit of steps as one. Here the limit truncates.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from pufferlib.emulation import GymnasiumPufferEnv
from pufferlib.environments import check_task, require
from pufferlib.postprocess import EpisodeStats
from pufferlib.wrappers import GymToGymnasium

TASKS = {"CrafterReward-v1": True, "CrafterNoReward-v1": False}
"""Ids that Crafter registers with Gym, and whether the task has rewards."""

RENDERED_SIZE = (512, 512)

Image = np.ndarray


@dataclass(frozen=True, kw_only=True)
class EnvConfig:
    """Arguments of `make_env` beside the task's name."""

    size: int = 64
    """Width and height of the image in pixels; observations are `(size, size, 3)`."""
    area: int = 64
    """Width and height of the world in squares."""
    max_episode_steps: int = 10_000
    """Truncate episodes after this many steps."""
    render_mode: Literal["rgb_array"] | None = "rgb_array"
    """'rgb_array': `render()` returns an image `(512, 512, 3)`."""


class CrafterTask(GymToGymnasium):
    """Seeds the worlds, tells death from the limit, and reports what was achieved.

    The info of an episode's last step has `achievements`, how many of the 22 were unlocked, and
    `achievement/NAME` of each as 0 or 1; other infos are empty.
    """

    def __init__(self, env: Any, render_mode: str | None) -> None:
        env._balance_chunk = functools.partial(_balance_in_order, env)
        super().__init__(env)
        self.metadata = {"render_modes": ["rgb_array"], "render_fps": 10}
        self.render_mode = render_mode

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Image, dict[str, Any]]:
        """A new world; a seed decides this one and those that follow it."""
        if seed is not None:
            self.env._seed, self.env._episode = seed, 0
        return super().reset(seed=seed, options=options)

    def step(self, action: Any) -> tuple[Image, float, bool, bool, dict[str, Any]]:
        """One action."""
        image, reward, done, _, info = super().step(int(action))
        if not done:
            return image, reward, False, False, {}
        is_dead = info["discount"] == 0
        unlocked = {name: int(count > 0) for name, count in info["achievements"].items()}
        summary = {"achievements": sum(unlocked.values()), "achievement": unlocked}
        return image, reward, is_dead, not is_dead, summary

    def render(self) -> Image | None:
        """What the player sees, larger than the observation."""
        if self.render_mode is None:
            return None
        generator = self.env._world.random
        state = generator.get_state()
        image: Image = self.env.render(RENDERED_SIZE)
        generator.set_state(state)
        return image


def make_env(
    name: str = "CrafterReward-v1",
    size: int = 64,
    area: int = 64,
    max_episode_steps: int = 10_000,
    render_mode: Literal["rgb_array"] | None = "rgb_array",
) -> GymnasiumPufferEnv:
    """Make a task by its id, with episode statistics; see `EnvConfig`.

    Raises:
        ConfigError: there is no such task; the message has the nearest name.
        EnvironmentSetupError: `crafter` is not installed.
    """
    reward = TASKS[check_task(name, TASKS, "crafter")]
    (crafter,) = require("crafter")
    env = crafter.Env((area, area), size=(size, size), reward=reward, length=max_episode_steps)
    return GymnasiumPufferEnv(env=EpisodeStats(CrafterTask(env, render_mode)))


def env_creator(name: str = "CrafterReward-v1") -> Callable[..., GymnasiumPufferEnv]:
    """The make function of a task; it takes the keyword arguments of `EnvConfig`.

    Raises:
        ConfigError: there is no such task; the message has the nearest name.
    """
    return functools.partial(make_env, check_task(name, TASKS, "crafter"))


def _balance_in_order(env: Any, chunk: tuple[int, ...], creatures: Iterable[Any]) -> None:
    """`crafter.Env._balance_chunk` over creatures in the order of their places, which differ."""
    in_order = sorted(creatures, key=lambda creature: tuple(creature.pos))
    type(env)._balance_chunk(env, chunk, in_order)
