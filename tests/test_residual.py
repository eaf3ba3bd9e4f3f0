"""The residual network: sizes, what a block computes, and scales at the start."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Discrete

from pufferlib.exceptions import APIUsageError
from pufferlib.models import LSTMWrapper, Residual
from pufferlib.models.residual import ResidualBlock


def env_of(shape, dtype=np.uint8):
    return SimpleNamespace(
        single_observation_space=Box(0, 255, shape, dtype),
        single_action_space=Discrete(3),
        emulated=None,
    )


@pytest.mark.parametrize(
    ("shape", "options", "features"),
    [
        ((64, 64, 3), {"channels_last": True}, 32 * 8 * 8),
        ((4, 13, 9), {}, 32 * 2 * 2),
        ((80, 72), {"downsample": 2, "channels": (4, 8)}, 8 * 10 * 9),
    ],
)
def test_every_section_halves_the_sides(shape, options, features):
    policy = Residual(env_of(shape), hidden_size=12, **options)
    logits, value = policy(torch.zeros(2, *shape, dtype=torch.uint8))
    assert (logits.shape, value.shape) == ((2, 3), (2, 1))
    assert policy.encoder[-2].in_features == features


def test_the_default_is_the_network_of_the_paper():
    policy = Residual(env_of((72, 96, 3)), channels_last=True)
    convolutions = [m for m in policy.encoder.modules() if isinstance(m, torch.nn.Conv2d)]
    assert [m.out_channels for m in convolutions] == [16] * 5 + [32] * 10
    assert len(convolutions) == 15, "fifteen convolutional layers"
    assert policy.hidden_size == 256


def test_a_block_adds_to_what_it_gets():
    block = ResidualBlock(channels=1, num_blocks=1)
    with torch.no_grad():
        for convolution in (block.branch[1], block.branch[3]):
            convolution.weight.zero_()
            convolution.weight[0, 0, 1, 1] = 2.0  # only the pixel itself
            convolution.bias.fill_(-1.0)
    image = torch.tensor([[[[-3.0, 0.0, 0.25, 2.0]]]])
    # x + 2 relu(2 relu(x) - 1) - 1
    assert block(image).tolist() == [[[[-4.0, -1.0, -0.75, 7.0]]]]


def test_numbers_keep_their_scale_through_any_depth():
    torch.manual_seed(0)
    image = torch.randn(4, 16, 24, 24)
    for depth in (2, 12):
        blocks = torch.nn.Sequential(*(ResidualBlock(16, depth) for _ in range(depth)))
        assert 1.0 < (blocks(image).var() / image.var()).item() < 3.0


def test_it_can_be_made_recurrent():
    env = env_of((3, 10, 10))
    policy = LSTMWrapper(env, Residual(env, hidden_size=12), 12, 12)
    logits, value, state = policy(torch.zeros(2, 5, 3, 10, 10, dtype=torch.uint8))
    assert (logits.shape, value.shape, state[0].shape) == ((10, 3), (10, 1), (1, 2, 12))


def test_what_is_no_image_is_refused():
    with pytest.raises(APIUsageError, match=r"Residual: expected observations \(C, H, W\)"):
        Residual(env_of((4,)))
