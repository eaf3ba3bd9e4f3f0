"""A deeper convolutional network for frames, with residual blocks."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

from torch import Tensor, nn

from pufferlib.models.images import ImagePolicy
from pufferlib.pytorch import layer_init

BLOCKS_PER_SECTION = 2


class Residual(ImagePolicy):
    """The larger network of IMPALA over frames, for image observations of any size.

    Each section is a convolution, a maximum over 3 × 3 pixels that halves both sides, and two
    residual blocks; a linear layer joins what the last one leaves. It generalizes to unseen levels
    where the network of DQN does not, and costs several times its time. uint8 pixels are scaled to
    0 … 1. Sources: Espeholt et al. 2018, *IMPALA*, figure 3; Cobbe et al. 2020, *Leveraging
    Procedural Generation to Benchmark Reinforcement Learning*.

    Args:
        env: as for `Default`; its observations are `(C, H, W)`, `(H, W, C)` or `(H, W)`, alone or
            in a Dict with nothing else but an action mask.
        hidden_size: width of the layer after the convolutions.
        channels_last: the observations are `(H, W, C)`.
        downsample: take every n-th pixel of both axes first.
        channels: of each section; IMPALA's are 16, 32 and 32.

    Raises:
        APIUsageError: the observations are not images.
    """

    def __init__(
        self,
        env: Any,
        hidden_size: int = 256,
        channels_last: bool = False,
        downsample: int = 1,
        channels: Sequence[int] = (16, 32, 32),
    ) -> None:
        super().__init__(env, hidden_size, channels_last, downsample)
        inputs, *sides = self.frame_shape
        num_blocks = BLOCKS_PER_SECTION * len(channels)
        sections = [
            _section(before, after, num_blocks)
            for before, after in itertools.pairwise((inputs, *channels))
        ]
        height, width = (math.ceil(side / 2 ** len(channels)) for side in sides)
        self.encoder = nn.Sequential(
            *sections,
            nn.ReLU(),
            nn.Flatten(),
            layer_init(nn.Linear(channels[-1] * height * width, hidden_size)),
            nn.ReLU(),
        )


class ResidualBlock(nn.Module):
    """Adds what two convolutions make of an image to the image: `x + f(x)`.

    Args:
        channels: of the image, and of what comes out.
        num_blocks: how many blocks the network has. Each adds this part of the variance that it
            gets, so that the numbers neither grow nor shrink much on the way, however deep it is.
    """

    def __init__(self, channels: int, num_blocks: int) -> None:
        super().__init__()
        self.branch = nn.Sequential(
            nn.ReLU(),
            layer_init(nn.Conv2d(channels, channels, 3, padding=1)),
            nn.ReLU(),
            layer_init(nn.Conv2d(channels, channels, 3, padding=1), std=math.sqrt(2 / num_blocks)),
        )

    def forward(self, image: Tensor) -> Tensor:
        """`(B, channels, H, W)` to the same shape."""
        return image + self.branch(image)


def _section(inputs: int, channels: int, num_blocks: int) -> nn.Sequential:
    """`(B, inputs, H, W)` to `(B, channels, ceil(H / 2), ceil(W / 2))`."""
    return nn.Sequential(
        layer_init(nn.Conv2d(inputs, channels, 3, padding=1)),
        nn.MaxPool2d(3, stride=2, padding=1),
        *(ResidualBlock(channels, num_blocks) for _ in range(BLOCKS_PER_SECTION)),
    )
