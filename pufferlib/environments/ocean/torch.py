"""Policy of the first-party sanity checks."""

from __future__ import annotations

from typing import Any

from pufferlib.environments.recurrent import RecurrentPolicy
from pufferlib.models import Default


class Policy(Default):
    """One hidden layer: what these environments test is the learner, not the network."""

    def __init__(self, env: Any, hidden_size: int = 128) -> None:
        super().__init__(env, hidden_size)


class Recurrent(RecurrentPolicy):
    """`Policy` with an LSTM of its width, for tasks that need memory."""
