"""Policy of bsuite's experiments."""

from __future__ import annotations

from typing import Any

from pufferlib.environments.recurrent import RecurrentPolicy
from pufferlib.models import Default


class Policy(Default):
    """Two hidden layers of 64 units, as bsuite's own baselines have (Osband et al. 2020)."""

    def __init__(self, env: Any, hidden_size: int = 64, num_layers: int = 2) -> None:
        super().__init__(env, hidden_size, num_layers)


class Recurrent(RecurrentPolicy):
    """`Policy` with an LSTM of its width, which the experiments about memory need."""
