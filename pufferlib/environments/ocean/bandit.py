"""Bandit: find the arm that pays."""

from __future__ import annotations

from typing import Any, ClassVar

import gymnasium
import numpy as np
from numpy.typing import NDArray

from pufferlib.environments.ocean.cells import CYAN, GREY, show, verdict
from pufferlib.environments.ocean.splitmix import SplitMix64
from pufferlib.environments.ocean.streams import StreamEnv
from pufferlib.exceptions import ConfigError

Observation = NDArray[np.float32]


class Bandit(StreamEnv[Observation, int]):
    """Pull the one arm, of `num_actions`, that pays more than the others on average.

    Rules. The best arm is the same in every episode of every environment with the same
    `hard_fixed_seed`. The observation never changes. Every step ends its episode.

    Reward. `reward_scale` for the best arm and 0 for the others, plus normal noise of the
    standard deviation `reward_noise`, whatever the scale.

    Score. The info of each step has `score`: 1 for the best arm, else 0, without the noise. The
    best is 1. Random arms score 1 / `num_actions`.

    What it tests. The least that any learner can do: rewards reach the actions that earned them,
    and the gradient points uphill through noise. Rewards that are clipped, normalized over time
    or handed to another row fail here.

    Observation: float32 `(1,)`, always 1. Actions: `Discrete(num_actions)`. The noise comes from
    the environment's own SplitMix64 stream, started by `reset(seed)`; episodes without a seed
    continue it.

    Raises:
        ConfigError: fewer than 2 arms, or negative noise.
    """

    metadata: ClassVar[dict[str, Any]] = {"render_modes": ["ansi"], "render_fps": 5}

    def __init__(
        self,
        num_actions: int = 10,
        reward_scale: float = 1.0,
        reward_noise: float = 1.0,
        hard_fixed_seed: int = 42,
        render_mode: str | None = "ansi",
    ) -> None:
        if num_actions < 2:
            raise ConfigError(f"num_actions: expected at least 2, got {num_actions}")
        if reward_noise < 0:
            raise ConfigError(f"reward_noise: expected at least 0, got {reward_noise}")
        self.num_actions = num_actions
        self.reward_scale = reward_scale
        self.reward_noise = reward_noise
        self.render_mode = render_mode
        self.observation_space = gymnasium.spaces.Box(0, 1, (1,), np.float32)
        self.action_space = gymnasium.spaces.Discrete(num_actions)
        self._best = SplitMix64(hard_fixed_seed).below(num_actions)
        self._pulled: int | None = None

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Start an episode; a seed restarts the stream of noise."""
        self._stream = self._draw_from(seed, options)
        return np.ones(1, np.float32), {}

    def step(self, action: int) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Pull an arm."""
        self._pulled = int(action)
        score = float(self._pulled == self._best)
        reward = self.reward_scale * score
        if self.reward_noise:
            reward += self.reward_noise * self._stream.normal()
        return np.ones(1, np.float32), reward, True, False, {"score": score}

    def render(self) -> str:
        """Above the best arm, below the one that was pulled last: green if it is the same."""
        arms = range(self.num_actions)
        pulled = verdict(self._pulled == self._best)
        return show(
            [
                [CYAN if arm == self._best else GREY for arm in arms],
                [pulled if arm == self._pulled else GREY for arm in arms],
            ]
        )
