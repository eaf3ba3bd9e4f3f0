"""Policy of the StarCraft Multi-Agent Challenge."""

from __future__ import annotations

from typing import Any

from pufferlib.environments.recurrent import RecurrentPolicy
from pufferlib.models import Default


class Policy(Default):
    """Two hidden layers, shared by all units; it takes no action that a unit cannot do."""

    def __init__(self, env: Any, hidden_size: int = 64) -> None:
        super().__init__(env, hidden_size, num_layers=2)


class Recurrent(RecurrentPolicy):
    """`Policy` with an LSTM of its width: a unit sees only what is near it."""
