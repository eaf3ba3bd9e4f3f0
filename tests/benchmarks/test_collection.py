"""The benchmark of collection: every contestant collects the rows that it says."""

import dataclasses

import pytest


@pytest.mark.slow
def test_all_contestants_collect(load, monkeypatch):
    collection = load("collection")
    workload = dataclasses.replace(collection.WORKLOADS["cartpole"], num_steps=4)
    workload = collection.NETWORKS["small"](workload)
    for make in collection.contestants().values():
        with make(workload) as collect:
            assert [collect(), collect()] == [32, 32]


def test_speeds_are_compared_with_the_faster_of_theirs(load):
    collection = load("collection")
    speeds = {
        ("loop", "one"): 100.0,
        ("loop", "other"): 200.0,
        ("another", "third"): 900.0,
        ("loop", collection.OURS): 310.0,
        ("loop", collection.POOL): 290.0,
        (collection.NETWORK, ""): 1000.0,
    }
    rows = list(collection.table("nethack", "own", speeds))
    assert [row[4] for row in rows[:3]] == ["", "", ""]
    assert "pass[/] 1.55 of 1.5 ×" in rows[3][4]
    assert "FAIL[/] 1.45 of 1.5 ×" in rows[4][4]
    assert rows[5] == ("nethack, own network", collection.NETWORK, "", "1,000", "")
