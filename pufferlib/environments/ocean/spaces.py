"""Spaces: an observation and an action of several parts each."""

from __future__ import annotations

from typing import Any, ClassVar

import gymnasium
import numpy as np
from numpy.typing import NDArray

from pufferlib.environments.ocean.cells import CYAN, GREY, YELLOW, show, verdict
from pufferlib.environments.ocean.streams import StreamEnv

Observation = dict[str, NDArray[Any]]
Action = dict[str, int]

IMAGE_SIDE, FLAT_SIZE = 5, 5
_STEPS = 2**23  # of 1 / _STEPS each from 0 to 1: all of them are float32 numbers


class Spaces(StreamEnv[Observation, Action]):
    """Answer for each of two unlike parts of the observation whether its sum is positive.

    Rules. A reset draws `image`, of numbers from -1 to 1, and `flat`, of the integers -1, 0 and 1,
    all uniform. An action has a part of the same name for each: it should be 1 where the part's
    sum is above 0, else 0. Every step ends its episode.

    Reward. 0.5 for each part that was answered rightly.

    Score. The info of each step has `score`, which is that reward. The best is 1. Random answers
    score 0.5, and the best ones that do not look 0.55: `flat` has a positive sum in 96 of 243
    cases.

    What it tests. That what has structure survives being flattened and restored: offsets, byte
    order and dtypes of an observation's parts, which part of an action is which, and that an
    observation belongs to the step it is acted on. A fault in one part costs that half.

    Observation: Dict of `image`, float32 `(5, 5)`, and `flat`, int8 `(5,)`, both from -1 to 1.
    Actions: Dict of `image` and `flat`, both `Discrete(2)`. The numbers come from the
    environment's own SplitMix64 stream, started by `reset(seed)`; episodes without a seed continue
    it.
    """

    metadata: ClassVar[dict[str, Any]] = {"render_modes": ["ansi"], "render_fps": 2}

    def __init__(self, render_mode: str | None = "ansi") -> None:
        self.render_mode = render_mode
        self.observation_space = gymnasium.spaces.Dict(
            image=gymnasium.spaces.Box(-1, 1, (IMAGE_SIDE, IMAGE_SIDE), np.float32),
            flat=gymnasium.spaces.Box(-1, 1, (FLAT_SIZE,), np.int8),
        )
        self.action_space = gymnasium.spaces.Dict(
            image=gymnasium.spaces.Discrete(2), flat=gymnasium.spaces.Discrete(2)
        )
        self._verdicts: list[bool] = []

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Draw both parts; a seed restarts the stream of numbers."""
        stream = self._draw_from(seed, options)
        image = [stream.below(2 * _STEPS) / _STEPS - 1 for _ in range(IMAGE_SIDE**2)]
        flat = [stream.below(3) - 1 for _ in range(FLAT_SIZE)]
        self._answers = {"image": sum(image) > 0, "flat": sum(flat) > 0}
        self._observation: Observation = {
            "image": np.array(image, np.float32).reshape(IMAGE_SIDE, IMAGE_SIDE),
            "flat": np.array(flat, np.int8),
        }
        self._verdicts = []
        return self._observation, {}

    def step(self, action: Action) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Answer for both parts."""
        self._verdicts = [action[part] == answer for part, answer in self._answers.items()]
        score = sum(self._verdicts) / 2
        return self._observation, score, True, False, {"score": score}

    def render(self) -> str:
        """The image, the flat part, and the last verdicts on both.

        Positive numbers are yellow, negative ones cyan, zeros grey.
        """
        rows = [*self._observation["image"].tolist(), self._observation["flat"].tolist()]
        verdicts = [verdict(is_right) for is_right in self._verdicts] or [GREY, GREY]
        return show([*([_colour(number) for number in row] for row in rows), verdicts])


def _colour(number: float) -> str:
    return YELLOW if number > 0 else CYAN if number < 0 else GREY
