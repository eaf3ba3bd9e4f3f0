"""The greedy player of Snake; by hand: that a trained policy beats it."""

import importlib
import sys
from pathlib import Path
from types import SimpleNamespace

import needs
import numpy as np
import pytest

from pufferlib import cli

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
snake = importlib.import_module("snake")
sys.path.pop(0)

LEFT, STRAIGHT, RIGHT = range(3)
OPTIONS = SimpleNamespace(agents=512, episodes=4, seed=0)


@pytest.mark.parametrize(
    ("food", "walls", "action"),
    [
        ([], [], STRAIGHT),
        ([(0, 2)], [], STRAIGHT),
        ([(0, 1), (2, 4)], [], RIGHT),
        ([(3, 0)], [], LEFT),
        ([(0, 2)], [(1, 2)], LEFT),
        ([(0, 2), (2, 4)], [(1, 2), (2, 1)], RIGHT),
        ([], [(1, 2), (2, 1)], RIGHT),
    ],
)
def test_the_greedy_player_goes_to_the_nearest_food_and_bites_nothing(food, walls, action):
    window = np.zeros((1, 5, 5), np.int8)
    window[0, 2, 2] = -2
    for cell in food:
        window[0, *cell] = 1
    for cell in walls:
        window[0, *cell] = -1
    assert snake.greedy(window).tolist() == [action]


@pytest.mark.bench
@pytest.mark.timeout(1_800)
@needs.compiled_core
@pytest.mark.parametrize("seed", [1, 2, 3, 4, 5])
def test_a_trained_policy_beats_the_greedy_player(seed, tmp_path):
    options = ["--train.data-dir", str(tmp_path), "--train.seed", str(seed)]
    assert cli.main(["train", "snake_native", *options]) == 0
    policy = snake.load(str(max(tmp_path.rglob("*.pt"))), seed)
    mine = np.mean(snake.scores(policy, snake.greedy, OPTIONS)[0])
    its = np.mean(snake.scores(snake.greedy, policy, OPTIONS)[0])
    assert mine > 1.3 * its
