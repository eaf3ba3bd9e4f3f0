"""MiniHack: seeds that decide levels, a limit that only truncates, what is told, the policy."""

import importlib.util
import re
import warnings

import numpy as np
import pytest
import torch

from pufferlib.environments import minihack
from pufferlib.exceptions import ConfigError, EnvironmentSetupError

pytestmark = pytest.mark.slow

NORTH, SOUTH_EAST = 0, 5


@pytest.fixture
def room():
    """A room of 5 x 5 squares: the hero in one corner, the stairs in the opposite one."""
    env = minihack.make_env("MiniHack-Room-5x5-v0", max_episode_steps=6)
    yield env
    env.close()


def screens(env, seed, games=2):
    """What the first games begin with, without colours."""
    rows = []
    for game in range(games):
        env.reset(seed=seed if game == 0 else None)
        rows.append(re.sub(r"\033\[[0-9;]*m", "", env.render()))
    return rows


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("MiniHack-River-v0", id="level generator"),
        pytest.param("MiniHack-Corridor-R3-v0", id="level file"),
        pytest.param("MiniHack-MultiRoom-N4-v0", id="MiniGrid"),
    ],
)
def test_a_seed_decides_this_level_and_the_next(name):
    one, again, other = (minihack.make_env(name) for _ in range(3))
    assert screens(one, 5) == screens(again, 5) == screens(one, 5)
    assert len({*screens(one, 5), *screens(other, 6)}) == 4, "four levels"
    for env in (one, again, other):
        env.close()


def test_the_limit_truncates_and_keeps_the_position(room):
    room.reset(seed=1)
    ends = [room.step(NORTH)[1:] for _ in range(6)]
    assert [end[1:3] for end in ends] == [(False, False)] * 5 + [(False, True)]
    assert "Dlvl:1" in re.sub(r"\033\[[0-9;]*m", "", room.render()), "not the end of the game"
    assert ends[-1][3] == {
        "solved": 0,
        "died": 0,
        "turns": 1,  # walls cost no time
        "episode_return": pytest.approx(-0.06),  # a hundredth for every step without a turn
        "episode_length": 6,
    }


def test_reaching_the_stairs_solves_the_task(room):
    room.reset(seed=1)
    *_, last = [room.step(SOUTH_EAST)[1:] for _ in range(4)]
    assert last[:3] == (1.0, True, False)
    assert last[3] == {
        "solved": 1,
        "died": 0,
        "turns": last[3]["turns"],
        "episode_return": 1.0,
        "episode_length": 4,
    }
    assert last[3]["turns"] > 1


def test_a_task_keeps_its_own_limit():
    env = minihack.make_env("MiniHack-Room-5x5-v0")
    env.reset(seed=0)
    truncations = [env.step(NORTH)[3] for _ in range(100)]
    assert np.flatnonzero(truncations).tolist() == [99]
    env.close()


@pytest.mark.parametrize("name", ["Boxoban-Hard-v0", "LavaCrossingS9N1-v0", "Skill-Custom-v0"])
def test_tasks_that_cannot_be_seeded_or_made_are_not_offered(name):
    with pytest.raises(ConfigError, match="unknown minihack task"):
        minihack.env_creator(f"MiniHack-{name}")


def test_tasks_of_minigrids_rooms_ask_for_it(monkeypatch):
    find_spec = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == "minigrid" else find_spec(name)
    )
    with pytest.raises(EnvironmentSetupError, match="puffer install minigrid"):
        minihack.make_env("MiniHack-MultiRoom-N2-v0")


def test_other_observations_can_be_chosen():
    env = minihack.make_env(observation_keys=("glyphs_crop", "blstats"))
    assert set(env.emulated.observation_dtype.names) == {"glyphs_crop", "blstats"}
    env.close()


@pytest.mark.parametrize(
    ("name", "actions", "gaits"),
    [
        ("MiniHack-Room-5x5-v0", 8, 1),
        ("MiniHack-LavaCross-Restricted-v0", 16, 1),
        ("MiniHack-Eat-v0", 85, 2),
    ],
)
def test_the_policy_scores_steps_and_runs_where_there_are_any(name, actions, gaits):
    env = minihack.make_env(name)
    names = [action.name for action in env.env.unwrapped.actions]
    steps = ["N", "E", "S", "W", "NE", "SE", "SW", "NW"]
    assert len(names) == actions
    assert names[:8] == steps
    policy = minihack.Policy(env)
    surroundings = torch.randn(1, policy.near.channels, policy.near.crop, policy.near.crop)
    scores = policy.direction_head(torch.randn(1, policy.hidden_size), surroundings)[0]
    assert scores.nonzero().flatten().tolist() == list(range(8 * gaits))
    env.close()


def test_making_one_is_silent():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        minihack.make_env("MiniHack-MultiRoom-N4-v0").close()
