"""Policy of the StarCraft Multi-Agent Challenge."""

from __future__ import annotations

from typing import Any

from pufferlib.models import Default, LSTMWrapper


class Policy(Default):
    """Two hidden layers, shared by all units; it takes no action that a unit cannot do."""

    def __init__(self, env: Any, hidden_size: int = 64) -> None:
        super().__init__(env, hidden_size, num_layers=2)


class Recurrent(LSTMWrapper):
    """`Policy` with an LSTM of its width: a unit sees only what is near it."""

    def __init__(self, env: Any, policy: Policy, num_layers: int = 1) -> None:
        super().__init__(env, policy, policy.hidden_size, policy.hidden_size, num_layers)
