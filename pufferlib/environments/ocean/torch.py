"""Policy of the first-party sanity checks."""

from __future__ import annotations

from typing import Any

from pufferlib.models import Default, LSTMWrapper


class Policy(Default):
    """One hidden layer: what these environments test is the learner, not the network."""

    def __init__(self, env: Any, hidden_size: int = 128) -> None:
        super().__init__(env, hidden_size)


class Recurrent(LSTMWrapper):
    """`Policy` with an LSTM of its width, for tasks that need memory."""

    def __init__(self, env: Any, policy: Policy, num_layers: int = 1) -> None:
        super().__init__(env, policy, policy.hidden_size, policy.hidden_size, num_layers)
