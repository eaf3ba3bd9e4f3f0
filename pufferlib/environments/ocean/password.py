"""Password: guess a binary string that no observation tells."""

from __future__ import annotations

from typing import Any, ClassVar

import gymnasium
import numpy as np
from numpy.typing import NDArray

from pufferlib.environments.ocean.cells import CYAN, GREY, YELLOW, show, verdict
from pufferlib.environments.ocean.splitmix import SplitMix64
from pufferlib.exceptions import ConfigError

Observation = NDArray[np.float32]

BLANK = 0.0
TOKENS = (-1.0, 1.0)


class Password(gymnasium.Env[Observation, int]):
    """Find a binary string by trying: nothing but the right one, in full, earns anything.

    Rules. The password has `length` digits and is the same in every episode of every environment
    with the same `hard_fixed_seed`. The k-th action of an episode is the guess of the k-th digit.
    Observations show the guesses so far, -1 for 0 and 1 for 1, and 0 where none was made yet. The
    episode terminates after `length` steps.

    Reward. 1 on the last step if all guesses were right, else 0.

    Score. The info of the last step has `score`, which is that reward. The best is 1. Random
    guesses score 2^-`length`: each further digit makes the first success twice as rare.

    What it tests. Exploration, and learning much from few successes: a policy that loses its
    entropy before the first one never sees a reward, one that cannot pass a reward back over the
    steps before it does not repeat it. Leave the entropy bonus as it is elsewhere. A reward that
    is lost or comes a step late at an episode's end shows here at once.

    Observation: float32 `(length,)`. Actions: `Discrete(2)`. `hard_fixed_seed` decides everything;
    there is no other randomness, so the seed of a reset changes nothing.

    Raises:
        ConfigError: a length below 1.
    """

    metadata: ClassVar[dict[str, Any]] = {"render_modes": ["ansi"], "render_fps": 5}

    def __init__(
        self, length: int = 5, hard_fixed_seed: int = 42, render_mode: str | None = "ansi"
    ) -> None:
        if length < 1:
            raise ConfigError(f"length: expected at least 1, got {length}")
        self.length = length
        self.render_mode = render_mode
        self.observation_space = gymnasium.spaces.Box(-1, 1, (length,), np.float32)
        self.action_space = gymnasium.spaces.Discrete(2)
        stream = SplitMix64(hard_fixed_seed)
        self._password = [stream.below(2) for _ in range(length)]
        self._guesses: list[int] = []

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Forget the guesses; the password stays."""
        super().reset(seed=seed, options=options)
        self._guesses = []
        return self._observe(), {}

    def step(self, action: int) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Guess the next digit; `score` comes with the last step."""
        self._guesses.append(int(action))
        if len(self._guesses) < self.length:
            return self._observe(), 0.0, False, False, {}
        score = float(self._guesses == self._password)
        return self._observe(), score, True, False, {"score": score}

    def _observe(self) -> Observation:
        observation = np.full(self.length, BLANK, np.float32)
        observation[: len(self._guesses)] = [TOKENS[guess] for guess in self._guesses]
        return observation

    def render(self) -> str:
        """Above the guesses, cyan for 0 and yellow for 1, below what is right and wrong."""
        blanks = [GREY] * (self.length - len(self._guesses))
        guesses = [(CYAN, YELLOW)[guess] for guess in self._guesses]
        pairs = zip(self._guesses, self._password, strict=False)
        verdicts = [verdict(guess == digit) for guess, digit in pairs]
        return show([guesses + blanks, verdicts + blanks])
