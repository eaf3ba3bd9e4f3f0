"""Pictures of pixels: as text for a terminal, and larger."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

Picture = NDArray[np.uint8]


def half_blocks(picture: Picture) -> str:
    """A picture `(height, width, 3) uint8` as ANSI text, two pixels a character.

    The lower half of the last line is black where the height is odd.
    """
    pixels = np.pad(picture, ((0, len(picture) % 2), (0, 0), (0, 0)))
    lines = [
        "".join(_half_block(*above, *below) for above, below in zip(upper, lower, strict=True))
        for upper, lower in zip(pixels[::2].tolist(), pixels[1::2].tolist(), strict=True)
    ]
    return "".join(f"{line}\x1b[0m\n" for line in lines)


def enlarge(picture: Picture, height: int) -> Picture:
    """The picture with each pixel as a square of the smallest size that gives `height` rows."""
    scale = math.ceil(height / len(picture))
    return picture.repeat(scale, axis=0).repeat(scale, axis=1)


def _half_block(r: int, g: int, b: int, r2: int, g2: int, b2: int) -> str:
    """One character whose upper half has the first colour and whose lower half the second."""
    return f"\x1b[38;2;{r};{g};{b};48;2;{r2};{g2};{b2}m▀"
