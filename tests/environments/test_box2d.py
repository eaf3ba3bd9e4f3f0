"""Box2D: what each task's observations, actions and policy are."""

import itertools

import numpy as np
import pytest
import torch

from pufferlib.environments import box2d
from pufferlib.models import Convolutional, Default

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    ("name", "observation", "network"),
    [
        ("LunarLander-v3", (8,), Default),
        ("BipedalWalker-v3", (24,), Default),
        ("CarRacing-v3", (4, 96, 96), Convolutional),
    ],
)
def test_a_task_has_the_network_that_its_observations_need(name, observation, network):
    env = box2d.make_env(name)
    row, _ = env.reset(seed=1)
    policy = box2d.Policy(env)
    assert row.shape == observation
    assert isinstance(policy.network, network)
    logits, value = policy(torch.from_numpy(np.stack([row] * 2)))
    assert value.shape == (2, 1)
    env.close()


def test_the_car_sees_a_stack_of_frames():
    env = box2d.make_env("CarRacing-v3", framestack=2)
    env.reset(seed=1)
    seen = [env.step(np.array([0.0, 1.0, 0.0], np.float32))[0].copy() for _ in range(4)]
    assert (seen[0].shape, seen[0].dtype) == ((2, 96, 96), np.uint8)
    for before, after in itertools.pairwise(seen):
        assert (after[0] == before[1]).all(), "each step pushes one frame in"
    env.close()
