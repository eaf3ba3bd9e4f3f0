"""A policy of one's own, which unpacks what was flattened: python examples/custom_policy.py."""

from typing import Any

import torch
from torch import Tensor, nn

import pufferlib.vector
from pufferlib import clean_pufferl
from pufferlib.environments import ocean
from pufferlib.models import ActionHead, LSTMWrapper
from pufferlib.pytorch import nativize_dtype, nativize_tensor
from pufferlib.trainer.config import TrainConfig


class Policy(nn.Module):
    """Reads Ocean's Spaces, an image `(5, 5)` and five integers; a memory fits in its middle."""

    def __init__(self, env: Any, hidden_size: int = 64) -> None:
        super().__init__()
        self.layout = nativize_dtype(env.emulated)
        self.image = nn.Sequential(nn.Conv2d(1, 16, 3), nn.ReLU(), nn.Flatten())
        self.hidden = nn.Linear(16 * 3 * 3 + 5, hidden_size)
        self.action = ActionHead(env, hidden_size)
        self.value = nn.Linear(hidden_size, 1)

    def encode_observations(self, x: Tensor) -> Tensor:
        """Rows of bytes to features."""
        parts = nativize_tensor(x, self.layout)
        image = self.image(parts["image"].unsqueeze(1))
        return self.hidden(torch.cat([image, parts["flat"].float()], dim=1)).relu()

    def decode_actions(self, hidden: Tensor, lookup: Any = None) -> tuple[Any, Tensor]:
        """Features to logits, one set for each part of the action, and the value."""
        return self.action(hidden), self.value(hidden)

    def forward(self, x: Tensor) -> tuple[Any, Tensor]:
        """Rows of bytes to both."""
        return self.decode_actions(self.encode_observations(x))


def main(steps: int = 15_000, memory: bool = False, run_dir: str | None = None) -> float:
    """Train, and return the last mean score, of which 1 is the best."""
    envs = pufferlib.vector.make(ocean.env_creator("spaces"), num_envs=128)
    policy: nn.Module = Policy(envs.driver_env)
    if memory:  # of no use in Spaces, whose episodes have one step
        policy = LSTMWrapper(envs.driver_env, policy, input_size=64, hidden_size=64)
    config = TrainConfig(total_timesteps=steps, learning_rate=5e-3, bptt_horizon=8, device="cpu")
    trainer = clean_pufferl.create(config, envs, policy, run_dir)
    while trainer.global_step < steps:
        score = clean_pufferl.evaluate(trainer)["score"]
        clean_pufferl.train(trainer)
    print(f"score {score:.2f} after {trainer.global_step:,} steps")
    clean_pufferl.close(trainer)
    return score


if __name__ == "__main__":
    main()
