"""Policy of the dm_control tasks."""

from __future__ import annotations

from pufferlib.environments.mujoco.torch import Policy as MujocoPolicy
from pufferlib.environments.recurrent import RecurrentPolicy


class Policy(MujocoPolicy):
    """That of Gymnasium's MuJoCo tasks, over everything that is observed."""


class Recurrent(RecurrentPolicy):
    """`Policy` with an LSTM of its width."""
