"""Policy of Griddly's games."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from pufferlib.environments.recurrent import RecurrentPolicy
from pufferlib.models import Residual


class Policy(Residual):
    """A residual network over planes of objects, smaller than IMPALA's as grids are."""

    def __init__(self, env: Any, hidden_size: int = 128) -> None:
        super().__init__(env, hidden_size, channels=(32, 32))

    def _frames(self, observations: Tensor) -> Tensor:
        return super()._frames(observations.float())  # zeros and ones, no brightness


class Recurrent(RecurrentPolicy):
    """`Policy` with an LSTM of its width, for games of which a part is seen."""
