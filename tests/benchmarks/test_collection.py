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


def test_speeds_are_compared_with_theirs(load):
    collection = load("collection")
    loop = collection.CLEANRL
    speeds = {
        (loop, "SyncVectorEnv"): 400.0,
        (loop, "AsyncVectorEnv"): 200.0,
        (loop, collection.OURS): 310.0,
        (loop, collection.POOL): 290.0,
        (collection.NETWORK, ""): 1000.0,
    }
    rows = list(collection.table("nethack", "own", speeds))
    assert [row[3] for row in rows] == ["400", "200", "310", "290", "1,000"]
    assert [row[4] for row in rows] == ["", "", "0.78", "0.72", ""]
    assert rows[2][5] == "[green]pass[/] 1.55 of 1.5 × AsyncVectorEnv"
    assert rows[3][5] == "[red]FAIL[/] 1.45 of 1.5 × AsyncVectorEnv"
    assert rows[4][:3] == ("nethack, own network", "network alone", "")
