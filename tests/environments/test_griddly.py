"""Griddly: description files, outcomes, limits and seeds."""

import numpy as np
import pytest

from pufferlib.environments import griddly
from pufferlib.exceptions import ConfigError

pytestmark = pytest.mark.slow

LEFT, UP, RIGHT, DOWN = 1, 2, 3, 4

CORRIDOR = """
Version: "0.1"
Environment:
  Name: Corridor
  Player:
    AvatarObject: hero
  Termination:
    Win:
      - eq: [goal:count, 0]
    Lose:
      - eq: [pit:count, 0]
  Levels:
    - |
      P.HG
    - |
      P..HG
Actions:
  - Name: move
    Behaviours:
      - Src: {Object: hero, Commands: [{mov: _dest}]}
        Dst: {Object: _empty}
      - Src: {Object: hero, Commands: [{mov: _dest}, {reward: 2}]}
        Dst: {Object: [goal, pit], Commands: [{remove: true}]}
Objects:
  - Name: hero
    MapCharacter: H
  - Name: goal
    MapCharacter: G
  - Name: pit
    MapCharacter: P
"""


@pytest.fixture
def corridor(tmp_path):
    """A game of our own: right is the goal, two to the left a pit."""
    path = tmp_path / "corridor.yaml"
    path.write_text(CORRIDOR)
    return str(path)


def test_a_description_of_ones_own(corridor):
    env = griddly.env_creator(corridor)()
    observation, _ = env.reset(seed=1)
    assert (observation.shape, observation.dtype) == ((3, 4, 1), np.uint8)
    assert sorted(map(tuple, np.argwhere(observation)[:, :2].tolist())) == [(0, 3), (1, 2), (2, 0)]
    assert env.single_action_space.n == 5
    *_, info = env.step(RIGHT)
    assert info == {"won": 1.0, "episode_return": 2.0, "episode_length": 1}
    env.close()


def test_a_game_can_be_lost(corridor):
    env = griddly.make_env(corridor)
    env.reset(seed=1)
    steps = [env.step(LEFT)[2:] for _ in range(2)]
    env.close()
    assert [step[:2] for step in steps] == [(False, False), (True, False)]
    assert steps[1][2]["won"] == 0


def test_the_limit_truncates_a_game_that_nobody_has_won(corridor):
    env = griddly.make_env(corridor, max_episode_steps=3)
    env.reset(seed=1)
    steps = [env.step(UP)[2:] for _ in range(3)]
    env.close()
    assert [step[:2] for step in steps] == [(False, False)] * 2 + [(False, True)]
    assert [step[2].get("won") for step in steps] == [None, None, 0]


def test_other_levels_may_have_other_sizes(corridor):
    env = griddly.make_env(corridor, level=1)
    assert env.single_observation_space.shape == (3, 5, 1)
    env.close()
    with pytest.raises(ConfigError, match=r"a level 2, got .* for 1 with levels 0 to 1"):
        griddly.make_env(corridor, level=2)


def test_a_missing_file_is_named():
    with pytest.raises(ConfigError, match=r"description file, got 'nowhere\.yaml'"):
        griddly.env_creator("nowhere.yaml")


def test_a_seed_decides_what_chance_does():
    env = griddly.make_env("random_butterflies")

    def butterflies(seed):
        env.reset(seed=seed)
        return np.stack([env.step(0)[0].copy() for _ in range(20)])

    one, again, other = (butterflies(seed) for seed in (1, 1, 2))
    env.close()
    assert np.array_equal(one, again)
    assert (one != other).any()
