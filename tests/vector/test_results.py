"""What is returned, on every backend: live views, copies, infos."""

import copy
import functools

import numpy as np
import pytest
import vector_toys as toys
from contract_tools import ZEROS, batches, on_all

import pufferlib
from pufferlib import vector


@on_all
def test_arrays_are_live_views_on_every_backend(build):
    """Report O13: the next result for the same rows overwrites them, everywhere alike."""
    results = batches(build(), seed=0)
    first = next(results)[0]
    kept = first.copy()
    again = next(again for again, *_ in results if np.shares_memory(first, again))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, kept)


@on_all
def test_copies_are_kept(build):
    vecenv = build(copy=True)
    vecenv.async_reset(seed=0)
    first = vecenv.recv()
    kept = copy.deepcopy(first)
    for _ in range(6):
        vecenv.send(np.ones(vecenv.agents_per_batch, np.int64))
        vecenv.recv()
    for before, now in zip(kept, first, strict=True):
        assert np.array_equal(before, now)


def test_infos_are_snapshots(build):
    class Reuser(toys.Talker):
        def step(self, action):
            self.info["t"] = self.t + 1
            return super().step(action)

    vecenv = build(functools.partial(toys.make_emulated, Reuser, {"deep": [1]}))
    results = batches(vecenv)
    infos = next(infos for *_, infos, _, _ in results if infos)
    kept = copy.deepcopy(infos)
    for _ in range(6):
        next(results)
    assert infos == kept
    infos[0]["deep"].append(2)
    assert vecenv.get_attr("info")[0]["deep"] == [1]


def test_large_infos_do_not_deadlock(build):
    big = {"frame": np.arange(1 << 17), "text": "x" * (1 << 20)}
    vecenv = build(functools.partial(toys.make_emulated, toys.Talker, big))
    vecenv.async_reset(seed=0)
    with toys.time_limit(20):
        for _ in range(4):
            vecenv.recv()
            vecenv.send(np.zeros(vecenv.agents_per_batch, np.int64))
        infos = vecenv.recv()[4]
        vecenv.send(np.zeros(vecenv.agents_per_batch, np.int64))
        vecenv.close()  # while workers are writing theirs
    assert all(np.array_equal(info["frame"], big["frame"]) for info in infos)


class Lazy(toys.Draw):
    """Tells what can be neither pickled nor copied."""

    def step(self, action):
        return *super().step(action)[:4], {"lazy": (i for i in range(3)), "list": self.kept}

    kept = [1]


def test_infos_that_cannot_be_copied_pass_through_serial():
    """As the error of worker processes says."""
    with vector.make(functools.partial(toys.make_emulated, Lazy)) as vecenv:
        vecenv.reset()
        (info,) = vecenv.step([0])[4]
        assert list(info["lazy"]) == [0, 1, 2]
        assert info["list"] == [1]
        assert info["list"] is not Lazy.kept


def test_infos_that_cannot_be_pickled_are_named():
    with toys.make(functools.partial(toys.make_emulated, Lazy), "sync") as vecenv:
        vecenv.reset()
        message = "infos of environments 0 to 1 cannot be pickled.*generator.*plain data"
        with pytest.raises(pufferlib.WorkerError, match=message):
            vecenv.step(ZEROS)
