"""Policy of DeepMind Lab's levels."""

from __future__ import annotations

from typing import Any

from pufferlib.environments.recurrent import RecurrentPolicy
from pufferlib.models import Residual


class Policy(Residual):
    """The larger network of Espeholt et al. 2018 over the frame, as for these levels."""

    def __init__(self, env: Any, hidden_size: int = 256) -> None:
        super().__init__(env, hidden_size, channels_last=True)


class Recurrent(RecurrentPolicy):
    """`Policy` with an LSTM of its width: a frame does not show where one has been."""
