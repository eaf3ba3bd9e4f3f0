"""What `benchmarks/environments.py` steps, and how its table reads."""

import itertools

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete, MultiDiscrete

from pufferlib.emulation import GymnasiumPufferEnv
from pufferlib.environments import ROWS, classic_control
from pufferlib.postprocess import EpisodeStats


@pytest.fixture
def script(load):
    return load("environments")


def test_alone_is_what_lies_below_the_last_wrapper_of_ours(script):
    env = classic_control.make_env()
    assert isinstance(script.library_env(env), gymnasium.wrappers.TimeLimit)
    above = gymnasium.wrappers.ClipReward(EpisodeStats(env.env.env), -1, 1)
    assert isinstance(
        script.library_env(GymnasiumPufferEnv(env=above)), gymnasium.wrappers.TimeLimit
    )


def test_resets_are_part_of_a_step(script, monkeypatch):
    class ThreeSteps(gymnasium.Env):
        observation_space, action_space = Discrete(2), Discrete(2)
        resets = 0

        def reset(self, *, seed=None, options=None):
            ThreeSteps.resets += 1
            self.steps = 0
            return 0, {}

        def step(self, action):
            self.steps += 1
            return 0, 0.0, self.steps == 3, False, {}

    monkeypatch.setattr(script, "timed", lambda step, *arguments: (step(*arguments), 1))
    spent = list(itertools.islice(script.single_steps(ThreeSteps()), 7))
    assert spent == [1, 1, 2, 1, 1, 2, 1]
    assert ThreeSteps.resets == 3


def test_the_speed_is_of_what_comes_after_the_warm_up(script):
    spent = itertools.chain([10**9] * script.WARM_UP, itertools.repeat(10**6))
    assert script.speed(spent, seconds=0.01) == 1_000


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        pytest.param("microrts", marks=pytest.mark.bench),
        *("open_spiel", "pokemon_red", "procgen"),
    ],
)
def test_libraries_of_other_interfaces_play_alone(script, name, tmp_path, monkeypatch):
    if not ROWS[name].installed:
        pytest.skip("; ".join(ROWS[name].remedies))
    rom = tmp_path / "game.gb"
    rom.write_bytes(script.cartridge())
    monkeypatch.setenv("POKEMON_RED_ROM", str(rom))
    spent = itertools.islice(script.alone_steps(name, env=None), 50)
    assert min(spent) > 0


def test_a_row_of_the_table(script):
    env = classic_control.make_env()
    result = {"name": "cartpole", "alone": 50_000.4, "pufferlib": 40_000} | script.shown(env)
    assert script.cells(result) == [
        "cartpole", "1", "4 float32", "2 choices", "50,000", "40,000", "80 %"
    ]  # fmt: skip
    assert script.cells({"name": "x", "pufferlib": 9.96})[-3:] == ["–", "10.0", "–"]
    assert script.described(MultiDiscrete([2, 11])) == "2 times 2 to 11 choices"
    assert script.described(MultiDiscrete([3, 3])) == "2 times 3 choices"
    assert script.described(Box(0, 1, (2, 3), np.float64)) == "2 × 3 float64"
