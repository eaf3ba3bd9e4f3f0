"""Multi-particle environments: roles with different spaces, options of one scenario."""

import numpy as np
import pytest

pytest.importorskip("mpe2")

from pufferlib.environments import mpe

STAY = 0


def test_hunters_and_prey_get_one_space():
    env = mpe.make_env("simple_tag")
    observations, _ = env.reset(seed=1)
    env.close()
    assert env.possible_agents == ["adversary_0", "adversary_1", "adversary_2", "agent_0"]
    assert env.single_observation_space.shape == (16,)
    assert (observations["agent_0"][14:] == 0).all(), "prey sees two numbers less"
    assert (observations["adversary_0"] != 0).sum() > 10


def test_an_action_that_a_role_does_not_have_is_none():
    """The speaker chooses among three words, the listener among five moves."""
    results = []
    for word in (0, 4, 1):
        env = mpe.make_env("simple_speaker_listener")
        env.reset(seed=1)
        observations, *_ = env.step({"speaker_0": word, "listener_0": STAY})
        results.append(observations["listener_0"])
        env.close()
    assert (results[0] == results[1]).all()
    assert (results[0] != results[2]).any()


def test_options_of_a_scenario_reach_it():
    env = mpe.make_env("simple_spread", N=2, max_cycles=4, continuous_actions=True)
    env.reset(seed=1)
    assert env.possible_agents == ["agent_0", "agent_1"]
    assert env.single_action_space.shape == (5,)
    for step in range(1, 5):
        *_, truncations, infos = env.step(np.zeros((2, 5), np.float32))
        assert truncations == {"agent_0": step == 4, "agent_1": step == 4}
    assert infos["agent_1"]["episode_length"] == 4
    env.close()
