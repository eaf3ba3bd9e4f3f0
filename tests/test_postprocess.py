"""Episode statistics: exact returns and lengths, one report per episode, nothing lost."""

import copy
import pickle

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Discrete
from toys import COMINGS_AND_GOINGS, Echo, Lives, emulate, pair_game

import pufferlib.vector
from pufferlib.postprocess import (
    EpisodeStats,
    MultiagentEpisodeStats,
    as_number,
    episode_records,
    has_many_episodes,
    split_episodes,
    unroll,
)


class Telling(gymnasium.Env):
    """Episodes of three steps whose infos come from a list, one entry a step."""

    observation_space = action_space = Discrete(2)

    def __init__(self, infos):
        self.infos = infos

    def reset(self, *, seed=None, options=None):
        self.clock = 0
        return 0, {"not": "a step"}

    def step(self, action):
        info = copy.deepcopy(self.infos[self.clock])
        self.clock += 1
        return 0, 0.5 * self.clock, self.clock == len(self.infos), False, info


def last_info(infos):
    env = EpisodeStats(Telling(infos))
    assert env.reset()[1] == {}
    *steps, last = [env.step(0)[-1] for _ in infos]
    assert steps == [{}] * (len(infos) - 1)
    return last


@pytest.mark.smoke
def test_return_and_length_of_an_episode():
    assert last_info([{}, {}, {}]) == {"episode_return": 3.0, "episode_length": 3}


def test_a_key_is_averaged_over_the_steps_that_had_it():
    last = last_info([{"hp": 2, "seen": True}, {"hp": 4}, {"late": np.float32(1.5)}])
    assert last["hp"] == 3.0
    assert last["seen"] == 1.0
    assert last["late"] == 1.5


def test_nested_keys_are_joined_and_other_values_are_kept_last():
    last = last_info(
        [
            {"a": {"b": {"c": 1}}, "room": "cave", "path": [1]},
            {"a": {"b": {"c": 3}}, "room": "shore", "map": np.arange(3), "one": np.array([7.0])},
            {"a": {"name": "x"}},
        ]
    )
    other = last.pop("other")
    assert last == {"episode_return": 3.0, "episode_length": 3, "a/b/c": 2.0, "one": 7.0}
    assert other.pop("map").tolist() == [0, 1, 2]
    assert other == {"room": "shore", "path": [1], "a/name": "x"}


def test_episodes_do_not_mix():
    env = EpisodeStats(Telling([{"hp": 1}, {"room": "cave"}]))
    for _ in range(3):
        env.reset()
        env.step(0)
        assert env.step(0)[-1] == {
            "episode_return": 1.5,
            "episode_length": 2,
            "hp": 1.0,
            "other": {"room": "cave"},
        }


def test_an_episode_that_is_cut_short_is_not_reported():
    env = EpisodeStats(Echo(length=3))
    env.reset()
    env.step(0)
    env.reset()
    assert [env.step(0)[-1] for _ in range(3)][-1]["episode_length"] == 3


@pytest.mark.parametrize("truncates", [False, True])
@pytest.mark.parametrize("backend", ["serial", "multiprocessing"])
def test_o23_every_report_of_fixed_episodes_is_exact(truncates, backend):
    def creator():
        return emulate(EpisodeStats(Echo(length=3, truncates=truncates)))

    # Three steps and the auto-reset row make four; 50 steps after the reset end 12 full ones and
    # bring step 3 of none: the thirteenth begins at step 48 and has two steps of it.
    with pufferlib.vector.make(creator, num_envs=4, backend=backend, num_workers=2) as vecenv:
        vecenv.reset()
        infos = [info for _ in range(50) for info in vecenv.step(np.zeros(4, np.int64))[-1]]
    assert infos == [{"episode_return": 3.0, "episode_length": 3}] * (4 * 12)


def test_statistics_travel():
    env = EpisodeStats(Echo(length=3))
    env.reset()
    env.step(0)
    for twin in (pickle.loads(pickle.dumps(env)), copy.deepcopy(env)):
        twin.step(0)
        assert twin.step(0)[-1] == {"episode_return": 3.0, "episode_length": 3}


# -- many agents ---------------------------------------------------------------------------------


def test_what_the_environment_has_is_still_there():
    env = MultiagentEpisodeStats(pair_game())
    assert env.clock == 0
    assert env.unwrapped is env.env


def play(env, steps):
    """The infos of each step, acting 0 for everybody."""
    return [env.step(dict.fromkeys(env.agents, 0))[-1] for _ in range(steps)]


def test_each_life_is_reported_when_it_ends():
    env = MultiagentEpisodeStats(Lives(COMINGS_AND_GOINGS))
    for _ in range(2):
        assert env.reset()[1] == {"a": {}, "b": {}}
        infos = play(env, 4)
        # Rewards are the step's number: a lives 1 to 4, b 1 to 2, c appears at 3 and acts once.
        assert infos[0] == {"a": {}, "b": {}}
        assert infos[2] == {"a": {}}
        assert infos[1] == {
            "a": {},
            "b": {"episode_return": 3.0, "episode_length": 2, "clock": 1.5},
        }
        assert infos[3] == {
            "a": {"episode_return": 10.0, "episode_length": 4, "clock": 2.5},
            "c": {"episode_return": 4.0, "episode_length": 1, "clock": 4.0},
        }


def test_a_life_that_stays_listed_is_reported_once():
    env = MultiagentEpisodeStats(
        Lives([("ab", "", ""), ("ab", "a", ""), ("ab", "a", ""), ("", "ab", "")], possible="ab")
    )
    env.reset()
    infos = play(env, 3)
    reported = [[agent for agent in info if info[agent]] for info in infos]
    assert reported == [["a"], [], ["b"]]
    assert infos[2]["b"]["episode_return"] == 6.0


class Together(Lives):
    """Its lives end together, by the flag `__all__` alone, and stay listed."""

    def step(self, actions):
        observations, rewards, terminals, _, infos = super().step(actions)
        return observations, rewards, {"__all__": all(terminals.values())}, {}, infos


def test_lives_that_end_by_a_common_flag_are_reported():
    env = MultiagentEpisodeStats(
        Together([("ab", "", ""), ("ab", "", ""), ("ab", "ab", "")], possible="ab")
    )
    env.reset()
    infos = play(env, 2)
    assert infos[0] == {"a": {}, "b": {}}
    assert [infos[1][agent]["episode_return"] for agent in "ab"] == [3.0, 3.0]


def test_a_second_life_has_its_own_report():
    script = [("ab", "", ""), ("b", "a", ""), ("ab", "", ""), ("", "ab", "")]
    env = MultiagentEpisodeStats(Lives(script, possible="ab"))
    env.reset()
    infos = play(env, 3)
    assert infos[0]["a"]["episode_return"] == 1.0
    assert infos[2]["a"] == {"episode_return": 3.0, "episode_length": 1, "clock": 3.0}
    assert infos[2]["b"]["episode_return"] == 6.0


@pytest.mark.parametrize("truncates", [False, True])
def test_o23_every_report_of_fixed_multiagent_episodes_is_exact(truncates):
    def creator():
        return emulate(MultiagentEpisodeStats(pair_game(3, truncates)))

    with pufferlib.vector.make(creator, num_envs=2) as vecenv:
        vecenv.reset()
        infos = [info for _ in range(50) for info in vecenv.step(np.zeros(4, np.int64))[-1]]
    report = {"episode_return": 6.0, "episode_length": 3, "clock": 2.0}
    assert infos == [{"a": report, "b": report}] * (2 * 12)


# -- helpers -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "number"),
    [
        (3, 3.0),
        (True, 1.0),
        (np.bool_(False), 0.0),
        (np.float32(0.5), 0.5),
        (np.int8(-2), -2.0),
        (np.array([[4]]), 4.0),
        (np.array([1, 2]), None),
        (np.array(["x"]), None),
        ("3", None),
        (None, None),
        ([1], None),
    ],
)
def test_as_number(value, number):
    assert as_number(value) == number


def test_unroll():
    assert list(unroll({"a": 1, 2: {"b": {"c": 3}, "d": {}}})) == [("a", 1), ("2/b/c", 3)]


def test_an_info_of_many_episodes_is_split():
    info = {"score": np.array([0.5, 1]), "episode_return": np.array([3, 4], np.int32)}
    assert has_many_episodes(info)
    assert list(split_episodes(info)) == [
        {"score": 0.5, "episode_return": 3},
        {"score": 1.0, "episode_return": 4},
    ]


@pytest.mark.parametrize(
    "info",
    [
        {},
        {"score": np.zeros(2)},
        {"episode_return": 1.0},
        {"episode_return": np.array(1.0)},
        {"episode_return": np.zeros(1), "map": "cave"},
    ],
)
def test_other_infos_are_of_one_episode_or_none(info):
    assert not has_many_episodes(info)


def test_records_of_the_episodes_that_ended():
    summary = {"episode_return": 3.0, "episode_length": 2}
    infos = [
        {"lives": 2},
        summary | {"score": 1.0},
        {"a": summary, "b": {"clock": 4}, "c": summary},
        {"episode": {"r": 1.0, "l": 5}},
        {"episode_return": np.array([1.0, 2.0]), "episode_length": np.array([3, 4])},
    ]
    assert list(episode_records(infos)) == [
        infos[1],
        summary,
        summary,
        infos[3],
        {"episode_return": 1.0, "episode_length": 3},
        {"episode_return": 2.0, "episode_length": 4},
    ]
