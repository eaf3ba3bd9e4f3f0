"""The networks that all contestants of `learning.py` and `training.py` have, as our policies."""

from __future__ import annotations

import math
from typing import Any

from torch import Tensor, nn

from pufferlib.models import ActionHead
from pufferlib.pytorch import Logits, layer_init


class ActorCritic(nn.Module):
    """CleanRL's and SB3's for vectors: an actor and a critic that share nothing.

    Each has two layers of 64 units with tanh; weights are orthogonal with a gain of sqrt(2), of
    0.01 before the actions and of 1 before the value.
    """

    def __init__(self, env: Any) -> None:
        super().__init__()
        features = math.prod(env.single_observation_space.shape)
        self.actor = hidden_layers(features)
        self.action_head = ActionHead(env, 64)
        self.critic = nn.Sequential(hidden_layers(features), layer_init(nn.Linear(64, 1), std=1.0))

    def forward(self, observations: Tensor) -> tuple[Logits, Tensor]:
        """Observations `(B, *observation_shape)` to logits and value `(B, 1)`."""
        flat = observations.flatten(1).float()
        return self.action_head(self.actor(flat)), self.critic(flat)


def hidden_layers(features: int) -> nn.Sequential:
    return nn.Sequential(
        layer_init(nn.Linear(features, 64)),
        nn.Tanh(),
        layer_init(nn.Linear(64, 64)),
        nn.Tanh(),
    )
