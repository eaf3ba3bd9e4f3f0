"""Means over episodes: nested, with counts, nothing lost silently."""

import numpy as np
import pytest

from pufferlib.trainer.statistics import Tally


def test_means_are_over_the_episodes_that_had_the_key():
    tally = Tally()
    tally.add([{"episode_return": 3.0, "won": True}, {"episode_return": 5.0}])
    tally.add([{"episode_return": 1.0, "won": False, "rare": np.float32(2)}])
    stats = tally.statistics()
    assert stats == {"episode_return": 3.0, "won": 0.5, "rare": 2.0}
    assert stats.counts == {"episode_return": 3, "won": 2, "rare": 1}


def test_an_info_may_sum_up_many_episodes():
    tally = Tally()
    scores = np.array([0.0, 1.0, 1.0], np.float32)
    tally.add([{"episode_return": scores * 2, "score": scores}, {"episode_return": 3.0}])
    stats = tally.statistics()
    assert stats == {"episode_return": 7 / 4, "score": 2 / 3}
    assert stats.counts == {"episode_return": 4, "score": 3}
    assert stats.other == {}


def test_nested_keys_are_joined():
    tally = Tally()
    tally.add([{"parts": {"walk": 1, "eat": {"apples": 2}}}])
    assert tally.statistics() == {"parts/walk": 1.0, "parts/eat/apples": 2.0}


def test_the_level_of_agents_is_dropped():
    tally = Tally(agents=["red", "blue"])
    tally.add([{"red": {"episode_return": 1.0}, "blue": {"episode_return": 3.0}, "turns": 7}])
    stats = tally.statistics()
    assert stats == {"episode_return": 2.0, "turns": 7.0}
    assert stats.counts["episode_return"] == 2


def test_what_is_no_number_is_kept_apart():
    tally = Tally()
    tally.add(
        [{"map": "cave", "path": [1, 2], "grid": np.zeros(3), "one": np.array([4.0]), "x": 1}]
    )
    stats = tally.statistics()
    assert stats == {"one": 4.0, "x": 1.0}
    assert set(stats.other) == {"map", "path", "grid"}
    assert stats.other["map"] == "cave"


def test_nothing_means_nothing():
    tally = Tally()
    assert tally.statistics() == {}
    tally.add([{"x": 1}])
    tally.clear()
    tally.add([{}])
    assert tally.statistics() == {}
    assert tally.statistics().counts == {}


@pytest.mark.parametrize(
    "value", [1, 1.0, True, np.int8(1), np.float64(1), np.bool_(True), np.array(1)]
)
def test_every_kind_of_number(value):
    tally = Tally()
    tally.add([{"x": value}])
    assert tally.statistics() == {"x": 1.0}
