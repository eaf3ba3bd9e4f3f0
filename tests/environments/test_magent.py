"""MAgent: many agents, how they die, and views of different sizes."""

import numpy as np
import pytest

from pufferlib.environments import magent

pytestmark = pytest.mark.slow


def test_the_map_decides_how_many_fight():
    counts = {}
    for size in (12, 45):
        env = magent.make_env("battle", map_size=size)
        counts[size] = (env.num_agents, env.possible_agents[0], env.possible_agents[-1])
        env.close()
    assert counts == {12: (4, "red_0", "blue_1"), 45: (162, "red_0", "blue_80")}


def test_who_dies_leaves_and_the_others_fight_on():
    env = magent.make_env("combined_arms", map_size=16, max_cycles=200)
    env.reset(seed=1)
    rng, ends, step = np.random.default_rng(0), {}, 0
    while env.agents:
        step += 1
        *_, terminals, _, infos = env.step(rng.integers(env.single_action_space.n, size=12))
        for agent, info in infos.items():
            if info:
                ends[agent] = (step, terminals[agent])
                assert info["episode_length"] == step
    env.close()
    assert set(ends) == set(env.possible_agents)
    died = [end for end in ends.values() if end != (200, False)]
    assert 0 < len(died) < 12
    assert all(terminal for _, terminal in died)


def test_tigers_and_deer_get_one_space():
    env = magent.make_env("tiger_deer", map_size=14)
    observations, _ = env.reset(seed=1)
    assert env.single_observation_space.shape == (9, 9, 5)
    assert (observations["deer_0"][3:] == 0).all(), "deer see three squares each way"
    assert env.single_action_space.n == 9
    env.close()
