"""A convolutional network for frames."""

from __future__ import annotations

from typing import Any

from torch import nn

from pufferlib.exceptions import APIUsageError
from pufferlib.models.images import ImagePolicy
from pufferlib.pytorch import layer_init


class Convolutional(ImagePolicy):
    """The convolutional network of DQN over frames, for image observations.

    uint8 pixels are scaled to 0 … 1. Source: Mnih et al. 2015, *Human-level control through deep
    reinforcement learning*.

    Args:
        env: as for `Default`; its observations are `(C, H, W)`, `(H, W, C)` or `(H, W)`, alone or
            in a Dict with nothing else but an action mask.
        hidden_size: width of the layer after the convolutions.
        channels_last: the observations are `(H, W, C)`.
        downsample: take every n-th pixel of both axes first.

    Raises:
        APIUsageError: the observations are not images, or too small for the convolutions.
    """

    def __init__(
        self,
        env: Any,
        hidden_size: int = 512,
        channels_last: bool = False,
        downsample: int = 1,
    ) -> None:
        super().__init__(env, hidden_size, channels_last, downsample)
        self.encoder = nn.Sequential(
            layer_init(nn.Conv2d(self.frame_shape[0], 32, 8, stride=4)),
            nn.ReLU(),
            layer_init(nn.Conv2d(32, 64, 4, stride=2)),
            nn.ReLU(),
            layer_init(nn.Conv2d(64, 64, 3, stride=1)),
            nn.ReLU(),
            nn.Flatten(),
            layer_init(nn.Linear(self._flat_size(), hidden_size)),
            nn.ReLU(),
        )

    def _flat_size(self) -> int:
        """How many numbers leave the convolutions."""
        _, height, width = self.frame_shape
        sides = []
        for side in (height, width):
            for kernel, stride in ((8, 4), (4, 2), (3, 1)):
                side = (side - kernel) // stride + 1
            sides.append(side)
        if min(sides) < 1:
            raise APIUsageError(
                f"{type(self).__name__}: expected frames of at least 36 x 36 pixels, got {height} "
                f"x {width} (from observations {self.observed_shape}, downsample "
                f"{self.downsample}); Residual takes any size"
            )
        return 64 * sides[0] * sides[1]
