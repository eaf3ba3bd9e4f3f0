"""Policy of the Butterfly games."""

from __future__ import annotations

from typing import Any

from pufferlib.environments.pixels_or_numbers import PixelsOrNumbers
from pufferlib.environments.recurrent import RecurrentPolicy


class Policy(PixelsOrNumbers):
    """Convolutions over stacked frames, two layers over a table of positions.

    Args:
        env: as for `PixelsOrNumbers`.
        hidden_size: width of the layers.
    """

    def __init__(self, env: Any, hidden_size: int = 256) -> None:
        super().__init__(env, hidden_size)


class Recurrent(RecurrentPolicy):
    """`Policy` with an LSTM of its width: where the ball and the zombies were going."""
