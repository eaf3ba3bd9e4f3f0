"""Multiagent: its rules worked out by hand, and what crossed agents do to its scores."""

import itertools

import numpy as np
import pytest
from pettingzoo.test import parallel_api_test

from pufferlib.environments import ocean
from pufferlib.environments.ocean import cells
from pufferlib.environments.ocean.multiagent import Multiagent
from pufferlib.exceptions import ConfigError


def draw(seed, episodes):
    """The roles of both agents over some episodes."""
    env = Multiagent(roles="drawn")
    env.reset(seed=seed)
    return [tuple(float(o[0]) for o in env.reset()[0].values()) for _ in range(episodes)]


@pytest.mark.smoke
@pytest.mark.parametrize("actions", [(0, 0), (0, 1), (1, 0), (1, 1)])
def test_each_agent_is_paid_for_its_own_action(actions):
    env = Multiagent()
    observations, infos = env.reset(seed=0)
    assert {agent: o.tolist() for agent, o in observations.items()} == {1: [0], 2: [1]}
    assert observations[1].dtype == np.float32
    assert infos == {1: {}, 2: {}}
    _, rewards, terminals, truncations, infos = env.step({1: actions[0], 2: actions[1]})
    expected = {1: float(actions[0] == 0), 2: float(actions[1] == 1)}
    assert rewards == expected
    assert terminals == {1: True, 2: True}
    assert truncations == {1: False, 2: False}
    assert infos == {agent: {"score": reward} for agent, reward in expected.items()}
    assert env.agents == []


def test_drawn_roles_are_independent_and_their_actions_right():
    env = Multiagent(roles="drawn")
    env.reset(seed=0)
    seen = set()
    for _ in range(50):
        observations, _ = env.reset()
        roles = {agent: int(o[0]) for agent, o in observations.items()}
        seen.add(tuple(roles.values()))
        assert env.step(roles)[1] == {1: 1.0, 2: 1.0}
    assert seen == {(0, 0), (0, 1), (1, 0), (1, 1)}


def test_roles_of_a_seed():
    """Fixed for ever: another implementation of these rules must give the same."""
    assert draw(7, 4) == [(1, 1), (0, 0), (0, 0), (0, 0)]
    assert draw(5, 20) == draw(5, 20) != draw(6, 20)
    assert len(Multiagent(roles="drawn").reset()[0]) == 2  # without any seed


def mean_score(roles, cross_observations, cross_actions, policy):
    """Over all equally frequent roles, for agents that act on and through crossed wires."""
    scores = []
    for own in roles:
        seen = own[::-1] if cross_observations else own
        actions = [policy[role] for role in seen]
        if cross_actions:
            actions = actions[::-1]
        env = Multiagent()
        env.reset()
        env._roles = dict(zip((1, 2), own, strict=True))
        rewards = env.step(dict(zip((1, 2), actions, strict=True)))[1]
        scores.append(np.mean(list(rewards.values())))
    return np.mean(scores)


def test_drawn_roles_show_every_crossing_that_fixed_ones_do_not():
    """The best mean score over all policies, if one wire of the two agents is crossed."""
    policies = list(itertools.product((0, 1), repeat=2))
    fixed, drawn = [(0, 1)], list(itertools.product((0, 1), repeat=2))

    def best(roles, *crossed):
        return max(mean_score(roles, *crossed, policy) for policy in policies)

    assert best(fixed, False, False) == best(drawn, False, False) == 1
    assert best(fixed, True, False) == 1, "an agent can learn from the other's fixed role"
    assert best(drawn, True, False) == best(drawn, False, True) == 0.5


def test_pettingzoo_accepts_it():
    parallel_api_test(Multiagent(roles="drawn"), num_cycles=20)


def test_other_roles_are_refused():
    with pytest.raises(ConfigError, match="roles: expected 'fixed' or 'drawn', got 'free'"):
        Multiagent(roles="free")


def test_rendering_shows_roles_and_verdicts():
    env = Multiagent()
    env.reset()
    assert env.render() == cells.show([[cells.CYAN, cells.GREY], [cells.YELLOW, cells.GREY]])
    env.step({1: 0, 2: 0})
    assert env.render() == cells.show([[cells.CYAN, cells.GREEN], [cells.YELLOW, cells.RED]])


def test_made_environment_has_a_row_and_a_score_for_each_agent():
    env = ocean.make_multiagent()
    observations, _ = env.reset(seed=0)
    assert env.num_agents == 2
    assert {agent: o.tolist() for agent, o in observations.items()} == {1: [0], 2: [1]}
    _, rewards, _, _, infos = env.step({1: 0, 2: 0})
    assert rewards == {1: 1.0, 2: 0.0}
    assert [infos[agent]["score"] for agent in (1, 2)] == [1.0, 0.0]
