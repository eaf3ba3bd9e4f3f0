"""A convolutional network for frames."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from pufferlib.exceptions import APIUsageError
from pufferlib.models.default import leaves
from pufferlib.models.heads import ActionHead
from pufferlib.models.masked import MaskedPolicy
from pufferlib.pytorch import layer_init, nativize_tensor


class Convolutional(MaskedPolicy):
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
        super().__init__(env)
        self.hidden_size = hidden_size
        self.channels_last = channels_last
        self.downsample = downsample
        shape = self._image_shape(env.single_observation_space)
        channels, size = self._flat_size(shape)
        self.encoder = nn.Sequential(
            layer_init(nn.Conv2d(channels, 32, 8, stride=4)),
            nn.ReLU(),
            layer_init(nn.Conv2d(32, 64, 4, stride=2)),
            nn.ReLU(),
            layer_init(nn.Conv2d(64, 64, 3, stride=1)),
            nn.ReLU(),
            nn.Flatten(),
            layer_init(nn.Linear(size, hidden_size)),
            nn.ReLU(),
        )
        self.action_head = ActionHead(env, hidden_size)
        self.value_head = layer_init(nn.Linear(hidden_size, 1), std=1.0)

    def encode_features(self, observations: Tensor) -> Tensor:
        """Frames `(B, *observation_shape)` to features `(B, hidden_size)`."""
        (image,) = leaves(nativize_tensor(observations, self.native_dtype))
        return self.encoder(self._frames(image))

    def _image_shape(self, space: Any) -> tuple[int, ...]:
        shapes = [space.shape]
        if self.native_dtype is not None:
            shapes = [leaf.shape for leaf in leaves(self.native_dtype)]
        if len(shapes) != 1:
            raise APIUsageError(
                "Convolutional: expected one image as observation, got a structured one; write a "
                "policy that unpacks it with pufferlib.pytorch.nativize_tensor"
            )
        if len(shapes[0]) not in (2, 3):
            raise APIUsageError(
                "Convolutional: expected observations (C, H, W), (H, W, C) or (H, W), got "
                f"{shapes[0]}"
            )
        return shapes[0]

    def _frames(self, observations: Tensor) -> Tensor:
        """`(B, C, H, W)` float, scaled and thinned."""
        frames = observations.unsqueeze(1) if observations.ndim == 3 else observations
        if self.channels_last and observations.ndim == 4:
            frames = frames.permute(0, 3, 1, 2)
        frames = frames[:, :, :: self.downsample, :: self.downsample]
        return frames.float() / 255 if frames.dtype == torch.uint8 else frames.float()

    def _flat_size(self, shape: tuple[int, ...]) -> tuple[int, int]:
        """Channels that enter the convolutions, and numbers that leave them."""
        channels, height, width = self._frames(torch.zeros(1, *shape)).shape[1:]
        sides = []
        for side in (height, width):
            for kernel, stride in ((8, 4), (4, 2), (3, 1)):
                side = (side - kernel) // stride + 1
            sides.append(side)
        if min(sides) < 1:
            raise APIUsageError(
                f"Convolutional: expected frames of at least 36 x 36 pixels, got {height} x "
                f"{width} (from observations {shape}, downsample {self.downsample})"
            )
        return channels, 64 * sides[0] * sides[1]
