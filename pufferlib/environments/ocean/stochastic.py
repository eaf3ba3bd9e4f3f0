"""Stochastic: play one action in a given share of the steps."""

from __future__ import annotations

from math import comb
from typing import Any, ClassVar

import gymnasium
import numpy as np
from numpy.typing import NDArray

from pufferlib.environments.ocean.cells import CYAN, GREEN, GREY, YELLOW, show
from pufferlib.exceptions import ConfigError

Observation = NDArray[np.float32]

_BAR = 20  # cells in the picture


class Stochastic(gymnasium.Env[Observation, int]):
    """Learn a distribution over actions that is neither uniform nor certain.

    Rules. The observation never changes. The episode terminates after `horizon` steps; action 0
    should make up the share `p` of them, whatever the order.

    Reward. With n zeros among t actions, n - p·t is their excess. A step earns the decrease of
    (excess / (`horizon` · min(p, 1 - p)))², so the return is -((f - p) / min(p, 1 - p))², where
    f is the share of zeros in the whole episode.

    Score. The info of the last step has `score`, 1 + the return or 0 if that is negative: always
    the action that is asked for more often scores 0. The best policy without memory plays 0 with
    probability p; chance moves f about, so its mean is below 1: 0.977 with the defaults, as
    `expected_score` says. Uniform actions score 0.53.

    What it tests. That a policy stays as random as it should: sampled actions, their
    log-probabilities, an entropy bonus of the right sign and size. A policy that collapses scores
    0 and one that does not learn 0.53. Use no memory: who counts steps needs no randomness.

    Observation: float32 `(1,)`, always 0. Actions: `Discrete(2)`. There is no randomness but the
    policy's, so the seed of a reset changes nothing.

    Raises:
        ConfigError: a `p` that is not between 0 and 1, or a horizon below 1.
    """

    metadata: ClassVar[dict[str, Any]] = {"render_modes": ["ansi"], "render_fps": 20}

    def __init__(
        self, p: float = 0.7, horizon: int = 100, render_mode: str | None = "ansi"
    ) -> None:
        if not 0 < p < 1:
            raise ConfigError(f"p: expected more than 0 and less than 1, got {p}")
        if horizon < 1:
            raise ConfigError(f"horizon: expected at least 1, got {horizon}")
        self.p = p
        self.horizon = horizon
        self.render_mode = render_mode
        self.observation_space = gymnasium.spaces.Box(0, 1, (1,), np.float32)
        self.action_space = gymnasium.spaces.Discrete(2)
        self._tick = self._zeros = 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Start counting anew."""
        super().reset(seed=seed, options=options)
        self._tick = self._zeros = 0
        return np.zeros(1, np.float32), {}

    def step(self, action: int) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Count the action; `score` comes with the last step."""
        before = self._loss()
        self._tick += 1
        self._zeros += action == 0
        loss = self._loss()
        ends = self._tick == self.horizon
        info = {"score": max(0.0, 1 - loss)} if ends else {}
        return np.zeros(1, np.float32), before - loss, ends, False, info

    def _loss(self) -> float:
        excess = self._zeros - self.p * self._tick
        return (excess / (self.horizon * min(self.p, 1 - self.p))) ** 2

    def expected_score(self, probability: float) -> float:
        """The exact mean score of a policy that plays 0 with this probability at every step."""
        h, q = self.horizon, probability
        unit = min(self.p, 1 - self.p)
        return sum(
            comb(h, n) * q**n * (1 - q) ** (h - n) * max(0.0, 1 - ((n / h - self.p) / unit) ** 2)
            for n in range(h + 1)
        )

    def render(self) -> str:
        """Above the zeros so far, cyan, among all actions, yellow; below the share asked for."""
        zeros = round(_BAR * self._zeros / self._tick) if self._tick else 0
        others = [YELLOW if self._tick else GREY] * (_BAR - zeros)
        asked = round(_BAR * self.p)
        return show([[CYAN] * zeros + others, [GREEN] * asked + [GREY] * (_BAR - asked)])
