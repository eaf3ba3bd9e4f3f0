"""What is particular to Ray: nodes, actors that die, what they leave behind, errors and closing."""

import gc
import os
import signal
import time

import numpy as np
import psutil
import pytest
import vector_toys as toys
from contract_tools import ZEROS, batches
from fault_tools import ALL_ONCE, closings, drive, is_running, wait_until
from resumable import Walk

from pufferlib import vector
from pufferlib.exceptions import APIUsageError, WorkerError
from pufferlib.testing import require_equal, rollout

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("ray_session")]
DEADLINE = 2.0  # seconds in which a caller is told what broke


def actors(**kwargs):
    """Four environments in two actors."""
    kwargs = {"creator": toys.make_draw, "backend": "ray"} | kwargs
    return toys.make(kwargs.pop("creator"), kwargs.pop("backend"), **kwargs)


def pids(vecenv):
    return vecenv.call("pid", indices=[0, 3])


class Placed(toys.Draw):
    """Tells where it is."""

    def node(self):
        import ray

        return ray.get_runtime_context().get_node_id()

    def threads(self):
        return os.environ["OMP_NUM_THREADS"]


def make_placed():
    return toys.make_emulated(Placed)


# -- where actors are ------------------------------------------------------------------------------


def test_an_environment_that_must_be_alone_has_an_actor():
    with vector.make(toys.make_alone, backend="ray", num_envs=3) as vecenv:
        assert len(set(vecenv.call("pid"))) == 3


@pytest.mark.parametrize("kind", toys.KINDS)
def test_trajectories_are_bit_equal_to_those_of_serial(kind):
    serial = rollout(toys.make(toys.KINDS[kind], "serial"), 40, seed=3)
    with actors(creator=toys.KINDS[kind]) as vecenv:
        require_equal(serial, rollout(vecenv, 40, seed=3))


def test_actors_are_spread_over_the_nodes_and_their_libraries_get_one_thread():
    with actors(creator=make_placed, num_workers=4, context={"num_cpus": 1}) as vecenv:
        nodes = vecenv.call("node")
        assert sorted(nodes.count(node) for node in set(nodes)) == [2, 2]
        assert len(set(vecenv.call("pid"))) == 4
        assert vecenv.call("threads") == ["1"] * 4


def test_options_say_where_actors_may_be(ray_session):
    import ray

    (two,) = [node["NodeID"] for node in ray.nodes() if "two" in node["Resources"]]
    with actors(creator=make_placed, context={"resources": {"two": 1}}) as vecenv:
        assert set(vecenv.call("node")) == {two}


@pytest.mark.parametrize("context", ["fork", {"num_cups": 1}])
def test_options_that_cannot_be(context):
    with pytest.raises(APIUsageError, match="context: "):
        actors(context=context)


def test_auto_means_the_cores_of_the_cluster():
    with vector.make(toys.make_draw, num_envs=8, backend="ray") as vecenv:
        assert vecenv.num_workers == 4


def test_actors_without_a_place_are_told_of(monkeypatch):
    from pufferlib.vector import ray_handles

    monkeypatch.setattr(ray_handles, "PLACING_SECONDS", 0.5)
    message = r"2 of 2 workers have not begun after 0.5 s.*'nowhere': 1.*still waiting"
    with (
        pytest.raises(TimeoutError),
        pytest.warns(RuntimeWarning, match=message),
        toys.time_limit(3),
    ):
        actors(context={"resources": {"nowhere": 1}})


# -- failures ------------------------------------------------------------------------------------


def test_an_error_in_step_names_all_there_is_to_know(tmp_path):
    vecenv = actors(creator=toys.faulty(folder=tmp_path))
    vecenv.reset(seed=[5, 6, 7, 8])
    vecenv.step(ZEROS)
    vecenv.step(ZEROS)
    with pytest.raises(WorkerError) as caught:
        vecenv.step(ZEROS)
    text = str(caught.value)
    assert "environment 1 (seed 6) raised ValueError in step 3: boom in env 1" in text
    assert 'raise ValueError(f"boom in env {self.index}")' in text  # the actor's traceback
    assert closings(tmp_path) == ALL_ONCE
    with pytest.raises(APIUsageError, match="closed"):
        vecenv.step(ZEROS)


@pytest.mark.parametrize("where", ["constructor", "reset", "close"])
def test_an_error_elsewhere(where, tmp_path):
    what = {"constructor": "its constructor"}.get(where, where)
    creators = toys.faulty(where=where, folder=tmp_path)
    message = f"environment 1 .*ValueError in {what}: boom in env 1"
    with pytest.raises(WorkerError, match=message), actors(creator=creators) as vecenv:
        vecenv.reset()
    counts = closings(tmp_path)
    if where == "constructor":
        assert counts.pop("1", 0) == 0
    assert set(counts.values()) == {1}


def test_an_error_does_not_wait_for_another_actor_that_hangs():
    creators = toys.faulty()
    creators[3] = toys.faulty(faulty=3, how="hang")[3]
    vecenv = actors(creator=creators)
    drive(vecenv, 2)
    vecenv.recv()
    vecenv.send(ZEROS)
    start = time.monotonic()
    with pytest.raises(WorkerError, match="boom in env 1"):
        vecenv.recv()
    assert time.monotonic() - start < DEADLINE


def test_an_actor_that_dies_in_a_step_is_named_with_its_environments(tmp_path):
    vecenv = actors(creator=toys.faulty(how="kill", folder=tmp_path))
    drive(vecenv, 2)
    vecenv.recv()
    start = time.monotonic()
    with pytest.raises(WorkerError, match=r"worker 0 \(environments 0 to 1\) died while it was"):
        vecenv.step(ZEROS)
    assert time.monotonic() - start < DEADLINE
    assert closings(tmp_path) == {"2": 1, "3": 1}


def test_a_pool_notices_a_dead_actor_that_nobody_waits_for():
    vecenv = actors(creator=toys.faulty(how="kill"), backend="ray_gather")
    with pytest.raises(WorkerError, match=r"worker 1 \(environment 1\) died"):
        for _ in batches(vecenv):
            pass


@pytest.mark.parametrize("call", ["get_attr", "step"])
def test_an_actor_killed_between_commands(call):
    vecenv = actors()
    vecenv.reset()
    os.kill(pids(vecenv)[0], signal.SIGKILL)
    time.sleep(0.1)
    start = time.monotonic()
    with pytest.raises(WorkerError, match=r"worker 0 .* died"):
        getattr(vecenv, call)("t" if call == "get_attr" else ZEROS)
    assert time.monotonic() - start < DEADLINE
    with pytest.raises(APIUsageError, match="closed"):
        vecenv.get_attr("t")


def test_a_step_that_takes_longer_than_the_timeout_is_an_error():
    with pytest.raises(WorkerError, match=r"worker 0 .* still busy after timeout=0.5 s"):
        drive(actors(creator=toys.faulty(how="hang"), timeout=0.5))


def test_an_actor_that_hangs_is_replaced():
    creators = toys.faulty(how="hang", at=4)
    with (
        actors(creator=creators, timeout=2, restart=1) as vecenv,
        pytest.warns(RuntimeWarning, match="environment . was made anew: worker 0 .*timeout=2 s"),
    ):
        drive(vecenv, 5)


@pytest.mark.filterwarnings("ignore:environment . was made anew:RuntimeWarning")
def test_an_actor_in_the_place_of_another_obeys_closes_and_ends(tmp_path):
    creators = toys.faulty(faulty=None, folder=tmp_path)
    vecenv = actors(creator=creators, restart=1)
    vecenv.reset()
    first, other = pids(vecenv)
    os.kill(first, signal.SIGKILL)
    vecenv.step(ZEROS)
    second, same = pids(vecenv)
    assert same == other
    assert second != first
    vecenv.close()
    assert closings(tmp_path) == ALL_ONCE
    assert wait_until(lambda: not is_running(second), 2)


def test_a_result_that_waits_for_the_driver_is_not_late():
    with actors(backend="ray_gather", batch_size=1, timeout=2) as vecenv:
        vecenv.async_reset()
        for _ in range(2):
            vecenv.recv()
            time.sleep(2.1)
            vecenv.send(np.zeros(1, np.int64))


def test_a_creator_that_cannot_be_pickled_is_told_of():
    generator = (i for i in range(3))
    with pytest.raises(APIUsageError, match="the environment creator cannot be pickled"):
        actors(creator=lambda: next(generator))


class Lazy(toys.Draw):
    def step(self, action):
        return *super().step(action)[:4], {"lazy": (i for i in range(3))}


def test_infos_that_cannot_be_pickled_are_named():
    vecenv = actors(creator=lambda: toys.make_emulated(Lazy))
    vecenv.reset()
    with pytest.raises(WorkerError, match="infos of environments 0 to 1 cannot be pickled"):
        vecenv.step(ZEROS)


# -- closing ---------------------------------------------------------------------------------------


def test_no_actor_is_left_and_the_session_stays():
    import ray

    vecenv = actors()
    left = pids(vecenv)
    vecenv.close()
    vecenv.close()
    assert wait_until(lambda: not any(map(is_running, left)), 2)
    assert ray.is_initialized()


def test_dropping_the_last_reference_closes_everything(tmp_path):
    vecenv = actors(creator=toys.faulty(faulty=None, folder=tmp_path))
    drive(vecenv, 3)
    del vecenv
    gc.collect()
    assert closings(tmp_path) == ALL_ONCE


def test_an_environment_that_hangs_in_close_is_killed_and_named(tmp_path):
    vecenv = actors(creator=toys.faulty(where="close", how="hang", folder=tmp_path))
    drive(vecenv, 3)
    with pytest.raises(WorkerError) as caught:
        vecenv.close(timeout=1)
    assert str(caught.value) == (
        "worker 0 (environments 0 to 1) hung in the close of environment 1 after 1 s and was "
        "killed; give it longer with close(timeout=...)"
    )
    assert closings(tmp_path) == ALL_ONCE


def test_an_actor_that_is_still_busy_at_close_is_killed_and_named(tmp_path):
    vecenv = actors(creator=toys.faulty(how="hang", folder=tmp_path))
    drive(vecenv, 2)
    vecenv.recv()
    vecenv.send(ZEROS)
    with pytest.raises(WorkerError, match=r"^worker 0 .* was still busy after 1 s and was killed"):
        vecenv.close(timeout=1)
    assert closings(tmp_path) == {"2": 1, "3": 1}


def test_a_ctrl_c_closes_and_says_so(tmp_path):
    vecenv = actors(creator=toys.faulty(how="hang", folder=tmp_path))
    drive(vecenv, 2)
    vecenv.recv()
    vecenv.send(ZEROS)
    me = psutil.Process().pid
    before = signal.signal(signal.SIGALRM, lambda *_: os.kill(me, signal.SIGINT))
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.3)
        with pytest.raises(KeyboardInterrupt):
            vecenv.recv()
    finally:
        signal.signal(signal.SIGALRM, before)
    with pytest.raises(APIUsageError, match="closed"):
        vecenv.recv()
    assert closings(tmp_path) == {"2": 1, "3": 1}


# -- states ----------------------------------------------------------------------------------------


def future(vecenv):
    """The next results, copied."""
    results = []
    for i in range(12):
        vecenv.send(np.arange(8) * (i + 1) % 2)
        results.append([array.tolist() for array in vecenv.recv()[:4]])
    return results


def test_the_state_of_one_vecenv_is_the_future_of_another():
    """Also of environments that look at their rows, which are on another machine."""
    with actors(creator=Walk, seed=1) as one, actors(creator=Walk, seed=2) as other:
        one.reset()
        last = future(one)[-1]
        state = one.get_state()
        expected = future(one)
        other.reset()
        other.send(np.zeros(8, np.int64))  # in flight: finished and dropped
        other.set_state(state)
        assert [array.tolist() for array in other.recv()[:4]] == last
        assert future(other) == expected
