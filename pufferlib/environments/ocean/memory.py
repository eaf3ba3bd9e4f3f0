"""Memory: see a sequence token by token, wait, and recite it."""

from __future__ import annotations

from typing import Any, ClassVar

import gymnasium
import numpy as np
from numpy.typing import NDArray

from pufferlib.environments.ocean.cells import CYAN, GREY, YELLOW, show, verdict
from pufferlib.environments.ocean.splitmix import SplitMix64
from pufferlib.environments.ocean.streams import StreamEnv
from pufferlib.exceptions import ConfigError

Observation = NDArray[np.float32]

BLANK = 0.0
TOKENS = (-1.0, 1.0)


class Memory(StreamEnv[Observation, int]):
    """Recite binary digits that were shown one after the other and are no longer in sight.

    Rules. A reset draws `length` digits. The first `length` observations show them, -1 for 0 and
    1 for 1; all later ones are blank, 0. The actions on the first `length` observations and on
    the `delay` blank ones that follow have no effect. The actions on the last `length` blank ones
    recite: the k-th should be the k-th digit. The episode terminates after
    2 · `length` + `delay` steps.

    Reward. 1 / `length` for each digit that is recited rightly, else 0.

    Score. The info of the last step has `score`: 1 if the whole sequence was right, else 0. The
    best is 1, with the return 1. Without memory no policy has a higher mean than 2^-`length`.

    What it tests. That a recurrent state is kept within an episode, in acting and in learning
    alike, and that gradients reach back through it. A longer delay asks for a longer memory.

    Observation: float32 `(1,)`. Actions: `Discrete(2)`. The digits come from the environment's own
    SplitMix64 stream, started by `reset(seed)`; episodes without a seed continue it.

    Raises:
        ConfigError: a length below 1 or a delay below 0.
    """

    metadata: ClassVar[dict[str, Any]] = {"render_modes": ["ansi"], "render_fps": 2}

    def __init__(self, length: int = 2, delay: int = 2, render_mode: str | None = "ansi") -> None:
        if length < 1:
            raise ConfigError(f"length: expected at least 1, got {length}")
        if delay < 0:
            raise ConfigError(f"delay: expected at least 0, got {delay}")
        self.length = length
        self.delay = delay
        self.render_mode = render_mode
        self.observation_space = gymnasium.spaces.Box(-1, 1, (1,), np.float32)
        self.action_space = gymnasium.spaces.Discrete(2)
        self._recall = length + delay

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Start an episode; a seed restarts the stream of digits."""
        stream = self._draw_from(seed, options)
        self._digits = [stream.below(2) for _ in range(self.length)]
        self._recited: list[int] = []
        self._tick = 0
        return self._observe(), {}

    def step(self, action: int) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Wait or recite; `score` comes with the last step."""
        reward = 0.0
        if self._tick >= self._recall:
            is_right = action == self._digits[self._tick - self._recall]
            self._recited.append(int(action))
            reward = is_right / self.length
        self._tick += 1
        if self._tick < self._recall + self.length:
            return self._observe(), reward, False, False, {}
        score = float(self._recited == self._digits)
        return self._observe(), reward, True, False, {"score": score}

    def get_state(self) -> dict[str, Any]:
        """Everything that changes between steps, as plain numbers; see `pufferlib.snapshot`."""
        assert self._random is not None, "an environment has no state before its first reset"
        return {
            "random": self._random.state,
            "digits": self._digits.copy(),
            "recited": self._recited.copy(),
            "tick": self._tick,
        }

    def set_state(self, state: dict[str, Any]) -> None:
        """Go on from a state that `get_state` gave."""
        self._random = SplitMix64(state["random"])
        self._digits, self._recited = state["digits"].copy(), state["recited"].copy()
        self._tick = state["tick"]

    def _observe(self) -> Observation:
        shown = TOKENS[self._digits[self._tick]] if self._tick < self.length else BLANK
        return np.array([shown], np.float32)

    def render(self) -> str:
        """Above the digits shown so far, below those recited: green is right and red is wrong."""
        shown = [(CYAN, YELLOW)[digit] for digit in self._digits[: self._tick + 1]]
        pairs = zip(self._recited, self._digits, strict=False)
        verdicts = [verdict(said == digit) for said, digit in pairs]
        return show(cells + [GREY] * (self.length - len(cells)) for cells in (shown, verdicts))
