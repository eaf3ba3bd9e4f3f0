"""Creators that demand a process for each environment: `make` obeys, other wishes are refused."""

import functools
import warnings

import pytest
import vector_toys as toys

from pufferlib import vector
from pufferlib.exceptions import APIUsageError
from pufferlib.testing import check_vecenv, require_equal, rollout
from pufferlib.vector import autotune

CREATORS = {
    "function": toys.make_alone,
    "partial": functools.partial(functools.partial(toys.make_alone), name="other"),
    "list": [toys.make_draw, toys.make_alone, toys.make_draw, toys.make_draw],
}


def pids(vecenv):
    return set(vecenv.call("pid"))


@pytest.mark.parametrize("creator", CREATORS.values(), ids=CREATORS)
def test_make_gives_each_environment_a_worker(creator):
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # it has no choice: fewer cores are no reason to warn
        vecenv = vector.make(creator, num_envs=4)
    with vecenv:
        assert isinstance(vecenv, vector.Multiprocessing)
        assert len(pids(vecenv)) == 4


@pytest.mark.parametrize("num_workers", [None, "auto", 4])
def test_the_usual_ways_to_say_how_many_workers_give_each_one(num_workers):
    with vector.make(
        toys.make_alone, backend="multiprocessing", num_envs=4, num_workers=num_workers
    ) as vecenv:
        assert len(pids(vecenv)) == 4


def test_the_contract_holds_and_seeds_mean_the_same_as_elsewhere():
    expected = rollout(vector.make(toys.make_draw, num_envs=4), 20)
    with vector.make(toys.make_alone, num_envs=4) as vecenv:
        require_equal(expected, rollout(vecenv, 20))
    with vector.make(toys.make_alone, num_envs=4, batch_size=2) as pool:
        check_vecenv(pool)


def test_one_alone_lives_in_the_callers_process():
    with vector.make(toys.make_alone) as vecenv:
        assert isinstance(vecenv, vector.Serial)
        vecenv.reset()


def test_several_in_the_callers_process_are_refused():
    message = (
        "Serial: expected num_envs=1, as the environments' creators demand one per process, got 4; "
        "use backend='multiprocessing', or leave backend out"
    )
    with pytest.raises(APIUsageError, match=message):
        vector.make(toys.make_alone, backend="serial", num_envs=4)
    assert toys.Alone.alive == []


def test_fewer_workers_than_environments_are_refused():
    message = (
        "num_workers: expected 4, one for each of num_envs=4, as the environments' creators demand "
        "one per process, got 2; leave num_workers out"
    )
    with pytest.raises(APIUsageError, match=message):
        vector.make(toys.make_alone, backend="multiprocessing", num_envs=4, num_workers=2)


def test_a_creator_may_take_its_demand_back():
    creator = functools.partial(toys.make_alone)
    creator.one_per_process = False
    with vector.make(creator) as vecenv:
        assert isinstance(vecenv, vector.Serial)
    with pytest.raises(Exception, match="this process has one already"):
        vector.make(creator, num_envs=2)


def test_an_environment_that_fails_is_made_anew_in_its_own_process():
    class Fragile(toys.Alone):
        def step(self, action):
            if self.t == 2:
                raise ValueError("lost")
            return super().step(action)

    def make_fragile():
        return toys.make_emulated(Fragile)

    make_fragile.one_per_process = True
    with vector.make(make_fragile, num_envs=2, restart=1) as vecenv:
        vecenv.reset()
        before = pids(vecenv)
        with pytest.warns(RuntimeWarning, match="made anew"):
            infos = [vecenv.step([0, 0])[-1] for _ in range(3)][-1]
        assert sorted(i for info in infos for i in info["restarted"]) == [0, 1]
        assert pids(vecenv) == before


@pytest.mark.slow
def test_the_profile_of_autotune_asks_for_no_second_one():
    tuning = autotune(toys.make_alone, num_envs=2, seconds=1, show=False)
    assert not tuning.profile.shares_process
    # Whether a pool is faster, batch_size=1, is the machine's matter.
    found = {key: tuning.make_kwargs[key] for key in ("backend", "num_envs", "num_workers")}
    assert found == {"backend": "multiprocessing", "num_envs": 2, "num_workers": 2}
