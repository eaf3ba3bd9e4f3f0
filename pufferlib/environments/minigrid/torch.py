"""Policy of MiniGrid and BabyAI: what the agent sees, in the light of its mission."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from pufferlib.environments.minigrid.environment import UNKNOWN
from pufferlib.environments.recurrent import RecurrentPolicy
from pufferlib.models import ActionHead
from pufferlib.pytorch import Logits, layer_init, nativize_dtype, nativize_tensor

# Enough for the numbers of objects (11), colours (6) and states (4).
KINDS = (16, 8, 4)


class Policy(nn.Module):
    """Convolutions over the squares, whose features the mission scales and shifts.

    A square is the sum of three embeddings, of its object, colour and state. That the mission acts
    on the features of the image, and is not only laid beside them, is what BabyAI's agents do.
    Source: Perez et al. 2018, *FiLM: Visual Reasoning with a General Conditioning Layer*;
    Chevalier-Boisvert et al. 2019, *BabyAI*.

    Args:
        env: anything with `single_action_space` and `emulated`, such as `vecenv.driver_env`.
        hidden_size: width of the layer that joins image and direction.
        channels: width of the convolutions.
    """

    def __init__(self, env: Any, hidden_size: int = 128, channels: int = 32) -> None:
        super().__init__()
        self.hidden_size = hidden_size
        self.native_dtype = nativize_dtype(env.emulated)
        self.squares = nn.ModuleList(nn.Embedding(kinds, channels) for kinds in KINDS)
        self.near = layer_init(nn.Conv2d(channels, channels, 3))
        self.far = layer_init(nn.Conv2d(channels, channels, 3))
        self.mission = Mission(channels)
        self.direction = nn.Embedding(4, channels)
        self.join = layer_init(nn.Linear(channels * 9 + channels, hidden_size))
        self.action_head = ActionHead(env, hidden_size)
        self.value_head = layer_init(nn.Linear(hidden_size, 1), std=1.0)

    def forward(self, observations: Tensor) -> tuple[Logits, Tensor]:
        """Rows `(B, row_size)` to logits `(B, n)` and value `(B, 1)`."""
        return self.decode_actions(self.encode_observations(observations))

    def encode_observations(self, observations: Tensor) -> Tensor:
        """Rows `(B, row_size)` uint8 to features `(B, hidden_size)`."""
        leaves = nativize_tensor(observations, self.native_dtype)
        scale, shift = self.mission(leaves["mission"].long())
        seen = self.far(self._embed(leaves["image"].long())) * (1 + scale) + shift
        direction = self.direction(leaves["direction"].long())
        return self.join(torch.cat((seen.relu().flatten(1), direction), dim=1)).relu()

    def decode_actions(self, hidden: Tensor, lookup: Any = None) -> tuple[Logits, Tensor]:
        """Features `(B, hidden_size)` to logits `(B, n)` and value `(B, 1)`."""
        return self.action_head(hidden), self.value_head(hidden)

    def _embed(self, image: Tensor) -> Tensor:
        """Squares `(B, 7, 7, 3)` to `(B, channels, 5, 5)`."""
        parts = [embed(image[..., kind]) for kind, embed in enumerate(self.squares)]
        return self.near((parts[0] + parts[1] + parts[2]).permute(0, 3, 1, 2)).relu()


class Mission(nn.Module):
    """Which pieces of three words occur in the mission, as a scale and a shift per channel."""

    def __init__(self, channels: int, width: int = 32) -> None:
        super().__init__()
        self.word = nn.Embedding(UNKNOWN + 1, width, padding_idx=0)
        self.pieces = layer_init(nn.Conv1d(width, width, 3, padding=1))
        self.film = layer_init(nn.Linear(width, 2 * channels), std=0.1)

    def forward(self, words: Tensor) -> tuple[Tensor, Tensor]:
        """Words `(B, length)` to two times `(B, channels, 1, 1)`."""
        pieces = self.pieces(self.word(words).transpose(1, 2)).amax(dim=2).relu()
        scale, shift = self.film(pieces)[:, :, None, None].chunk(2, dim=1)
        return scale, shift


class Recurrent(RecurrentPolicy):
    """`Policy` with an LSTM of its width: remembers what is out of sight."""
