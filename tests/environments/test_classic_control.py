"""Classic control: time limits, statistics, policies."""

import itertools

import numpy as np
import pytest
import torch

from pufferlib.environments import classic_control

LIMITS = {
    "CartPole-v1": 500,
    "Acrobot-v1": 500,
    "MountainCar-v0": 200,
    "MountainCarContinuous-v0": 999,
    "Pendulum-v1": 200,
}


def play(env, actions):
    """Run one episode, cycling through actions; its length, whether it was truncated, its info."""
    env.reset(seed=3)
    for step, action in zip(range(1, 1_000), itertools.cycle(actions), strict=False):
        _, _, terminated, truncated, info = env.step(action)
        if terminated or truncated:
            return step, truncated, info
        assert info == {}
    raise AssertionError("the episode did not end")


def test_every_task_keeps_the_time_limit_that_gymnasium_registers():
    from pufferlib.environments.classic_control.environment import TASKS

    assert set(TASKS) == set(LIMITS)
    for name, limit in LIMITS.items():
        env = classic_control.make_env(name)
        if name == "CartPole-v1":
            env.env.unwrapped.theta_threshold_radians = 1e9  # nobody falls
            env.env.unwrapped.x_threshold = 1e9
        still = np.zeros(env.single_action_space.shape, env.single_action_space.dtype)
        length, truncated, info = play(env, [still])
        assert (length, truncated, info["episode_length"]) == (limit, True, limit), name
        env.close()


def test_the_time_limit_can_be_changed():
    env = classic_control.make_env(max_episode_steps=5)
    length, truncated, info = play(env, [0, 1])
    assert (length, truncated, info["episode_return"]) == (5, True, 5.0)


@pytest.mark.parametrize("name", LIMITS)
def test_the_policy_fits_every_task(name):
    env = classic_control.make_env(name)
    policy = classic_control.Policy(env)
    observation, _ = env.reset(seed=0)
    _, value = policy(torch.from_numpy(np.stack([observation] * 3)))
    assert value.shape == (3, 1)
    assert policy.hidden_size == 64
