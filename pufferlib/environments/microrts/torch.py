"""Policy of MicroRTS: a network over the map that speaks for every square."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from pufferlib.models import MaskedPolicy
from pufferlib.models.residual import ResidualBlock
from pufferlib.pytorch import Logits, layer_init, mask_logits, nativize_tensor

VALUE_SIZE = 128


class Policy(MaskedPolicy):
    """Residual blocks over the map without making it smaller; each square's command by its own.

    A square's command depends on what is up to `2 * num_blocks + 1` squares away, the value on the
    whole map. After the network *GridNet* of Han et al. 2019, *Grid-Wise Control for Multi-Agent
    Reinforcement Learning in Video Game AI*, which Huang et al. 2021 play MicroRTS with.

    Args:
        env: anything with `single_action_space` and `emulated`, such as `vecenv.driver_env`.
        hidden_size: features of a square.
        num_blocks: residual blocks.
    """

    def __init__(self, env: Any, hidden_size: int = 32, num_blocks: int = 3) -> None:
        super().__init__(env)
        self.hidden_size = hidden_size
        height, width, planes = self.native_dtype["observation"].shape
        self.encoder = nn.Sequential(
            layer_init(nn.Conv2d(planes, hidden_size, 3, padding=1)),
            *(ResidualBlock(hidden_size, num_blocks) for _ in range(num_blocks)),
            nn.ReLU(),
        )
        commands = int(env.single_action_space.nvec[0])
        self.action_head = SquareHead(hidden_size, commands)
        self.value_head = nn.Sequential(
            nn.Flatten(),
            layer_init(nn.Linear(hidden_size * height * width, VALUE_SIZE)),
            nn.ReLU(),
            layer_init(nn.Linear(VALUE_SIZE, 1), std=1.0),
        )

    def encode_features(self, observations: Tensor) -> Tensor:
        """Rows `(B, row_size)` to features of each square `(B, hidden_size, height, width)`."""
        planes = nativize_tensor(observations, self.native_dtype)["observation"]
        return self.encoder(planes.permute(0, 3, 1, 2).float())


class SquareHead(nn.Module):
    """From the features of the squares to a choice for each of them.

    Args:
        hidden_size: features of a square.
        commands: options of a choice.
    """

    def __init__(self, hidden_size: int, commands: int) -> None:
        super().__init__()
        self.commands = layer_init(nn.Conv2d(hidden_size, commands, 1), std=0.01)

    def forward(self, hidden: Tensor, allowed: Tensor | None = None) -> Logits:
        """Features `(B, hidden_size, height, width)` to logits `(B, commands)` of each square.

        Args:
            hidden: the features.
            allowed: bool `(B, height * width * commands)`.
        """
        per_square = self.commands(hidden).flatten(2).permute(2, 0, 1)
        return mask_logits(list(per_square), allowed)
