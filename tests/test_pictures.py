"""Pictures worked out by hand."""

import numpy as np

from pufferlib.pictures import enlarge, half_blocks


def test_two_pixels_are_a_character_and_an_odd_row_has_black_below():
    picture = np.arange(18, dtype=np.uint8).reshape(3, 2, 3)
    assert half_blocks(picture) == (
        "\x1b[38;2;0;1;2;48;2;6;7;8m▀\x1b[38;2;3;4;5;48;2;9;10;11m▀\x1b[0m\n"
        "\x1b[38;2;12;13;14;48;2;0;0;0m▀\x1b[38;2;15;16;17;48;2;0;0;0m▀\x1b[0m\n"
    )


def test_pixels_become_squares():
    picture = np.arange(6, dtype=np.uint8).reshape(2, 1, 3)
    large = enlarge(picture, 5)
    assert large.shape == (6, 3, 3)
    assert (large == picture[[0, 0, 0, 1, 1, 1]]).all()
    assert enlarge(picture, 2).tolist() == picture.tolist()
