"""Stable-Baselines3 trains a plain PyTorch policy, convolutions and an LSTM, on Atari.

pip install 'pufferlib[atari,sb3]'
python examples/sb3.py
"""

from typing import Any

from sb3_contrib import RecurrentPPO
from torch import Tensor, nn

import pufferlib.vector
from pufferlib.environments import atari
from pufferlib.frameworks.sb3 import SB3VecEnv
from pufferlib.frameworks.sb3_contrib import RecurrentPolicy
from pufferlib.models import LSTMWrapper


class Frames(nn.Module):
    """A policy in two halves, so that a memory fits between them."""

    def __init__(self, env: Any, hidden_size: int = 128) -> None:
        super().__init__()
        self.encoder = nn.Sequential(
            *(nn.Conv2d(1, 16, 8, stride=4), nn.ReLU()),
            *(nn.Conv2d(16, 32, 4, stride=2), nn.ReLU(), nn.Flatten()),
            *(nn.Linear(32 * 9 * 9, hidden_size), nn.ReLU()),
        )
        self.action = nn.Linear(hidden_size, env.single_action_space.n)
        self.value = nn.Linear(hidden_size, 1)

    def encode_observations(self, x: Tensor) -> Tensor:
        """One frame `(B, 1, 84, 84)` to features."""
        return self.encoder(x / 255)

    def decode_actions(self, hidden: Tensor, lookup: None = None) -> tuple[Tensor, Tensor]:
        """Features to logits and the value."""
        return self.action(hidden), self.value(hidden)


def main(steps: int = 1_000_000, game: str = "breakout", num_envs: int = 8) -> RecurrentPPO:
    """Train; a step ends and begins an episode at once, as Stable-Baselines3 expects."""
    make_env = pufferlib.vector.SameStep(atari.env_creator(game))
    vecenv = pufferlib.vector.make(
        make_env,
        env_kwargs={"framestack": 1},  # the LSTM remembers what the frames before it showed
        backend=pufferlib.vector.Multiprocessing,
        num_envs=num_envs,
    )
    policy = LSTMWrapper(vecenv.driver_env, Frames(vecenv.driver_env))
    options = {"n_steps": 128, "batch_size": 256, "n_epochs": 4, "ent_coef": 0.01, "verbose": 1}
    with vecenv:
        model = RecurrentPPO(
            RecurrentPolicy, SB3VecEnv(vecenv), policy_kwargs={"policy": policy}, **options
        )
        return model.learn(steps)


if __name__ == "__main__":
    main()
