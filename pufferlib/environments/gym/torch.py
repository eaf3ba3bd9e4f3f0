"""Policy for environments of OpenAI Gym."""

from __future__ import annotations

from typing import Any

from pufferlib.models import Default, LSTMWrapper


class Policy(Default):
    """A multilayer perceptron: nothing is known of the observations."""


class Recurrent(LSTMWrapper):
    """`Policy` with an LSTM of its width, for tasks that need memory."""

    def __init__(self, env: Any, policy: Policy, num_layers: int = 1) -> None:
        super().__init__(env, policy, policy.hidden_size, policy.hidden_size, num_layers)
