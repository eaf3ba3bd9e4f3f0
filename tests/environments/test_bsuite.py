"""bsuite: names of variants, and measures of an episode instead of sums over a life."""

import numpy as np
import pytest

from pufferlib.environments import bsuite

pytestmark = pytest.mark.slow

LEFT, STAY, RIGHT = range(3)


def summaries(env, action, episodes):
    """The summaries of episodes of one action."""
    env.reset(seed=1)
    found = []
    while len(found) < episodes:
        _, _, terminal, truncation, info = env.step(action)
        if terminal or truncation:
            found.append(info)
            env.reset()
    return found


def test_regret_is_of_the_episode():
    found = summaries(bsuite.make_env("catch"), LEFT, 6)
    assert {info["episode_return"] for info in found} == {-1.0, 1.0}, "some balls are caught"
    for info in found:
        assert info["regret"] == 1 - info["episode_return"]
        assert info["episode_length"] == 9
        assert set(info) == {"regret", "episode_return", "episode_length"}


def test_the_return_without_noise_is_reported_beside_the_noisy_one():
    for info in summaries(bsuite.make_env("catch_noise/19"), STAY, 6):
        assert info["regret"] in (0, 2)
        assert info["episode_return"] != 1 - info["regret"]


def test_measures_that_are_no_sums_are_left_out():
    (info,) = summaries(bsuite.make_env("cartpole/0"), LEFT, 1)
    assert set(info) == {"raw_return", "episode_return", "episode_length"}


def test_the_last_observation_is_shown_as_text():
    env = bsuite.make_env("catch")
    observation, _ = env.reset(seed=1)
    rows = [row.strip(" []").split() for row in env.render().split("\n")]
    assert np.array_equal(np.array(rows, np.float32), observation)
    observation, *_ = env.step(STAY)
    assert env.render().count("1") == observation.sum() == 2, "ball and paddle"
    deep = bsuite.make_env("deep_sea/20")
    deep.reset(seed=1)
    assert "..." not in deep.render(), "large ones are not abridged"
    silent = bsuite.make_env("catch", render_mode=None)
    silent.reset(seed=1)
    assert silent.render() is None


def test_a_variant_has_its_settings_and_prints_nothing(capfd):
    shapes = {
        name: bsuite.make_env(name).single_observation_space.shape
        for name in ("deep_sea", "deep_sea/0", "deep_sea/3")
    }
    assert shapes == {"deep_sea": (10, 10), "deep_sea/0": (10, 10), "deep_sea/3": (16, 16)}
    assert capfd.readouterr().out == ""
