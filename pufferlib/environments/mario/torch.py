"""Policy of Super Mario Bros."""

from __future__ import annotations

from typing import Any

from pufferlib.models import Convolutional, LSTMWrapper


class Policy(Convolutional):
    """The network of Mnih et al. 2015 over the stacked frames."""


class Recurrent(LSTMWrapper):
    """`Policy` with an LSTM of its width; one frame instead of a stack is then enough."""

    def __init__(self, env: Any, policy: Policy, num_layers: int = 1) -> None:
        super().__init__(env, policy, policy.hidden_size, policy.hidden_size, num_layers)
