"""dm_control: plain float32 rows, the Suite's limit as a truncation, statistics without noise."""

import numpy as np
import pytest

from pufferlib.environments import dm_control
from pufferlib.exceptions import ConfigError

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def env():
    env = dm_control.make_env()
    yield env
    env.close()


def test_all_numbers_are_one_float32_row(env):
    row, _ = env.reset(seed=1)
    assert (row.shape, row.dtype) == ((8 + 9,), np.float32)
    names = env.emulated.observation_dtype.names
    assert names == ("position", "velocity")


def test_the_suites_limit_truncates_and_is_all_that_ends(env):
    env.reset(seed=1)
    action = env.single_action_space.high
    steps = [env.step(action) for _ in range(1_000)]
    assert [step[2:4] for step in steps] == [(False, False)] * 999 + [(False, True)]
    assert set(steps[-1][4]) == {"episode_return", "episode_length"}
    assert steps[-1][4]["episode_length"] == 1_000
    assert 0 < steps[-1][4]["episode_return"] < 1_000, "a step is worth 0 to 1"


def test_a_seed_decides_this_episode_and_the_next(env):
    starts = []
    for seed in (3, 3, 4):
        starts.append([env.reset(seed=seed)[0].copy(), env.reset()[0].copy()])
    assert np.array_equal(starts[0], starts[1])
    assert (starts[0][0] != starts[0][1]).any()
    assert (starts[0][0] != starts[2][0]).any()


def test_names_are_of_the_suite_locomotion_and_manipulation():
    for name in ("walker-walk", "RodentEscapeBowl", "stack_2_bricks_vision"):
        assert dm_control.env_creator(name).args == (name,)
    with pytest.raises(ConfigError, match="did you mean 'walker-walk'"):
        dm_control.env_creator("walker-wlak")


def test_pictures_among_the_observations_stay_bytes():
    env = dm_control.make_env("reach_site_vision", max_episode_steps=1)
    kinds = {space.dtype.name for space in env.env.observation_space.values()}
    env.close()
    assert kinds == {"float32", "uint8"}
