"""Waiting takes no processor time, and shared memory is there or is refused."""

import functools
import os
import threading
import time
from types import SimpleNamespace

import psutil
import pytest
import vector_toys as toys
from fault_tools import ZEROS, parallel, workers

from pufferlib.exceptions import APIUsageError
from pufferlib.testing import require_equal, rollout
from pufferlib.vector import shared


def test_the_driver_sleeps_while_environments_are_slow():
    creator = functools.partial(toys.make_emulated, toys.Slow, 0.2)
    with parallel(creator) as vecenv:
        vecenv.reset()
        start, used = time.monotonic(), time.process_time()
        vecenv.step(ZEROS)
        assert time.monotonic() - start >= 0.4  # two environments for each worker
        assert time.process_time() - used < 0.1


def test_workers_sleep_while_nobody_asks():
    with parallel(toys.make_draw) as vecenv:
        vecenv.reset()
        vecenv.step(ZEROS)
        processes = [psutil.Process(pid) for pid in workers()]
        before = [process.cpu_times() for process in processes]
        time.sleep(0.5)
        for process, start in zip(processes, before, strict=True):
            end = process.cpu_times()
            assert end.user + end.system - start.user - start.system < 0.1


def test_a_team_whose_last_worker_died_before_it_could_wake_the_driver_has_finished():
    """A result that is there, with no token to tell of it."""
    with parallel(toys.make_draw) as vecenv:
        vecenv.reset()
        (team,) = vecenv._workers.teams
        vecenv._workers.deliver_again(team)
        vecenv._workers._finished[team.index] = False
        threading.Timer(0.05, vecenv._workers._finished.__setitem__, (team.index, 1)).start()
        with toys.time_limit(5):
            assert vecenv._workers.wait(1) == [team]


def test_memory_on_systems_without_memfd(monkeypatch):
    expected = rollout(toys.make(toys.make_draw, "serial"), 20)
    monkeypatch.delattr(os, "memfd_create", raising=False)
    monkeypatch.delattr(os, "posix_fallocate", raising=False)
    with parallel(toys.make_draw) as vecenv:
        require_equal(expected, rollout(vecenv, 20))


def test_memory_that_is_not_there_is_an_error_before_any_is_taken():
    message = r"the buffers need 1,125,899,906,842,624 bytes .*\(more than is free\); use fewer"
    with toys.time_limit(5), pytest.raises(APIUsageError, match=message):
        shared.create_block(1 << 50)


V1, V2 = (
    {"memory.limit_in_bytes": 2000, "memory.usage_in_bytes": 700, "memory.stat": 300},
    {"memory.max": 1000, "memory.current": 600, "memory.stat": 100},
)


@pytest.mark.parametrize(
    ("folder", "files", "expected"),
    [
        (".", V2, 1000 - 600 + 100),
        (".", V2 | {"memory.max": "max"}, 5000),
        (".", V2 | {"memory.max": 9000}, 5000),
        (".", V2 | {"memory.current": 1200}, 0),
        ("memory", V1, 2000 - 700 + 300),
        ("memory", V1 | {"memory.limit_in_bytes": 1 << 62}, 5000),
        (".", {}, 5000),
    ],
)
def test_available_memory_heeds_the_cgroup(folder, files, expected, tmp_path, monkeypatch):
    monkeypatch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(available=5000))
    (tmp_path / folder).mkdir(exist_ok=True)
    cache = "inactive_file" if folder == "." else "total_inactive_file"
    for name, value in files.items():
        text = f"anon 7\n{cache} {value}\n" if name == "memory.stat" else f"{value}\n"
        (tmp_path / folder / name).write_text(text)
    assert shared.available_memory(tmp_path) == expected
