"""Bandit: its rules worked out by hand, and its noise."""

from statistics import NormalDist

import numpy as np
import pytest

from pufferlib.environments.ocean import cells
from pufferlib.environments.ocean.bandit import Bandit
from pufferlib.environments.ocean.splitmix import SplitMix64
from pufferlib.exceptions import ConfigError


@pytest.mark.smoke
def test_the_best_arm_pays_the_scale_and_no_other_arm_pays():
    env = Bandit(num_actions=4, reward_scale=3, reward_noise=0)
    observation, info = env.reset(seed=0)
    assert (observation.tolist(), observation.dtype, info) == ([1], np.float32, {})
    steps = [env.step(arm)[1:] for arm in range(4)]
    nothing, best = (0.0, True, False, {"score": 0.0}), (3.0, True, False, {"score": 1.0})
    assert steps == [nothing, nothing, best, nothing]


@pytest.mark.parametrize("scale", [0.0, 1.0, 10.0])
def test_noise_is_of_its_own_size_whatever_the_scale(scale):
    env = Bandit(reward_scale=scale, reward_noise=2.0)
    env.reset(seed=7)
    stream = SplitMix64(7)
    for arm in range(10):
        noise = 2 * stream.normal()
        assert env.step(arm)[1] == (scale if arm == 7 else 0) + noise
        env.reset()


def test_the_best_arm_is_that_of_its_seed_in_every_environment():
    """Fixed for ever: another implementation of these rules must give the same."""
    for seed in (0, 1, None):
        env = Bandit()
        env.reset(seed=seed)
        assert [env.step(arm)[4]["score"] for arm in range(10)] == [0] * 7 + [1, 0, 0]
    assert len({Bandit(hard_fixed_seed=seed)._best for seed in range(50)}) == 10


def test_the_seed_of_a_reset_decides_the_noise_and_no_seed_continues_it():
    rewards = []
    for seed in (5, 5, 6):
        env = Bandit()
        env.reset(seed=seed)
        rewards.append([env.step(0)[1] for _ in range(5) if env.reset()])
    assert rewards[0] == rewards[1] != rewards[2]
    assert len(set(rewards[0])) == 5


def test_normal_numbers_are_quantiles_of_uniform_ones():
    stream, twin = SplitMix64(3), SplitMix64(3)
    numbers = [stream.normal() for _ in range(2_000)]
    uniform = [((twin.next() >> 12) + 0.5) / 2**52 for _ in numbers]
    np.testing.assert_allclose([NormalDist().cdf(x) for x in numbers], uniform, atol=1e-12)
    # Four standard deviations of the mean and of the deviation itself.
    assert abs(np.mean(numbers)) < 4 / 2_000**0.5
    assert abs(np.std(numbers) - 1) < 4 / 4_000**0.5


@pytest.mark.parametrize(("number", "sign"), [(0, -1), (2**64 - 1, 1)])
def test_the_ends_of_the_stream_are_finite_normal_numbers(monkeypatch, number, sign):
    monkeypatch.setattr(SplitMix64, "next", lambda self: number)
    assert SplitMix64(0).normal() == pytest.approx(sign * 8.21, abs=0.01)


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"num_actions": 1}, "num_actions: expected at least 2, got 1"),
        ({"reward_noise": -1}, "reward_noise: expected at least 0, got -1"),
    ],
)
def test_what_cannot_be_is_refused(kwargs, message):
    with pytest.raises(ConfigError, match=message):
        Bandit(**kwargs)


def test_rendering_shows_the_best_arm_and_the_last_one():
    env = Bandit(num_actions=4)  # arm 2 is the best
    env.reset()
    best = [cells.GREY, cells.GREY, cells.CYAN, cells.GREY]
    assert env.render() == cells.show([best, [cells.GREY] * 4])
    env.step(0)
    assert env.render() == cells.show([best, [cells.RED] + [cells.GREY] * 3])
    env.step(2)
    assert env.render() == cells.show([best, [cells.GREY] * 2 + [cells.GREEN, cells.GREY]])
