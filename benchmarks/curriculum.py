"""What the learners of `learning.py` learn, with settings of PPO that are the same for all."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import gymnasium
import numpy as np

Env = gymnasium.Env[Any, Any]


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Of PPO, in CleanRL's words and with its defaults; what is not here is in `learners.py`."""

    total_timesteps: int
    num_envs: int = 4
    num_steps: int = 128
    num_minibatches: int = 4
    update_epochs: int = 4
    learning_rate: float = 2.5e-4
    gamma: float = 0.99
    gae_lambda: float = 0.95
    clip_coef: float = 0.2
    ent_coef: float = 0.01


@dataclass
class Episodes:
    """Every episode that ended while a learner trained, whoever trained.

    Attributes:
        steps: environment steps until then, of all environments together.
        returns: its undiscounted sum of rewards, as the task gives them.
        begun: wall-clock and CPU seconds of this process when the first environment was reset.
    """

    steps: list[int] = field(default_factory=list)
    returns: list[float] = field(default_factory=list)
    begun: tuple[float, float] | None = None
    total_steps: int = 0


class Recorder(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Writes what happens in one environment into `Episodes`."""

    def __init__(self, env: Env, episodes: Episodes, frame_skip: int = 1) -> None:
        super().__init__(env)
        self._episodes = episodes
        self._frame_skip = frame_skip
        self._return = 0.0

    def reset(self, **kwargs: Any) -> tuple[Any, dict[str, Any]]:
        """A new episode."""
        if self._episodes.begun is None:
            self._episodes.begun = time.perf_counter(), time.process_time()
        self._return = 0.0
        return self.env.reset(**kwargs)

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """One step."""
        observation, reward, terminal, truncation, info = self.env.step(action)
        self._episodes.total_steps += 1
        self._return += float(reward)
        if terminal or truncation:
            self._episodes.steps.append(self._episodes.total_steps // self._frame_skip)
            self._episodes.returns.append(self._return)
        return observation, reward, terminal, truncation, info


class FlatImage(gymnasium.ObservationWrapper[Any, Any, Any]):
    """MiniGrid's encoded view, `(7, 7, 3)` small integers, as 147 floats."""

    def __init__(self, env: Env) -> None:
        super().__init__(env)
        size = int(np.prod(env.observation_space["image"].shape))
        self.observation_space = gymnasium.spaces.Box(0, 10, (size,), np.float32)

    def observation(self, observation: Any) -> Any:
        """The view without mission and direction."""
        return observation["image"].ravel().astype(np.float32)


def registered(env_id: str) -> Callable[[], Env]:
    """An environment as Gymnasium registers it."""
    return lambda: gymnasium.make(env_id, disable_env_checker=True)


def minigrid(env_id: str) -> Callable[[], Env]:
    def make() -> Env:
        import minigrid as library

        library.register_minigrid_envs()
        return FlatImage(registered(env_id)())

    return make


def breakout_frames() -> Env:
    """The bare game, one frame a step; learners bring the usual preprocessing."""
    import ale_py

    gymnasium.register_envs(ale_py)
    return gymnasium.make(
        "ALE/Breakout-v5",
        frameskip=1,
        repeat_action_probability=0.0,
        full_action_space=False,
        disable_env_checker=True,
    )


@dataclass(frozen=True, kw_only=True)
class Task:
    """What is learnt.

    Attributes:
        title: on the figure.
        make: the environment, before the recorder.
        script: CleanRL's.
        settings: of PPO.
        needs: packages beside the learners'.
        frame_skip: steps of `make`'s environment in one of the learner.
    """

    title: str
    make: Callable[[], Env]
    settings: Settings
    script: str = "ppo"
    needs: tuple[str, ...] = ()
    frame_skip: int = 1

    @property
    def is_continuous(self) -> bool:
        """Whether actions are numbers instead of choices."""
        return self.script == "ppo_continuous_action"

    @property
    def is_atari(self) -> bool:
        """Whether observations are frames of a game."""
        return self.script == "ppo_atari"

    def recorded(self, episodes: Episodes) -> Env:
        """The environment that a learner gets."""
        return Recorder(self.make(), episodes, self.frame_skip)


TASKS: dict[str, Task] = {
    "cartpole": Task(
        title="CartPole-v1",
        make=registered("CartPole-v1"),
        settings=Settings(total_timesteps=100_000),
    ),
    "acrobot": Task(
        title="Acrobot-v1",
        make=registered("Acrobot-v1"),
        settings=Settings(total_timesteps=100_000),
    ),
    "minigrid": Task(
        title="MiniGrid-DoorKey-5x5-v0",
        make=minigrid("MiniGrid-DoorKey-5x5-v0"),
        settings=Settings(total_timesteps=100_000, num_envs=8, learning_rate=1e-3),
        needs=("minigrid",),
    ),
    "pendulum": Task(
        title="Pendulum-v1",
        make=registered("Pendulum-v1"),
        script="ppo_continuous_action",
        settings=Settings(
            total_timesteps=100_000,
            num_steps=512,
            num_minibatches=32,
            update_epochs=10,
            learning_rate=1e-3,
            gamma=0.9,
            ent_coef=0.0,
        ),
    ),
    "lunarlander": Task(
        title="LunarLander-v3",
        make=registered("LunarLander-v3"),
        settings=Settings(
            total_timesteps=300_000,
            num_envs=8,
            num_steps=256,
            num_minibatches=16,
            learning_rate=5e-4,
        ),
        needs=("Box2D",),
    ),
    "breakout": Task(
        title="ALE/Breakout-v5",
        make=breakout_frames,
        script="ppo_atari",
        settings=Settings(total_timesteps=1_000_000, num_envs=8, clip_coef=0.1),
        needs=("ale_py", "cv2"),
        frame_skip=4,
    ),
}
"""By name; each but the last takes minutes per learner and seed on one core, Breakout an hour."""


def continuous_wrappers(env: Env, gamma: float) -> Env:
    """What CleanRL's script for continuous actions puts around an environment.

    All but `ClipAction`: the other learners clip actions themselves.
    """
    env = gymnasium.wrappers.FlattenObservation(env)
    env = gymnasium.wrappers.NormalizeObservation(env)
    space = env.observation_space
    env = gymnasium.wrappers.TransformObservation(env, lambda x: np.clip(x, -10, 10), space)
    env = gymnasium.wrappers.NormalizeReward(env, gamma=gamma)
    return gymnasium.wrappers.TransformReward(env, lambda reward: np.clip(reward, -10, 10))


def atari_wrappers(env: Env) -> Env:
    """What CleanRL's script for Atari puts around a game, in Gymnasium's present words."""
    from stable_baselines3.common import atari_wrappers as sb3

    env = sb3.MaxAndSkipEnv(sb3.NoopResetEnv(env, noop_max=30), skip=4)
    env = sb3.ClipRewardEnv(sb3.FireResetEnv(sb3.EpisodicLifeEnv(env)))
    env = gymnasium.wrappers.ResizeObservation(env, (84, 84))
    env = gymnasium.wrappers.GrayscaleObservation(env)
    return gymnasium.wrappers.FrameStackObservation(env, 4)


def make_env(task: Task, episodes: Episodes) -> Env:
    """The environment of learners that wrap nothing themselves: the one that CleanRL learns on."""
    env = task.recorded(episodes)
    if task.is_continuous:
        return continuous_wrappers(env, task.settings.gamma)
    return atari_wrappers(env) if task.is_atari else env
