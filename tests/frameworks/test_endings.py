"""Records of episodes are given to the rows that ended."""

from types import SimpleNamespace

import numpy as np

from pufferlib.frameworks.endings import RowRecords
from pufferlib.postprocess import ENDED_PART


def rows_of(infos, ended, agents=(), masks=None):
    driver_env = SimpleNamespace(possible_agents=agents) if agents else SimpleNamespace()
    ended = np.array(ended, bool)
    masks = np.ones_like(ended) if masks is None else np.array(masks, bool)
    records = RowRecords(SimpleNamespace(driver_env=driver_env))
    return [(row, record["episode_return"]) for row, record in records(infos, ended, masks)]


def record(value):
    return {"episode_return": value, "episode_length": 1}


def test_the_end_of_a_life_has_no_record_and_takes_no_others():
    infos = [{ENDED_PART: "life"}, record(2.0)]
    assert rows_of(infos, [True, False, True]) == [(2, 2.0)]


def test_agents_are_put_in_the_order_of_their_rows():
    infos = [{"b": record(2.0), "a": record(1.0)}]
    assert rows_of(infos, [True, True], agents=("a", "b")) == [(0, 1.0), (1, 2.0)]


def test_a_row_where_nobody_is_has_lost_its_record():
    assert rows_of([record(1.0)], [True, True], masks=[False, True]) == [(1, 1.0)]
