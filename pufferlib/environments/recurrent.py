"""What the recurrent policies of the environments share."""

from __future__ import annotations

from typing import Any

from torch import nn

from pufferlib.models import LSTMWrapper


class RecurrentPolicy(LSTMWrapper):
    """A policy with an LSTM as wide as its features.

    Args:
        env: anything with `single_observation_space` and `single_action_space`, such as
            `vecenv.driver_env`.
        policy: has `hidden_size`, the width of its features.
        num_layers: of the LSTM.
    """

    def __init__(self, env: Any, policy: nn.Module, num_layers: int = 1) -> None:
        width: Any = policy.hidden_size
        super().__init__(env, policy, width, width, num_layers)
