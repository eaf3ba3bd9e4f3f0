"""Calls and attributes of the environments themselves, on every backend."""

import functools
import threading

import gymnasium
import numpy as np
import pytest
import vector_toys as toys
from contract_tools import is_pool, on_all

import pufferlib
from pufferlib.exceptions import APIUsageError


def test_get_set_call_and_render(build):
    creators = [functools.partial(toys.make_draw, name=f"env{i}") for i in range(4)]
    vecenv = build(creators)
    assert vecenv.get_attr("name") == ["env0", "env1", "env2", "env3"]
    assert vecenv.call("double", 3, plus=1, indices=[2, 0]) == [7, 7]
    vecenv.set_attr("name", "new", indices=[1])
    assert vecenv.get_attr("name", [3, 1]) == ["env3", "new"]
    vecenv.set_attr("unheard_of", 5)
    assert vecenv.get_attr("unheard_of") == [5] * 4
    assert vecenv.render(2) == "env2 at 0"
    assert vecenv.is_wrapped(toys.Draw, [1, 2]) == [True, True]
    assert vecenv.is_wrapped(gymnasium.wrappers.TimeLimit) == [False] * 4
    with pytest.raises(AttributeError, match=r"environment 3 \(GymnasiumPufferEnv > Draw\)"):
        vecenv.get_attr("missing", [3])
    with pytest.raises(APIUsageError, match="expected 0 to 3, got environment 4"):
        vecenv.call("double", 1, indices=[4])


@on_all
def test_reaches_environments_while_results_are_pending(build):
    """As if after the pending step, whose rows and infos still come."""
    vecenv = build(functools.partial(toys.make_emulated, toys.Talker, {"n": 1}))
    vecenv.async_reset(seed=0)
    assert vecenv.get_attr("t") == [0] * 4
    env_id = vecenv.recv()[5].copy()
    vecenv.send(np.zeros(len(env_id), np.int64))
    times = vecenv.get_attr("t")
    assert times == [int(i in env_id) for i in range(4)]
    assert vecenv.get_attr("t") == times  # twice: infos wait with the driver
    vecenv.set_attr("info", {"n": 2})
    assert vecenv.call("double", 2) == [4] * 4
    infos = []
    for _ in range(2 if is_pool(build) else 1):
        *_, new, env_id, _ = vecenv.recv()
        infos += new
        vecenv.send(np.zeros(len(env_id), np.int64))
    assert {"n": 1} in infos
    assert all(info["n"] in (1, 2) for info in infos)


def test_an_exception_in_a_call_leaves_all_usable(build):
    vecenv = build()
    vecenv.async_reset()
    with pytest.raises(TypeError, match="unsupported operand"):
        vecenv.call("double", {}, plus=1, indices=[3])
    observations, *_, env_id, _ = vecenv.recv()
    vecenv.send(np.zeros(len(env_id), np.int64))
    vecenv.recv()


@pytest.mark.parametrize("backend", ["sync", "pool"])
def test_what_cannot_be_pickled_leaves_all_usable(backend):
    lock = threading.Lock()
    with toys.make(toys.make_draw, backend) as vecenv:
        vecenv.async_reset()
        with pytest.raises(TypeError, match="lock"):
            vecenv.set_attr("name", lock)
        with pytest.raises(TypeError, match="lock"):
            vecenv.async_reset(options={"lock": lock})
        vecenv.set_attr("make_lock", threading.Lock)
        with pytest.raises(pufferlib.WorkerError, match="result of environments .* cannot be pick"):
            vecenv.call("make_lock")
        vecenv.recv()
        assert vecenv.get_attr("name") == ["draw"] * 4


def test_a_call_tells_where_in_the_worker_it_failed():
    vecenv = toys.make(toys.make_draw, "sync")
    with vecenv, pytest.raises(TypeError) as caught:
        vecenv.call("double", {}, indices=[0])
    assert "in double" in "".join(caught.value.__notes__)


def test_options_reach_every_environment(build):
    vecenv = build()
    vecenv.async_reset(options={"level": 3})
    assert vecenv.get_attr("options") == [{"level": 3}] * 4
    vecenv.async_reset()
    assert vecenv.get_attr("options") == [None] * 4
