"""What policies of one image share: from rows to scaled frames."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from pufferlib.exceptions import APIUsageError
from pufferlib.models.default import leaves
from pufferlib.models.heads import ActionHead
from pufferlib.models.masked import MaskedPolicy
from pufferlib.pytorch import layer_init, nativize_tensor


class ImagePolicy(MaskedPolicy):
    """A policy whose module `encoder` reads frames; uint8 pixels are scaled to 0 … 1.

    Args:
        env: as for `Default`; its observations are `(C, H, W)`, `(H, W, C)` or `(H, W)`, alone or
            in a Dict with nothing else but an action mask.
        hidden_size: width of what the encoder returns.
        channels_last: the observations are `(H, W, C)`.
        downsample: take every n-th pixel of both axes first.

    Raises:
        APIUsageError: the observations are not images.
    """

    encoder: nn.Module

    def __init__(self, env: Any, hidden_size: int, channels_last: bool, downsample: int) -> None:
        super().__init__(env)
        self.hidden_size = hidden_size
        self.channels_last = channels_last
        self.downsample = downsample
        self.observed_shape = self._image_shape(env.single_observation_space)
        # Channels, height and width of what enters the encoder.
        self.frame_shape = tuple(self._frames(torch.zeros(1, *self.observed_shape)).shape[1:])
        self.action_head = ActionHead(env, hidden_size)
        self.value_head = layer_init(nn.Linear(hidden_size, 1), std=1.0)

    def encode_features(self, observations: Tensor) -> Tensor:
        """Frames `(B, *observation_shape)` to features `(B, hidden_size)`."""
        (image,) = leaves(nativize_tensor(observations, self.native_dtype))
        return self.encoder(self._frames(image))

    def _image_shape(self, space: Any) -> tuple[int, ...]:
        name = type(self).__name__
        shapes = [space.shape]
        if self.native_dtype is not None:
            shapes = [leaf.shape for leaf in leaves(self.native_dtype)]
        if len(shapes) != 1:
            raise APIUsageError(
                f"{name}: expected one image as observation, got a structured one; write a "
                "policy that unpacks it with pufferlib.pytorch.nativize_tensor"
            )
        if len(shapes[0]) not in (2, 3):
            raise APIUsageError(
                f"{name}: expected observations (C, H, W), (H, W, C) or (H, W), got {shapes[0]}"
            )
        return shapes[0]

    def _frames(self, observations: Tensor) -> Tensor:
        """`(B, C, H, W)` float, scaled and thinned."""
        frames = observations.unsqueeze(1) if observations.ndim == 3 else observations
        if self.channels_last and observations.ndim == 4:
            frames = frames.permute(0, 3, 1, 2)
        frames = frames[:, :, :: self.downsample, :: self.downsample]
        return frames.float() / 255 if frames.dtype == torch.uint8 else frames.float()
