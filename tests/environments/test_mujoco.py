"""MuJoCo: float32 rows, every task, and a policy that bears large velocities."""

import numpy as np
import pytest
import torch

from pufferlib.environments import mujoco
from pufferlib.environments.mujoco.environment import TASKS

pytestmark = pytest.mark.slow

SIZES = {
    "Ant-v5": (105, 8),
    "HalfCheetah-v5": (17, 6),
    "Hopper-v5": (11, 3),
    "Humanoid-v5": (348, 17),
    "HumanoidStandup-v5": (348, 17),
    "InvertedDoublePendulum-v5": (9, 1),
    "InvertedPendulum-v5": (4, 1),
    "Pusher-v5": (23, 7),
    "Reacher-v5": (10, 2),
    "Swimmer-v5": (8, 2),
    "Walker2d-v5": (17, 6),
}


def test_every_task_has_float32_rows_of_its_size():
    assert set(TASKS) == set(SIZES)
    for name, (observations, actions) in SIZES.items():
        env = mujoco.make_env(name)
        row, _ = env.reset(seed=1)
        raw = env.env.unwrapped._get_obs()
        assert (row.dtype, row.shape) == (np.float32, (observations,)), name
        assert env.single_action_space.shape == (actions,)
        assert (row == raw.astype(np.float32)).all()
        env.close()


def test_the_policy_keeps_small_numbers_apart_and_large_ones_near():
    env = mujoco.make_env()
    policy = mujoco.Policy(env)
    seen = []
    policy.encoder[0].register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    rows = torch.zeros(1, 17)
    rows[0, :4] = torch.tensor([0.01, -0.01, 1e3, -1e3])
    policy(rows)
    expected = [0.00995, -0.00995, 6.90875, -6.90875]
    torch.testing.assert_close(seen[0][0, :4], torch.tensor(expected), rtol=1e-4, atol=1e-5)
    env.close()
