"""Policy of Procgen."""

from __future__ import annotations

from typing import Any

from pufferlib.models import LSTMWrapper, Residual


class Policy(Residual):
    """IMPALA's residual network, which Procgen's published results were measured with."""

    def __init__(self, env: Any, hidden_size: int = 256) -> None:
        super().__init__(env, hidden_size, channels_last=True)


class Recurrent(LSTMWrapper):
    """`Policy` with an LSTM of its width, for the levels of the mode 'memory'."""

    def __init__(self, env: Any, policy: Policy, num_layers: int = 1) -> None:
        super().__init__(env, policy, policy.hidden_size, policy.hidden_size, num_layers)
