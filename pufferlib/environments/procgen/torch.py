"""Policy of Procgen."""

from __future__ import annotations

from typing import Any

from pufferlib.environments.recurrent import RecurrentPolicy
from pufferlib.models import Residual


class Policy(Residual):
    """IMPALA's residual network, which Procgen's published results were measured with.

    On a CPU it takes 50 times as long as the game. With `downsample=2` it sees 32 × 32 pixels and
    takes a fifth of that.

    Args:
        env: anything with `single_action_space` and `emulated`, such as `vecenv.driver_env`.
        hidden_size: width of the layer after the convolutions.
        downsample: take every n-th pixel of both axes.
    """

    def __init__(self, env: Any, hidden_size: int = 256, downsample: int = 1) -> None:
        super().__init__(env, hidden_size, channels_last=True, downsample=downsample)


class Recurrent(RecurrentPolicy):
    """`Policy` with an LSTM of its width, for the levels of the mode 'memory'."""
