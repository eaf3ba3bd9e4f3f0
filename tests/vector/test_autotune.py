"""`autotune`: what it tries, when it stops, what it recommends, and what it says about failures.

Most of it runs on made-up speeds and a made-up clock; the rest on environments in real workers.
"""

import contextlib
import functools
import io
import math
from dataclasses import dataclass

import numpy as np
import pytest
from rich.console import Console

from pufferlib import vector
from pufferlib.exceptions import APIUsageError
from pufferlib.vector.tuning.profile import Moments, Profile
from pufferlib.vector.tuning.rates import MAX_SLICES, T95, Measurement, Slice, measure
from pufferlib.vector.tuning.result import Tuning, describe, table
from pufferlib.vector.tuning.search import Search, memory_of
from pufferlib.vector.tuning.settings import Limits, Setting

PROFILE = Profile(
    num_agents=1,
    steps=1000,
    step_seconds=1e-4,
    step_variance=4e-10,
    resets=10,
    reset_share=0.25,
    resets_in_step=False,
    env_bytes=2_000_000,
    worker_bytes=30_000_000,
    step_bytes=271,
    shares_process=True,
)


def limits(**changes):
    usual = {"cores": 2, "max_envs": 8, "num_envs": None, "pools": True, "shares_process": True}
    return Limits(**(usual | {"needs": lambda setting: 0, "max_bytes": 1} | changes))


def serial(n):
    return Setting(n, 0, n)


def workers(w, n, batch=None, zero_copy=True):
    return Setting(n, w, batch or n, zero_copy)


# -- settings ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("setting", "kwargs"),
    [
        (serial(4), {"backend": "serial", "num_envs": 4}),
        (workers(2, 4), {"backend": "multiprocessing", "num_envs": 4, "num_workers": 2}),
        (
            workers(4, 8, 4, zero_copy=False),
            {
                "backend": "multiprocessing",
                "num_envs": 8,
                "num_workers": 4,
                "batch_size": 4,
                "zero_copy": False,
            },
        ),
    ],
)
def test_a_setting_says_only_what_make_would_not_choose(setting, kwargs):
    assert setting.make_kwargs == kwargs


@pytest.mark.parametrize(
    ("changes", "counts"),
    [
        ({"cores": 1}, []),
        ({"cores": 2}, [2]),
        ({"cores": 24}, [24, 12, 6, 3]),
        ({"cores": 4, "num_envs": 6}, [3, 2]),
        ({"cores": 2, "num_envs": 7}, []),
        ({"cores": 2, "num_envs": 3, "shares_process": False}, [3]),
        ({"cores": 4, "shares_process": False}, [4, 2]),
    ],
)
def test_worker_counts_fit_the_cores_and_divide_the_environments(changes, counts):
    assert limits(**changes).worker_counts() == counts


@pytest.mark.parametrize(
    ("changes", "num_workers", "mode", "settings"),
    [
        ({}, 0, "all", [serial(1), serial(2), serial(4), serial(8)]),
        ({"max_envs": 7}, 2, "all", [workers(2, 2), workers(2, 4)]),
        ({}, 2, "one", [workers(2, 2, 1), workers(2, 4, 2), workers(2, 8, 4)]),
        ({}, 4, "half", [workers(4, 4, 2), workers(4, 8, 4)]),
        ({}, 3, "all", [workers(3, 3), workers(3, 6)]),
        ({}, 5, "gathered half", [workers(5, 5, 2, zero_copy=False)]),
        ({"num_envs": 64}, 2, "one", [workers(2, 64, 32)]),
        ({"num_envs": 64}, 0, "all", [serial(64)]),
        ({"shares_process": False}, 2, "all", [workers(2, 2)]),
        ({"shares_process": False, "num_envs": 4}, 0, "all", []),
        ({"max_envs": 1}, 2, "all", []),
    ],
)
def test_a_ladder_doubles_the_environments(changes, num_workers, mode, settings):
    assert list(limits(**changes).ladder(num_workers, mode)) == settings


def test_every_setting_on_a_ladder_is_one_that_make_accepts():
    bounds = limits(cores=24, max_envs=100)
    for num_workers in bounds.worker_counts():
        for mode in bounds.modes(num_workers):
            for setting in bounds.ladder(num_workers, mode):
                kwargs = setting.make_kwargs
                vector.sizes.Sizes.parallel(
                    kwargs["num_envs"],
                    kwargs["num_workers"],
                    kwargs.get("batch_size"),
                    kwargs.get("zero_copy", True),
                )


def test_pools_are_tried_only_if_wanted_and_possible():
    assert limits(pools=False).modes(4) == ["all"]
    assert limits().modes(0) == ["all"]
    assert limits().modes(2) == ["all", "one"]
    assert limits().modes(4) == ["all", "one", "gathered half", "half"]
    assert limits().modes(5) == ["all", "one", "gathered half"]


def test_memory_counts_environments_processes_and_rows():
    assert memory_of(PROFILE, serial(4)) == 4 * 2_000_000 + 4 * 271
    assert memory_of(PROFILE, workers(2, 4)) == 2 * 30_000_000 + 4 * 2_000_000 + 4 * 271
    gathered = memory_of(PROFILE, workers(4, 4, 2, zero_copy=False))
    assert gathered == 4 * 30_000_000 + 4 * 2_000_000 + 2 * 4 * 271


# -- rates -------------------------------------------------------------------------------------


def test_moments_are_those_of_numpy():
    numbers = np.random.default_rng(0).normal(3, 2, 100)
    moments = Moments()
    assert moments.variance == 0
    for number in numbers:
        moments.add(number)
    assert moments.count == 100
    assert moments.mean == pytest.approx(numbers.mean())
    assert moments.variance == pytest.approx(numbers.var(ddof=1))


def test_the_interval_of_a_rate_is_students():
    found = Measurement(serial(1), (Slice(90, 1, 0.5), Slice(100, 1, 0.25), Slice(110, 1, 0)))
    assert found.rate == 100
    assert found.margin == pytest.approx(T95[1] * 10 / math.sqrt(3))
    assert (found.low, found.high) == (found.rate - found.margin, found.rate + found.margin)
    assert found.policy_share == 0.25
    assert Measurement(serial(1), found.slices[:1]).high == math.inf
    many = Measurement(serial(1), found.slices * 6)
    assert many.margin < found.margin / 2


def replay(*rates):
    """A trial that has these rates in turn, the last one for ever; and how often it ran."""
    calls = []

    def run(seconds):
        calls.append(seconds)
        return Slice(rates[min(len(calls), len(rates)) - 1] * seconds, seconds, 0)

    return run, calls


@pytest.mark.parametrize(
    ("rates", "to_beat", "slices", "is_cut"),
    [
        ([1, 100], 0, 3, False),  # the first slice, a start, does not count
        ([1, 100], 99, 3, False),
        ([1, 100], 101, 3, True),
        ([1, 80, 120], 500, 3, True),
        ([1, 80, 120], 160, 4, True),  # not clear before
        ([1, 80, 120, 80, 120, 80, 120, 80, 120], 0, MAX_SLICES, False),
    ],
)
def test_slices_end_when_the_rate_is_known_or_clearly_too_low(rates, to_beat, slices, is_cut):
    run, calls = replay(*rates)
    found = measure(serial(1), run, 2.0, to_beat, lambda: True)
    assert (len(found.slices), found.is_cut) == (slices, is_cut)
    assert calls == [2.0] * (slices + 1)


def test_a_setting_has_one_slice_at_least_even_if_the_time_is_up():
    run, _ = replay(1, 100)
    assert len(measure(serial(1), run, 1.0, 0, lambda: False).slices) == 1


# -- the search --------------------------------------------------------------------------------


@dataclass
class Machine:
    """Speeds by formula, and a clock that only trials move."""

    speed: object
    start_seconds: float = 0.1
    now: float = 0.0
    opened: int = 0

    @contextlib.contextmanager
    def open(self, setting):
        self.now += self.start_seconds
        self.opened += 1
        rate = self.speed(setting)

        def trial(seconds):
            self.now += seconds
            return Slice(rate * seconds, seconds, 0)

        yield trial

    def search(self, seconds=600.0, **changes):
        return Search(self.open, limits(**changes), seconds, start=0.0, clock=lambda: self.now)


def saturating(setting):
    """Two workers are almost twice as fast; four environments are as good as more."""
    return min(setting.num_envs, 4) * (190 if setting.num_workers else 100)


def test_environments_are_doubled_as_long_as_it_is_worthwhile():
    machine = Machine(saturating)
    search = machine.search(max_envs=256, pools=False)
    assert search.run().setting == workers(2, 4)
    # Two doublings in vain end a ladder.
    ladder = [workers(2, n) for n in (2, 4, 8, 16)] + [serial(n) for n in (1, 2, 4, 8, 16)]
    assert list(search.found) == ladder
    assert search.notes == ["The best two cannot be told apart: the simpler one is recommended."]
    assert machine.opened == len(ladder) + 2  # the best two once more
    assert [found.is_cut for found in search.found.values()] == [False] * 4 + [True] * 5


def test_the_faster_of_the_best_two_wins_where_they_differ():
    search = Machine(lambda s: {workers(2, 4): 200, workers(2, 2): 100}.get(s, 20)).search()
    best = search.run()
    assert best.setting == workers(2, 4)
    assert search.notes == []
    ranked = search.ranked(best)
    assert [found.setting for found in ranked[:2]] == [workers(2, 4), workers(2, 2)]
    assert [found.rate for found in ranked] == sorted((f.rate for f in ranked), reverse=True)
    # Five slices at least, as both were measured twice.
    assert [len(found.slices) for found in ranked[:2]] == [6, 6]


def tried(speed, **changes):
    """Numbers of workers in the order in which they come up, and the recommended one."""
    search = Machine(speed).search(num_envs=8, pools=False, **changes)
    best = search.run().setting
    return [setting.num_workers for setting in search.found], best.num_workers


def test_fewer_workers_are_tried_as_long_as_they_may_be_faster():
    assert tried(lambda s: 100 * max(s.num_workers, 1), cores=8) == ([8, 0, 4], 8)
    assert tried(lambda s: 100 / max(s.num_workers, 1), cores=8) == ([8, 0, 4, 2], 0)
    # Serial says nothing about workers: in between there may be a best number.
    speeds = {8: 10, 4: 20, 2: 200, 0: 100}
    assert tried(lambda s: speeds[s.num_workers], cores=8) == ([8, 0, 4, 2], 2)
    # Nor do those that there is no memory for.
    needs = {"needs": lambda setting: setting.num_workers, "max_bytes": 4}
    assert tried(lambda s: 100 * max(s.num_workers, 1), cores=8, **needs) == ([0, 4, 2], 4)


@pytest.mark.parametrize(
    ("num_envs", "equal", "simplest"),
    [
        (8, [workers(2, 8, 4), workers(2, 8)], workers(2, 8)),
        (8, [serial(8), workers(2, 8)], serial(8)),
        (None, [workers(2, 8, 4), workers(2, 4, 2)], workers(2, 4, 2)),
    ],
)
def test_of_two_that_are_as_fast_the_simpler_is_recommended(num_envs, equal, simplest):
    search = Machine(lambda setting: 100 if setting in equal else 60).search(num_envs=num_envs)
    assert search.run().setting == simplest


@pytest.mark.parametrize("seconds", [5, 20, 60])
def test_the_time_is_kept_and_what_it_did_not_allow_is_said(seconds):
    machine = Machine(lambda s: s.num_envs, start_seconds=1.0)
    search = machine.search(seconds, max_envs=2**20)
    best = search.run()
    assert machine.now <= seconds
    assert best.rate == max(found.rate for found in search.found.values())
    (note,) = (note for note in search.notes if note.startswith("Not tried"))
    assert note.startswith(f"Not tried, as the {seconds} s were over: ")
    assert "2 workers in batches of 1 from 2 environments on" in note
    assert note.endswith(". Give it more seconds.")


def test_one_setting_is_measured_however_short_the_time():
    search = Machine(lambda s: 100).search(seconds=0.01)
    assert search.run().setting == workers(2, 2)
    assert "Give it more seconds." in search.notes[-1]


def test_no_setting_takes_more_memory_than_there_is():
    needs = functools.partial(memory_of, PROFILE)
    search = Machine(lambda s: s.num_envs).search(needs=needs, max_bytes=10e6, max_envs=64)
    assert search.run().setting == serial(4)
    assert max(needs(setting) for setting in search.found) <= 10e6
    assert search.notes == [
        "Not tried, as they need more than 0.01 GB of memory: 2 workers from 2 environments on; "
        "Serial from 8 environments on; 2 workers in batches of 1 from 2 environments on."
    ]
    search = Machine(lambda s: s.num_envs).search(needs=needs, max_bytes=10e6, cores=4)
    search.run()
    assert search.notes[-1].endswith(" environments on; and 4 others.")
    with pytest.raises(APIUsageError, match="no way to run num_envs=1 fits into 5 bytes"):
        Machine(lambda s: 1).search(needs=needs, max_bytes=5).run()


def test_environments_that_cannot_be_spread_are_named():
    search = Machine(lambda s: 1).search(num_envs=7)
    assert search.run().setting == serial(7)
    assert search.notes == [
        "num_envs=7 cannot be spread evenly over 2 to 2 workers: only Serial was tried."
    ]


# -- the result --------------------------------------------------------------------------------


def slices(*rates):
    return tuple(Slice(rate, 1.0, 0.1) for rate in rates)


def tuning(creator="make_env", **kwargs):
    measurements = (
        Measurement(workers(2, 8), slices(1990, 2000, 2010)),
        Measurement(workers(4, 8, 4, zero_copy=False), slices(1500)),
        Measurement(serial(8), slices(990, 1000, 1010), is_cut=True),
    )
    kwargs = kwargs or measurements[0].setting.make_kwargs
    return Tuning(kwargs, 2000.0, PROFILE, measurements, creator, ("A note.",))


def test_the_table_has_a_row_for_each_setting():
    console = Console(file=io.StringIO(), width=80)
    console.print(table(tuning().measurements))
    lines = [line.split() for line in console.file.getvalue().splitlines()]
    assert lines == [
        ["Backend", "Envs", "Workers", "Batch", "Steps/s", "±", "Policy"],
        ["multiprocessing", "8", "2", "8", "2,000", "1%", "10%", "recommended"],
        ["multiprocessing", "8", "4", "4", "copied", "1,500", "?", "10%"],
        ["serial", "8", "-", "8", "1,000", "2%", "10%", "clearly", "slower"],
    ]


def test_show_prints_all_and_the_line_in_one_piece(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    result = tuning("make_env, env_kwargs={'markup': '[red]', 'long': 'x'}")
    result.show()
    text = capsys.readouterr().out
    assert text.startswith(
        "step      100 µs, standard deviation 20 µs (1,000 timed)\n"
        "resets    25% of the time (10 timed)\n"
        "memory    2 MB each, 30 MB for a process\n"
        "rows      271 bytes a step\n"
    )
    assert "\nA note.\n" in text
    assert text.splitlines()[-1] == str(result)


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"resets": 0}, "resets    no episode ended in 1,000 steps"),
        ({"resets_in_step": True}, "resets    included"),
        ({"num_agents": 8}, "step      100 µs of 8 agents, standard deviation 20 µs (1,000 timed)"),
        ({"policy_seconds": 0.0025}, "policy    2.5 ms for one environment"),
        ({"env_bytes": 0}, "memory    0 bytes each, 30 MB for a process"),
        (
            {"shares_process": False},
            "A second environment in the same process failed: each gets its own.",
        ),
    ],
)
def test_what_is_special_about_an_environment_is_said(changes, line):
    assert line in describe(Profile(**{**PROFILE.__dict__, **changes}))
