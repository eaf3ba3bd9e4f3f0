"""Policy of OpenSpiel's games."""

from __future__ import annotations

from typing import Any

from pufferlib.environments.recurrent import RecurrentPolicy
from pufferlib.models import Default


class Policy(Default):
    """Two hidden layers over what a player observes; rules out what the mask forbids."""

    def __init__(self, env: Any, hidden_size: int = 128, num_layers: int = 2) -> None:
        super().__init__(env, hidden_size, num_layers)


class Recurrent(RecurrentPolicy):
    """`Policy` with an LSTM of its width, for games that hide something."""
