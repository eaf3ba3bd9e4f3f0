"""Policy of the classic control tasks."""

from __future__ import annotations

from typing import Any

from pufferlib.environments.recurrent import RecurrentPolicy
from pufferlib.models import Default


class Policy(Default):
    """One hidden layer of 64 units: the observations are a handful of numbers."""

    def __init__(self, env: Any, hidden_size: int = 64) -> None:
        super().__init__(env, hidden_size)


class Recurrent(RecurrentPolicy):
    """`Policy` with an LSTM of its width, for tasks that need memory."""
