"""Policy of the Box2D tasks."""

from __future__ import annotations

from typing import Any

from pufferlib.environments.pixels_or_numbers import PixelsOrNumbers
from pufferlib.environments.recurrent import RecurrentPolicy


class Policy(PixelsOrNumbers):
    """Two hidden layers over the numbers of lander and walker, convolutions over the car's frames.

    Args:
        env: as for `PixelsOrNumbers`.
        hidden_size: width of the hidden layers.
    """

    def __init__(self, env: Any, hidden_size: int = 128) -> None:
        super().__init__(env, hidden_size)


class Recurrent(RecurrentPolicy):
    """`Policy` with an LSTM of its width."""
