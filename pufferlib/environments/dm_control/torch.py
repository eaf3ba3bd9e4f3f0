"""Policy of the dm_control tasks."""

from __future__ import annotations

from typing import Any

from pufferlib.environments.mujoco.torch import Policy as MujocoPolicy
from pufferlib.models import LSTMWrapper


class Policy(MujocoPolicy):
    """That of Gymnasium's MuJoCo tasks, over everything that is observed."""


class Recurrent(LSTMWrapper):
    """`Policy` with an LSTM of its width."""

    def __init__(self, env: Any, policy: Policy, num_layers: int = 1) -> None:
        super().__init__(env, policy, policy.hidden_size, policy.hidden_size, num_layers)
