"""Policy of MineRL's tasks."""

from __future__ import annotations

from typing import Any

from pufferlib.environments.recurrent import RecurrentPolicy
from pufferlib.models import Convolutional


class Policy(Convolutional):
    """Convolutions over the view, and a choice for each key and for each turn."""

    def __init__(self, env: Any, hidden_size: int = 512) -> None:
        super().__init__(env, hidden_size, channels_last=True)


class Recurrent(RecurrentPolicy):
    """`Policy` with an LSTM of its width: a view does not show what was done before."""
