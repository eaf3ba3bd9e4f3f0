"""Emulated parallel PettingZoo environments: agents that come and go, alone and in a vecenv.

Tests named `test_oNN_…` answer public reports about other libraries, by their number there.
"""

import copy
import pickle

import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete, Tuple
from pettingzoo.test import parallel_api_test
from toys import COMINGS_AND_GOINGS, PAIR, Lives, emulate, pair_game, vectorize

import pufferlib.vector
from pufferlib.buffers import Buffers
from pufferlib.emulation import PettingZooPufferEnv
from pufferlib.exceptions import APIUsageError, InvalidAgentError, SpaceError

BACKENDS = ["serial", "multiprocessing"]
ABC = {"a": 0, "b": 1, "c": 2}


def bind(env):
    """The poisoned buffers of one emulated environment, and what steps them."""
    buffers = Buffers.allocate(
        env.single_observation_space, env.single_action_space, env.num_agents
    )
    rows = env.bind(buffers)
    buffers.poison()
    return buffers, rows


def table(buffers):
    """`(observation, reward, terminal, truncation, mask)` of each row."""
    columns = (buffers.rewards, buffers.terminals, buffers.truncations, buffers.masks)
    numbers = zip(*(column.astype(float).tolist() for column in columns), strict=True)
    return [(row.tolist(), *rest) for row, rest in zip(buffers.observations, numbers, strict=True)]


def play(script, steps, **options):
    """Tables after the reset and each step over buffers that are poisoned before every call."""
    buffers, rows = bind(emulate(Lives(script, **options)))
    rows.reset(seed=0)
    tables = [table(buffers)]
    for _ in range(steps):
        buffers.poison()
        buffers.actions[:] = np.arange(len(buffers.actions))
        rows.step(buffers.actions)
        tables.append(table(buffers))
    return tables, rows.env.env


ABSENT = ([0, 0], 0, 0, 0, 0)


# -- row kinds -----------------------------------------------------------------------------------


@pytest.mark.smoke
def test_o16_agents_die_and_spawn_in_mid_episode():
    tables, env = play(COMINGS_AND_GOINGS, steps=5)
    assert tables == [
        # a, b, c: (observation, reward, terminal, truncation, mask)
        [([10, 0], 0, 0, 0, 1), ([11, 0], 0, 0, 0, 1), ABSENT],  # reset: c is not there yet
        [([10, 1], 1, 0, 0, 1), ([11, 1], 1, 0, 0, 1), ABSENT],
        [([10, 2], 2, 0, 0, 1), ([11, 2], 2, 1, 0, 1), ABSENT],  # the last row of b
        [([10, 3], 3, 0, 0, 1), ABSENT, ([12, 3], 0, 0, 0, 1)],  # c spawns
        [([10, 4], 4, 1, 0, 1), ABSENT, ([12, 4], 4, 1, 0, 1)],  # the last row of all
        [([10, 0], 0, 0, 0, 1), ([11, 0], 0, 0, 0, 1), ABSENT],  # auto-reset
    ]
    # The environment was given the living agents' actions only, and none for the auto-reset.
    assert env.received == [{"a": 0, "b": 1}, {"a": 0, "b": 1}, {"a": 0}, {"a": 0, "c": 2}]


@pytest.mark.parametrize("backend", BACKENDS)
def test_o16_in_a_vecenv(backend):
    with vectorize(lambda: Lives(COMINGS_AND_GOINGS), 2, backend, copy=True) as vecenv:
        assert (vecenv.num_envs, vecenv.num_agents) == (2, 6)
        vecenv.async_reset(seed=0)
        history = []
        for _ in range(7):
            observations, rewards, terminals, truncations, _, env_id, masks = vecenv.recv()
            assert env_id.tolist() == list(range(6))
            assert not truncations.any()
            assert not observations[~masks].any()
            assert not rewards[~masks].any()
            history.append([x.reshape(2, 3) for x in (masks, terminals, rewards)])
            vecenv.send(np.array([0, 1, 2, 3, 2, 1]))
        received = vecenv.get_attr("received")
    for masks, terminals, rewards in history:
        for column in (masks, terminals, rewards):
            np.testing.assert_array_equal(column[0], column[1])
    assert [masks[0].astype(int).tolist() for masks, _, _ in history] == [
        [1, 1, 0], [1, 1, 0], [1, 1, 0], [1, 0, 1], [1, 0, 1], [1, 1, 0], [1, 1, 0],
    ]  # fmt: skip
    assert [terminals[0].astype(int).tolist() for _, terminals, _ in history] == [
        [0, 0, 0], [0, 0, 0], [0, 1, 0], [0, 0, 0], [1, 0, 1], [0, 0, 0], [0, 0, 0],
    ]  # fmt: skip
    assert [rewards[0].tolist() for _, _, rewards in history] == [
        [0, 0, 0], [1, 1, 0], [2, 2, 0], [3, 0, 0], [4, 0, 4], [0, 0, 0], [1, 1, 0],
    ]  # fmt: skip
    assert received[0][:4] == [{"a": 0, "b": 1}, {"a": 0, "b": 1}, {"a": 0}, {"a": 0, "c": 2}]
    assert received[1][:4] == [{"a": 3, "b": 2}, {"a": 3, "b": 2}, {"a": 3}, {"a": 3, "c": 1}]


def test_o16_an_agent_that_returns_begins_a_new_life():
    script = [("ab", "", ""), ("a", "b", ""), ("a", "", ""), ("ab", "", ""), ("", "a", "b")]
    tables, _ = play(script, steps=4, possible="ab")
    assert [rows[1] for rows in tables] == [
        ([11, 0], 0, 0, 0, 1),
        ([11, 1], 1, 1, 0, 1),
        ABSENT,
        ([11, 3], 0, 0, 0, 1),
        ([11, 4], 4, 0, 1, 1),
    ]


def test_o16_a_death_without_a_flag_or_a_last_observation_is_one():
    for truncated, flags in (("", (1, 0)), ("b", (0, 1))):
        script = [("ab", "", ""), ("a", "", truncated), ("a", "", "")]
        tables, _ = play(script, 2, possible="ab", last_observation=False)
        last = ([0, 0], 0, *flags, 1)
        assert [rows[1] for rows in tables] == [([11, 0], 0, 0, 0, 1), last, ABSENT]


def test_o16_an_ended_agent_that_stays_listed_is_absent_but_still_gets_actions():
    script = [("ab", "", ""), ("ab", "a", ""), ("ab", "a", ""), ("ab", "ab", "")]
    tables, env = play(script, steps=4, possible="ab")
    assert [rows[0] for rows in tables[1:4]] == [([10, 1], 1, 1, 0, 1), ABSENT, ABSENT]
    assert tables[3][1] == ([11, 3], 3, 1, 0, 1)
    assert tables[4] == [([10, 0], 0, 0, 0, 1), ([11, 0], 0, 0, 0, 1)]
    assert env.received == [{"a": 0, "b": 1}] * 3


@pytest.mark.parametrize("empties", [False, True])
@pytest.mark.parametrize(("truncates", "flags"), [(False, (1, 0)), (True, (0, 1))])
def test_o17_an_episode_ends_by_either_flag(truncates, flags, empties):
    game = pair_game(length=2, truncates=truncates, empties=empties)
    tables, _ = play(game.script, steps=4, possible="ab")
    first = [([10, 0], 0, 0, 0, 1), ([11, 0], 0, 0, 0, 1)]
    assert tables[0] == first
    assert tables[2] == [([10, 2], 2, *flags, 1), ([11, 2], 2, *flags, 1)]
    assert tables[3] == first
    assert tables[4] == tables[1]


@pytest.mark.parametrize("listed", ["", "ab"])
def test_o17_half_terminated_and_half_truncated(listed):
    tables, _ = play([("ab", "", ""), (listed, "a", "b")], steps=2, possible="ab")
    assert tables[1] == [([10, 1], 1, 1, 0, 1), ([11, 1], 1, 0, 1, 1)]
    assert tables[2] == tables[0]


@pytest.mark.parametrize("truncates", [False, True])
@pytest.mark.parametrize("backend", BACKENDS)
def test_o17_in_a_vecenv(truncates, backend):
    with vectorize(lambda: pair_game(3, truncates), 2, backend) as vecenv:
        vecenv.reset()
        ends, clocks = [], []
        for _ in range(8):
            _, _, terminals, truncations, _ = vecenv.step([0, 1, 2, 3])
            ends.append((terminals.tolist(), truncations.tolist()))
            clocks.append(vecenv.get_attr("clock"))
    no, yes = [False] * 4, [True] * 4
    last = (no, yes) if truncates else (yes, no)
    assert ends == [(no, no), (no, no), last, (no, no), (no, no), (no, no), last, (no, no)]
    assert clocks == [[t, t] for t in (1, 2, 3, 0, 1, 2, 3, 0)]


def test_rows_are_in_the_order_of_possible_agents():
    script = [("bac", "", ""), ("cb", "a", "")]
    tables, env = play(script, steps=1, possible="cab")
    assert [[row[0] for row in rows] for rows in tables] == [
        [[10, 0], [11, 0], [12, 0]],  # c, a, b
        [[10, 1], [11, 1], [12, 1]],
    ]
    assert [row[2] for row in tables[1]] == [0, 1, 0]
    assert env.received == [{"c": 0, "a": 1, "b": 2}]


def test_an_episode_without_agents_is_over_at_once():
    tables, env = play([("", "", "")], steps=2)
    assert tables == [[ABSENT] * 3] * 3
    assert env.received == []


# -- one environment alone -----------------------------------------------------------------------


def test_every_call_has_an_entry_for_every_possible_agent():
    env = emulate(Lives(COMINGS_AND_GOINGS))
    assert env.masks == {"a": False, "b": False, "c": False}
    assert env.agents == []
    observations, infos = env.reset(seed=1)
    assert {agent: row.tolist() for agent, row in observations.items()} == {
        "a": [10, 0],
        "b": [11, 0],
        "c": [0, 0],
    }
    assert infos == {"a": {}, "b": {}, "c": {}}
    assert env.masks == {"a": True, "b": True, "c": False}
    assert env.agents == ["a", "b", "c"]
    env.step(ABC)
    observations, rewards, terminals, truncations, infos = env.step(ABC)
    assert rewards == {"a": 2.0, "b": 2.0, "c": 0.0}
    assert terminals == {"a": False, "b": True, "c": False}
    assert truncations == {"a": False, "b": False, "c": False}
    assert infos == {"a": {"clock": 2}, "b": {"clock": 2}, "c": {}}
    env.step(ABC)
    assert env.masks == {"a": True, "b": False, "c": True}
    assert not env.done
    env.step(ABC)
    assert env.done
    assert env.agents == []


def test_actions_by_name_or_by_row():
    env = emulate(Lives(COMINGS_AND_GOINGS))
    env.reset()
    env.step({"b": 3, "a": np.array([2])})
    env.step(np.array([1, 2, 3]))
    env.step([[3], [2], [1]])
    assert env.env.received == [{"a": 2, "b": 3}, {"a": 1, "b": 2}, {"a": 3}]
    assert {type(action) for actions in env.env.received for action in actions.values()} == {int}


@pytest.mark.parametrize(
    ("actions", "error", "message"),
    [
        ({"a": 0}, APIUsageError, r"expected one for each present agent, missing \['b'\]"),
        ({"a": 0, "b": 0, "z": 0}, InvalidAgentError, r"unknown agent 'z'; .* \['a', 'b', 'c'\]"),
        ([0, 1], APIUsageError, "expected 3 rows, one per possible agent, got 2"),
        ({"a": 0, "b": 4}, SpaceError, "Lives: action: expected a value from 0 to 3, got 4"),
        (
            {"a": 0, "b": [1, 2]},
            SpaceError,
            r"of 'b': expected shape \(\), got shape \(2,\)",
        ),
    ],
)
def test_actions_that_do_not_fit_are_refused(actions, error, message):
    env = emulate(Lives(COMINGS_AND_GOINGS))
    env.reset()
    with pytest.raises(error, match=message):
        env.step(actions)
    assert env.env.received == []


def test_calls_out_of_order_are_refused():
    env = emulate(pair_game(length=1))
    with pytest.raises(APIUsageError, match="before reset"):
        env.step({"a": 0, "b": 0})
    env.reset()
    env.step({"a": 0, "b": 0})
    with pytest.raises(APIUsageError, match="after the episode ended"):
        env.step({"a": 0, "b": 0})


def test_unknown_agents_have_no_spaces():
    env = emulate(pair_game())
    assert env.observation_space("a") is env.single_observation_space is PAIR
    assert env.action_space("b") is env.single_action_space
    for method in (env.observation_space, env.action_space):
        with pytest.raises(InvalidAgentError, match="unknown agent 'z'"):
            method("z")


def test_rendering_and_closing_pass_through():
    env = PettingZooPufferEnv(env_creator=Lives, env_args=[COMINGS_AND_GOINGS])
    env.reset()
    assert env.render() == "ab"
    assert env.unwrapped is env.env
    env.close()
    assert env.env.closes == 1


@pytest.mark.parametrize("travel", [copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))])
def test_emulated_environments_travel(travel):
    env = emulate(Lives(COMINGS_AND_GOINGS))
    assert travel(env).done
    env.reset()
    env.step(ABC)
    twin = travel(env)
    assert not twin.done
    assert twin.possible_agents == ["a", "b", "c"]
    assert twin.masks == {"a": True, "b": True, "c": False}
    again = travel(twin)
    for _ in range(3):
        observations, *rest = again.step(ABC)
    assert {k: v.tolist() for k, v in observations.items()} == {
        "a": [10, 4],
        "b": [0, 0],
        "c": [12, 4],
    }
    assert rest[1] == {"a": True, "b": False, "c": True}
    assert [len(one.env.received) for one in (env, twin, again)] == [1, 1, 4]
    assert again.done


def test_a_copy_knows_whose_life_is_over():
    """Report O16, where the environment goes on listing whom it has flagged."""
    env = emulate(Lives([("ab", "", ""), ("ab", "b", ""), ("ab", "", "")], possible="ab"))
    env.reset()
    env.step({"a": 0, "b": 0})
    twin = copy.deepcopy(env)
    assert twin.masks == {"a": True, "b": True}
    observations, *_ = twin.step({"a": 0, "b": 0})
    assert twin.masks == {"a": True, "b": False}
    assert observations["b"].tolist() == [0, 0]


# -- structured spaces and real environments -----------------------------------------------------


class Structured(Lives):
    space = Dict(place=Discrete(3, start=10), clock=Tuple([Box(0, 9, (), np.float32)]))
    choice = Discrete(3, start=5)

    def observation_space(self, agent):
        return self.space

    def action_space(self, agent):
        return self.choice

    def observe(self, agents):
        pairs = super().observe(agents)
        return {a: {"clock": (pair[1],), "place": int(pair[0])} for a, pair in pairs.items()}


def test_structured_observations_and_shifted_actions():
    env = emulate(Structured(COMINGS_AND_GOINGS))
    assert env.single_action_space == Discrete(3)
    assert env.emulated.observation_dtype.names == ("place", "clock")
    env.reset()
    observations, *_ = env.step([0, 1, 2])
    assert env.env.received == [{"a": 5, "b": 6}]
    found = {agent: env.observation_plan.decode(row) for agent, row in observations.items()}
    assert (int(found["b"]["place"]), float(found["b"]["clock"][0])) == (11, 1.0)
    assert (int(found["c"]["place"]), float(found["c"]["clock"][0])) == (0, 0.0)


@pytest.mark.parametrize("env", [pair_game(), pair_game(truncates=True), pair_game(empties=False)])
def test_pettingzoos_own_check_passes(env):
    parallel_api_test(emulate(env), num_cycles=30)


def spread(**options):
    from mpe2 import simple_spread_v3

    return simple_spread_v3.parallel_env(N=3, max_cycles=8, **options)


def test_a_real_environment_behaves_as_without_emulation():
    pytest.importorskip("mpe2")
    env, twin = emulate(spread()), spread()
    parallel_api_test(emulate(spread()), num_cycles=20)
    rng = np.random.default_rng(0)
    observations, expected = env.reset(seed=4)[0], twin.reset(seed=4)[0]
    for _ in range(8):
        for agent in twin.possible_agents:
            np.testing.assert_array_equal(observations[agent], expected[agent])
        actions = {agent: int(rng.integers(5)) for agent in env.agents}
        observations, *outcome, _ = env.step(actions)
        expected, *others, _ = twin.step(actions)
        for found, other in zip(outcome, others, strict=True):
            assert found == pytest.approx(other)
    assert env.done


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_real_environment_in_a_vecenv(backend):
    pytest.importorskip("mpe2")
    with pufferlib.vector.make(
        lambda: PettingZooPufferEnv(spread(continuous_actions=True)), num_envs=2, backend=backend
    ) as vecenv:
        observations, _ = vecenv.reset(seed=2)
        assert observations.shape == (6, *vecenv.single_observation_space.shape)
        assert vecenv.single_action_space == Box(0, 1, (5,), np.float32)
        ends = [vecenv.step(vecenv.action_space.sample())[3].sum() for _ in range(10)]
    assert ends == [0] * 7 + [6, 0, 0]
