"""Agents grouped into teams: what a team sees, does and is paid, and when it is over."""

import copy

import numpy as np
import pytest
from gymnasium.spaces import Box, Tuple
from pettingzoo.test import parallel_api_test
from toys import COMINGS_AND_GOINGS, FOUR, PAIR, Lives, emulate, pair_game

import pufferlib.vector
from pufferlib.emulation import PettingZooPufferEnv, Postprocessor
from pufferlib.exceptions import APIUsageError
from pufferlib.wrappers import TeamEnv

TEAMS = {"red": ["a", "c"], "blue": ["b", "d"]}


def joint(seats):
    return [seat.tolist() for seat in seats]


@pytest.mark.smoke
def test_a_team_sees_acts_and_is_paid_together():
    env = TeamEnv(Lives([("abcd", "", "")] * 3, "abcd"), TEAMS)
    assert env.possible_agents == ["red", "blue"]
    assert env.observation_space("red") == Tuple([PAIR, PAIR])
    assert env.action_space("blue") == Tuple([FOUR, FOUR])
    observations, infos = env.reset(seed=1)
    assert env.agents == ["red", "blue"]
    assert {team: joint(seats) for team, seats in observations.items()} == {
        "red": [[10, 0], [12, 0]],
        "blue": [[11, 0], [13, 0]],
    }
    assert infos == {"red": {}, "blue": {}}
    actions = {"blue": (2, 3), "red": (0, 1)}
    env.step(actions)
    _, rewards, terminals, truncations, infos = env.step(actions)
    assert env.env.received[-1] == {"a": 0, "b": 2, "c": 1, "d": 3}
    assert rewards == {"red": 4.0, "blue": 4.0}
    assert terminals == truncations == {"red": False, "blue": False}
    assert infos["red"] == {"a": {"clock": 2}, "c": {"clock": 2}}


def test_a_team_goes_on_until_its_last_member_leaves():
    script = [
        ("abcd", "", ""),
        ("bcd", "a", ""),  # red goes on with c
        ("bd", "", "c"),  # red is cut
        ("d", "b", ""),
        ("", "d", ""),
    ]
    env = TeamEnv(Lives(script, "abcd"), TEAMS)
    env.reset()
    shown = []
    while env.agents:
        acting = dict.fromkeys(env.agents, (0, 0))
        observations, rewards, terminals, truncations, _ = env.step(acting)
        for team in acting:
            shown.append(
                (team, joint(observations[team]), rewards[team], terminals[team], truncations[team])
            )
    assert shown == [
        ("red", [[10, 1], [12, 1]], 2, False, False),  # a's last observation
        ("blue", [[11, 1], [13, 1]], 2, False, False),
        ("red", [[0, 0], [12, 2]], 2, False, True),
        ("blue", [[11, 2], [13, 2]], 4, False, False),
        ("blue", [[11, 3], [13, 3]], 6, False, False),
        ("blue", [[0, 0], [13, 4]], 4, True, False),
    ]


def test_members_who_are_still_listed_have_had_their_life():
    """An environment that goes on listing whom it has flagged: no second end, no more rewards."""
    env = TeamEnv(
        Lives([("ab", "", ""), ("ab", "a", ""), ("ab", "", ""), ("ab", "b", "")], "ab"), {"t": "ab"}
    )
    env.reset()
    results = [env.step({"t": (0, 0)}) for _ in range(3)]
    assert [rewards["t"] for _, rewards, *_ in results] == [2, 2, 3]
    assert [terminals["t"] for _, _, terminals, *_ in results] == [False, False, True]
    assert joint(results[1][0]["t"]) == [[0, 0], [11, 2]]


def test_smaller_teams_have_empty_seats():
    env = TeamEnv(Lives(COMINGS_AND_GOINGS), {"red": ["a", "c"], "blue": ["b"]})
    assert env.action_space("red") == env.action_space("blue")
    observations, _ = env.reset()
    assert joint(observations["blue"]) == [[11, 0], [0, 0]]
    env.step({"red": (1, 2), "blue": (3, 0)})
    assert env.env.received == [{"a": 1, "b": 3}]


def test_absent_members_show_what_their_space_has():
    class Positive(Lives):
        def observation_space(self, agent):
            return Box(5, 100, (2,), np.float32)

    env = TeamEnv(Positive(COMINGS_AND_GOINGS), {"red": ["a", "c"], "blue": ["b"]})
    observations, _ = env.reset()
    assert observations["red"][1].tolist() == [5, 5]


def test_flags_of_all_end_every_team():
    class Cut(Lives):
        def step(self, actions):
            observations, rewards, *_, infos = super().step(actions)
            return observations, rewards, {}, {"__all__": True}, infos

    env = TeamEnv(Cut([("abcd", "", ""), ("", "", "")], "abcd"), TEAMS)
    env.reset()
    assert env.step(dict.fromkeys(TEAMS, (0, 0)))[3] == {"red": True, "blue": True}


@pytest.mark.parametrize(
    ("teams", "message"),
    [
        ({"red": ["a"]}, r"expected each of \['a', 'b'\] in one team, got 'b' in \[\]"),
        ({"red": ["a", "b"], "blue": ["a"]}, r"got 'a' in \['red', 'blue'\]"),
        ({"red": ["a", "b", "z"]}, r"got 'z' in \['red'\]"),
        ({"red": ["a", "b"], "blue": []}, r"at least one member in each, got none in \['blue'\]"),
    ],
)
def test_teams_must_share_out_all_agents(teams, message):
    with pytest.raises(APIUsageError, match=message):
        TeamEnv(pair_game(), teams)


def test_pettingzoos_own_test_passes():
    parallel_api_test(TeamEnv(Lives(COMINGS_AND_GOINGS), {"red": "ac", "blue": "b"}), 20)


@pytest.mark.parametrize("backend", ["serial", "multiprocessing"])
def test_emulated_teams(backend):
    teams = {"red": ["a", "b"], "blue": ["c"]}
    creator = lambda: PettingZooPufferEnv(  # noqa: E731
        Lives(COMINGS_AND_GOINGS), teams=teams, postprocessor=Postprocessor
    )
    with pufferlib.vector.make(creator, backend=backend, copy=True) as vecenv:
        assert vecenv.num_agents == 2
        assert vecenv.single_observation_space.shape == (4,)
        assert vecenv.single_action_space.nvec.tolist() == [4, 4]
        rows, _ = vecenv.reset()
        assert rows.tolist() == [[10, 0, 11, 0], [0, 0, 0, 0]]
        assert vecenv.call("render") == ["ab"]
        for _ in range(3):
            rows, *_ = vecenv.step([[1, 2], [3, 0]])
        assert rows.tolist() == [[10, 3, 0, 0], [12, 3, 0, 0]]
        _, _, terminals, *_ = vecenv.step([[1, 2], [3, 0]])
        assert terminals.tolist() == [True, True]
        assert vecenv.get_attr("received")[0][-1] == {"a": 1, "c": 3}


def test_teams_are_copied_in_mid_episode():
    env = emulate(Lives(COMINGS_AND_GOINGS), teams={"red": "ac", "blue": "b"})
    actions = {"red": [0, 0], "blue": [0, 0]}
    env.reset()
    env.step(actions)
    twin = copy.deepcopy(env)
    for one in (env, twin):
        assert one.step(actions)[2] == {"red": False, "blue": True}
