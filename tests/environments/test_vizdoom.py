"""ViZDoom: what a step is, how time runs out, and what is left on the disk."""

import tempfile

import numpy as np
import pytest

from pufferlib.environments import vizdoom
from pufferlib.exceptions import ConfigError

pytestmark = pytest.mark.slow

WAIT = 0


@pytest.fixture
def temporary(tmp_path, monkeypatch):
    """A temporary directory of its own, and another to work in."""
    (tmp_path / "work").mkdir()
    (tmp_path / "games").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "games"))
    return tmp_path


def test_time_that_is_up_truncates_and_keeps_the_view():
    env = vizdoom.make_env("VizdoomBasic-v1", frame_skip=10)
    env.reset(seed=1)
    for step in range(1, 31):
        observation, _, terminal, truncation, info = env.step(WAIT)
        assert (terminal, truncation) == (False, step == 30)
    assert observation[-1].std() > 0, "not the blank screen after the end"
    assert info == {"episode_return": -300.0, "episode_length": 30}
    env.close()


def test_an_observation_is_a_stack_of_small_grey_frames():
    env = vizdoom.make_env(framestack=3)
    env.reset(seed=1)
    before, after = (env.step(1)[0].copy() for _ in range(2))
    assert (after.shape, after.dtype) == ((3, 60, 80), np.uint8)
    assert (after[:2] == before[1:]).all(), "each step pushes one frame in"
    assert (after[2] != after[1]).any()
    env.close()


def test_a_game_leaves_nothing_behind(temporary):
    env = vizdoom.make_env()
    env.reset(seed=1)
    env.step(WAIT)
    assert len(list((temporary / "games").iterdir())) == 1
    env.close()
    env.close()
    assert list((temporary / "games").iterdir()) == []
    assert list((temporary / "work").iterdir()) == []


def test_levels_of_the_game_that_is_sold_are_unknown():
    with pytest.raises(ConfigError, match="did you mean 'VizdoomFreedoom1E1M1-S1-v0'"):
        vizdoom.env_creator("VizdoomFreedoom1E1M1-S1-v")
    with pytest.raises(ConfigError, match="unknown vizdoom task 'VizdoomDoomE1M1-S1-v0'"):
        vizdoom.env_creator("VizdoomDoomE1M1-S1-v0")
