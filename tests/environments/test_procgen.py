"""Procgen: many games at once, seeds, ends, and states."""

import copy

import numpy as np
import pytest

from pufferlib.environments import procgen

pytestmark = pytest.mark.slow


def make(name="starpilot", **options):
    return procgen.make_env(name, **{"num_games": 3} | options)


def play(env, seed=None, steps=100, actions_seed=0):
    """Random play: the observations, rewards and ends of all steps, and the infos with ends."""
    actions = np.random.default_rng(actions_seed).integers(15, size=(steps, env.num_agents))
    if seed is not None:
        env.reset(seed)
    seen, infos = [], []
    for row in actions:
        infos += env.step(row)
        seen.append((env.observations.copy(), env.rewards.copy(), env.terminals.copy()))
    return [np.stack(column) for column in zip(*seen, strict=True)], infos


def same(one, other):
    return all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))


def test_a_seed_decides_every_game_and_the_resets_that_follow():
    env = make()
    (first, _), (again, _), (other, _) = (play(env, seed, steps=20) for seed in (1, 1, 2))
    assert same(first, again)
    assert not same(first, other)
    assert (first[0][0, 0] != first[0][0, 1]).any(), "its games differ"
    beginnings = []
    for seed in (1, None, 1, None):
        env.reset(seed)
        beginnings.append(env.observations.copy())
    env.close()
    assert same(beginnings[:2], beginnings[2:])
    assert (beginnings[0] != beginnings[1]).any(), "an unseeded reset begins other games"


def test_an_end_brings_the_next_level_and_the_episodes_summary():
    env = make()
    (_, rewards, terminals), infos = play(env, seed=1, steps=200)
    env.close()
    steps, agents = terminals.nonzero()
    assert len(infos) == len(steps) > 0
    first_of = {}
    for step, agent, info in zip(steps, agents, infos, strict=True):
        begin = first_of.get(agent, 0)
        assert info["episode_length"] == step + 1 - begin
        assert info["episode_return"] == rewards[begin : step + 1, agent].sum()
        assert info["solved"] == 0, "nobody finishes Starpilot by chance"
        first_of[agent] = step + 1


def test_a_solved_level_is_reported():
    env = make("jumper", num_games=8)
    _, infos = play(env, seed=1, steps=200)
    env.close()
    outcomes = {(info["solved"], info["episode_return"]) for info in infos}
    assert (1.0, 10.0) in outcomes


def test_few_levels_repeat():
    env = make(num_games=6, num_levels=1, start_level=5)
    env.reset(seed=1)
    assert (env.observations == env.observations[0]).all()
    env.close()


def test_exploration_has_its_own_level():
    env = make("coinrun", distribution_mode="exploration")
    env.reset(seed=1)
    assert (env.observations == env.observations[0]).all()
    env.close()


def test_a_state_goes_on_in_another_environment():
    env, other = make(), make()
    play(env, seed=1, steps=30)
    state = copy.deepcopy(env.get_state())
    expected, infos = play(env, actions_seed=1)
    other.set_state(state)
    actual, infos_of_other = play(other, actions_seed=1)
    assert same(expected, actual)
    assert infos == infos_of_other
    assert infos
    env.reset()
    other.reset()
    assert (env.observations == other.observations).all()
    env.close()
    other.close()


def test_it_renders_larger_than_it_observes_where_asked():
    for mode, shape in (("rgb_array", (512, 512, 3)), (None, None)):
        env = make(num_games=1, render_mode=mode)
        env.reset(seed=1)
        assert getattr(env.render(), "shape", None) == shape
        env.close()
