"""Images in another size: area means worked out by hand."""

import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete
from toys import PAIR, Scripted

from pufferlib.exceptions import SpaceError
from pufferlib.wrappers import ResizeObservation


def resized(image, height, width):
    env = ResizeObservation(
        Scripted(Box(0, 255, image.shape, image.dtype.type), [image]), height, width
    )
    observation, _ = env.reset()
    assert env.observation_space.contains(observation)
    return observation


BLOCKS = np.array([[0, 100, 8, 8], [100, 201, 8, 8]])


@pytest.mark.smoke
def test_a_pixel_is_the_mean_of_its_area():
    assert resized(BLOCKS.astype(np.uint8), 1, 2).tolist() == [[101, 8]]  # of 50 and 151
    assert resized(BLOCKS.astype(np.float32), 1, 2).tolist() == [[100.25, 8]]


def test_a_pixel_counts_where_its_middle_lies():
    assert resized(np.float32([[0, 10, 20, 30, 50]]), 1, 3).tolist() == [[5, 20, 40]]


@pytest.mark.parametrize("channels", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("dtype", [np.uint8, np.float32])
def test_channels_do_not_mix(channels, dtype):
    image = np.stack([BLOCKS + i for i in range(channels)], axis=2).astype(dtype)
    mean = 101 if dtype == np.uint8 else 100.25
    expected = [[[n + i for i in range(channels)] for n in (mean, 8)]]
    assert resized(image, 1, 2).tolist() == expected


def test_larger_images_repeat_pixels():
    image = np.array([[1, 2]], np.uint8)
    assert resized(image, 2, 4).tolist() == [[1, 1, 2, 2]] * 2


@pytest.mark.parametrize(
    "space", [PAIR, Discrete(3), Box(0, 1, (4, 4), np.float64), Box(0, 1, (2, 2, 2, 2), np.float32)]
)
def test_what_is_no_image_is_refused(space):
    with pytest.raises(SpaceError, match="expected images .* of uint8 or float32, got"):
        ResizeObservation(Scripted(space, []), 2, 2)


def test_a_size_of_nothing_is_refused():
    with pytest.raises(SpaceError, match="expected a positive size, got 0 x 2"):
        ResizeObservation(Scripted(Box(0, 255, (4, 4), np.uint8), []), 0, 2)
