"""Policy of Crafter."""

from __future__ import annotations

from typing import Any

from pufferlib.environments.recurrent import RecurrentPolicy
from pufferlib.models import Convolutional


class Policy(Convolutional):
    """The network of Mnih et al. 2015 over the image."""

    def __init__(self, env: Any, hidden_size: int = 512) -> None:
        super().__init__(env, hidden_size, channels_last=True)


class Recurrent(RecurrentPolicy):
    """`Policy` with an LSTM of its width: the world is larger than what is seen of it."""
