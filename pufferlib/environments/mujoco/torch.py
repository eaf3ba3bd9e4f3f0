"""Policy of the MuJoCo tasks."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from pufferlib.environments.recurrent import RecurrentPolicy
from pufferlib.models import Default


class Policy(Default):
    """Two hidden layers over the observation on a logarithmic scale.

    Angles are small numbers and must stay apart; velocities and forces of contact are at times
    a hundred times as large. sign(x) log(1 + |x|) leaves the first as they are and brings the
    others near, without the running means that would have to go with the policy.
    """

    def __init__(self, env: Any, hidden_size: int = 64, num_layers: int = 2) -> None:
        super().__init__(env, hidden_size, num_layers)

    def encode_features(self, observations: Tensor) -> Tensor:
        """Observations `(B, n)` float32 to features `(B, hidden_size)`."""
        inputs = self._inputs(observations)
        return self.encoder(inputs.sign() * inputs.abs().log1p())


class Recurrent(RecurrentPolicy):
    """`Policy` with an LSTM of its width."""
