"""Smaller images, for environments whose observations are larger than what a policy needs."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box
from numpy.typing import NDArray

from pufferlib.exceptions import SpaceError


class ResizeObservation(gymnasium.ObservationWrapper[NDArray[Any], Any, NDArray[Any]]):
    """Images of another size: a new pixel is the mean of the old ones whose middle it covers.

    That is Pillow's box filter; bytes are rounded after each of the two axes. Gymnasium's wrapper
    of the same name needs OpenCV. For several agents see `PerAgent`.

    Args:
        env: its observations are images `(H, W)` or `(H, W, C)` of uint8 or float32.
        height, width: of the new images, in pixels.

    Raises:
        SpaceError: the observations are no such images.
    """

    def __init__(self, env: gymnasium.Env[Any, Any], height: int, width: int) -> None:
        super().__init__(env)
        space: Any = env.observation_space
        is_image = isinstance(space, Box) and len(space.shape) in (2, 3)
        if not is_image or space.dtype not in (np.uint8, np.float32):
            raise SpaceError(
                "ResizeObservation: expected images (H, W) or (H, W, C) of uint8 or float32, got "
                f"{space}"
            )
        if height < 1 or width < 1:
            raise SpaceError(f"ResizeObservation: expected a positive size, got {height} x {width}")
        self.size = (width, height)
        self.observation_space = Box(
            space.low.min(), space.high.max(), (height, width, *space.shape[2:]), space.dtype.type
        )

    def observation(self, observation: NDArray[Any]) -> NDArray[Any]:
        """The image `(height, width)` or `(height, width, C)`, in the dtype of the old one."""
        if observation.ndim == 2:
            return self._resize(observation)
        if observation.shape[2] == 3 and observation.dtype == np.uint8:
            return self._resize(observation)
        # Pillow takes two or four channels for transparency, which would weigh the others.
        channels = np.moveaxis(observation, 2, 0)
        return np.stack([self._resize(channel) for channel in channels], axis=2)

    def _resize(self, image: NDArray[Any]) -> NDArray[Any]:
        from PIL import Image  # here: `pufferlib.vector` loads this package and needs no images

        picture = Image.fromarray(np.ascontiguousarray(image))
        return np.asarray(picture.resize(self.size, Image.Resampling.BOX))
