"""Crafter: what its adapter mends, and what it reports at the end of a game."""

import numpy as np
import pytest

from pufferlib.environments import crafter

pytestmark = pytest.mark.slow

NOOP = 0


@pytest.fixture
def env():
    env = crafter.make_env(area=16, max_episode_steps=5)  # a small world
    yield env
    env.close()


def game_of(env):
    """Crafter's own environment."""
    return env.env.unwrapped.env


def first_images(env, seed, count=2):
    """What `count` games begin with."""
    return [env.reset(seed=seed if game == 0 else None)[0].copy() for game in range(count)]


def test_a_seed_decides_this_world_and_the_next(env):
    one, again, other = (first_images(env, seed) for seed in (1, 1, 2))
    assert np.array_equal(one, again)
    assert (one[0] != other[0]).any()
    assert (one[0] != one[1]).any(), "an unseeded reset begins another world"


def test_creatures_are_drawn_in_the_order_of_their_places(env, monkeypatch):
    env.reset(seed=1)
    game, seen = game_of(env), []
    monkeypatch.setattr(
        type(game), "_balance_chunk", lambda self, chunk, creatures: seen.append(creatures)
    )
    chunk, creatures = max(game._world.chunks.items(), key=lambda item: len(item[1]))
    assert len(creatures) > 1
    for order in (list(creatures), list(creatures)[::-1]):
        game._balance_chunk(chunk, order)
    assert seen[0] == seen[1]
    assert [tuple(creature.pos) for creature in seen[0]] == sorted(
        tuple(creature.pos) for creature in creatures
    )


def test_rendering_leaves_the_game_as_it_is(env):
    env.reset(seed=1)
    game_of(env)._world.daylight = 0.2
    generator = game_of(env)._world.random
    before = generator.get_state()[2]
    assert env.render().shape == (512, 512, 3)
    assert generator.get_state()[2] == before
    game_of(env).render()
    assert generator.get_state()[2] != before, "Crafter's own would not"


def test_the_limit_truncates_and_the_last_step_has_the_summary(env):
    env.reset(seed=1)
    game_of(env)._player.achievements["collect_wood"] = 3
    steps = [env.step(NOOP) for _ in range(5)]
    assert [step[2:4] for step in steps] == [(False, False)] * 4 + [(False, True)]
    assert [bool(step[4]) for step in steps] == [False] * 4 + [True]
    info = steps[-1][4]
    assert (info["achievements"], info["episode_length"]) == (1, 5)
    unlocked = {key for key in info if key.startswith("achievement/")}
    assert len(unlocked) == 22
    assert {key for key in unlocked if info[key]} == {"achievement/collect_wood"}
    assert info["episode_return"] == 1.0


def test_death_is_terminal(env):
    env.reset(seed=1)
    game_of(env)._player.health = 0
    assert env.step(NOOP)[2:4] == (True, False)


def test_a_task_without_rewards_counts_achievements_all_the_same():
    env = crafter.make_env("CrafterNoReward-v1", area=16, max_episode_steps=1)
    env.reset(seed=1)
    game_of(env)._player.achievements["collect_wood"] = 1
    *_, info = env.step(NOOP)
    env.close()
    assert (info["episode_return"], info["achievements"]) == (0.0, 1.0)
