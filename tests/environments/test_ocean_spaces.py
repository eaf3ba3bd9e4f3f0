"""Spaces: its rules worked out by hand, its stream of numbers, its best player."""

import numpy as np
import pytest

from pufferlib.environments import ocean
from pufferlib.environments.ocean import cells
from pufferlib.environments.ocean.spaces import Spaces
from pufferlib.environments.ocean.splitmix import SplitMix64


def spaces_with(monkeypatch, image, flat):
    """A reset Spaces with the given parts, and its observation."""
    pixels = iter([int((pixel + 1) * 2**23) for pixel in image] + [digit + 1 for digit in flat])
    monkeypatch.setattr(SplitMix64, "below", lambda self, n: next(pixels))
    env = Spaces()
    return env, env.reset(seed=0)[0]


@pytest.mark.smoke
@pytest.mark.parametrize(
    ("image", "flat", "answer"),
    [
        ([0.5] + [0] * 24, [1, 0, 0, 0, 0], (1, 1)),
        ([0.5, -1] + [0] * 23, [1, 0, 0, 0, 0], (0, 1)),
        ([-0.5, 0.75] + [0] * 23, [1, -1, 1, -1, -1], (1, 0)),
        ([0] * 25, [1, -1, 0, 0, 0], (0, 0)),
    ],
)
def test_half_a_point_for_each_sign(monkeypatch, image, flat, answer):
    env, observation = spaces_with(monkeypatch, image, flat)
    assert observation["image"].tolist() == np.reshape(image, (5, 5)).tolist()
    assert observation["flat"].tolist() == flat
    assert env.observation_space.contains(observation)
    for wrong_image in (0, 1):
        for wrong_flat in (0, 1):
            action = {"image": answer[0] ^ wrong_image, "flat": answer[1] ^ wrong_flat}
            _, reward, terminated, truncated, info = env.step(action)
            assert reward == 1 - (wrong_image + wrong_flat) / 2
            assert (terminated, truncated, info) == (True, False, {"score": reward})


def test_numbers_of_a_seed():
    """Fixed for ever: another implementation of these rules must give the same."""
    env = Spaces()
    observation, _ = env.reset(seed=7)
    stream = SplitMix64(7)
    pixels = [stream.below(2**24) / 2**23 - 1 for _ in range(25)]
    assert observation["image"].ravel().tolist() == pixels
    assert observation["flat"].tolist() == [stream.below(3) - 1 for _ in range(5)]
    assert env.reset()[0]["image"][0, 0] == stream.below(2**24) / 2**23 - 1


def test_a_player_that_looks_reaches_the_best_score_and_a_constant_one_does_not():
    env = Spaces()
    env.reset(seed=0)
    answers = []
    for _ in range(200):
        observation, _ = env.reset()
        assert env.observation_space.contains(observation)
        action = {
            "image": int(observation["image"].sum(dtype=np.float64) > 0),
            "flat": int(observation["flat"].sum() > 0),
        }
        answers.append(tuple(action.values()))
        assert env.step(action)[4] == {"score": 1.0}
    image, flat = np.mean(answers, axis=0)
    assert abs(image - 1 / 2) < 0.14, "both answers are equally frequent"  # four deviations
    assert abs(flat - 96 / 243) < 0.14


def test_rendering_shows_signs_and_verdicts(monkeypatch):
    env, _ = spaces_with(monkeypatch, [0.5, -1] + [0] * 23, [1, 0, 0, 0, 0])
    image = [[cells.YELLOW, cells.CYAN] + [cells.GREY] * 3] + [[cells.GREY] * 5] * 4
    flat = [cells.YELLOW] + [cells.GREY] * 4
    assert env.render() == cells.show([*image, flat, [cells.GREY] * 2])
    env.step({"image": 1, "flat": 1})
    assert env.render() == cells.show([*image, flat, [cells.RED, cells.GREEN]])


def test_made_environment_is_rows_of_bytes_and_flat_actions():
    env = ocean.make_spaces()
    assert env.single_observation_space.shape == (108,)
    assert env.single_action_space.nvec.tolist() == [2, 2]
