"""Environments that fail and are made anew in place: rows, infos, limits, on every backend."""

import functools
import multiprocessing
import os
import signal
import time
import types
import warnings

import numpy as np
import pytest
import vector_toys as toys
from contract_tools import on_all
from fault_tools import ZEROS, drive, fails_soon, parallel, wait_until
from gymnasium.vector import AutoresetMode

from pufferlib import vector
from pufferlib.exceptions import APIUsageError, SnapshotError, WorkerError
from pufferlib.trainer.advantage import valid_transitions
from pufferlib.vector.seeds import restart_seed, spread_seed

ANEW = "ignore:environment . was made anew:RuntimeWarning"
leaves_nothing = pytest.mark.usefixtures("nothing_left")


class Flaky(toys.Draw):
    """Fails in its third step (or reset) if it was given `seed` in this reset or never again."""

    def __init__(self, index, faulty=1, where="step", how="raise"):
        super().__init__()
        self.index, self.faulty, self.where, self.how = index, faulty, where, how

    def fail(self, where):
        if self.where == where and self.index == self.faulty and self.seed == self.bad_seed:
            if self.how == "kill":
                os.kill(os.getpid(), signal.SIGKILL)
            raise ValueError("boom")

    bad_seed = 11

    def reset(self, seed=None, options=None):
        self.seed = seed
        self.fail("reset")
        result = super().reset(seed=seed, options=options)
        self.length = 10**9
        return result

    def step(self, action):
        if self.t == 2:
            self.fail("step")
        return super().step(action)


def flaky(**kwargs):
    """Four creators; that of environment 1 makes one which fails with seed 11."""
    return [functools.partial(toys.make_emulated, Flaky, i, **kwargs) for i in range(4)]


def step_rows(vecenv, seeds, steps):
    """What environment 1 shows: first observation, time, reward, flags, mask; and all infos."""
    rows, told = [], []
    vecenv.async_reset(seed=seeds)
    while len(rows) < steps:
        observations, rewards, terminals, truncations, infos, env_id, mask = vecenv.recv()
        told += infos
        for i in np.flatnonzero(env_id == 1):
            numbers = rewards[i], terminals[i], truncations[i], mask[i]
            rows.append((observations[i, 0], *map(float, (observations[i, 1], *numbers))))
        vecenv.send(np.ones(vecenv.agents_per_batch, np.int64))
    return rows, told


def without_first(rows):
    return [row[1:] for row in rows]


@on_all
@pytest.mark.filterwarnings(ANEW)
def test_a_step_that_fails_ends_the_episode_with_a_row_that_counts_for_nothing(build):
    vecenv = build(flaky(), restart=1)
    rows, told = step_rows(vecenv, [10, 11, 12, 13], 6)
    assert without_first(rows) == [
        # time, reward, terminal, truncated, mask
        (0, 0, 0, 0, 1),
        (1, 1, 0, 0, 1),
        (2, 1, 0, 0, 1),
        (2, 0, 0, 1, 0),  # lost: what was last seen
        (0, 0, 0, 0, 1),  # the new environment's first
        (1, 1, 0, 0, 1),
    ]
    assert rows[2][0] == rows[3][0]
    assert rows[4][0] == np.float32(toys.first_draw(restart_seed(11, 1)))
    (restarted,) = [info["restarted"] for info in told if "restarted" in info]
    assert list(restarted) == [1]
    assert restarted[1].startswith("environment 1 (seed 11) raised ValueError in step 3: boom\n")
    assert 'raise ValueError("boom")' in restarted[1]


@pytest.mark.filterwarnings(ANEW)
def test_the_transition_into_a_lost_row_and_that_out_of_it_train_nothing():
    with vector.make(flaky(), num_envs=4, restart=1) as vecenv:
        rows, _ = step_rows(vecenv, [10, 11, 12, 13], 6)
    columns = np.array(without_first(rows)).T[None]
    dones, masks = (columns[:, 2] + columns[:, 3]) > 0, columns[:, 4] > 0
    assert valid_transitions(masks, dones, False).tolist() == [[True, True, False, False, True]]


@on_all
@pytest.mark.filterwarnings(ANEW)
def test_a_reset_that_fails_is_done_again(build):
    vecenv = build(flaky(where="reset"), restart=1)
    rows, told = step_rows(vecenv, [10, 11, 12, 13], 2)
    assert without_first(rows) == [(0, 0, 0, 0, 1), (1, 1, 0, 0, 1)]
    assert rows[0][0] == np.float32(toys.first_draw(restart_seed(11, 1)))
    assert "raised ValueError in reset: boom" in told[0]["restarted"][1]


class FlakySameStep(toys.NativeSameStep):
    """Raises in its third step if it was reset with `seed` 5."""

    def reset(self, seed=None, options=None):
        self.fails, self.steps = seed == 5, 0
        return super().reset(seed, options)

    def step(self, actions):
        self.steps += 1
        if self.fails and self.steps == 3:
            raise ValueError("boom")
        return super().step(actions)


@on_all
@pytest.mark.filterwarnings(ANEW)
def test_a_lost_row_with_same_step_shows_the_next_episode_and_keeps_the_last(build):
    vecenv = build(FlakySameStep, restart=1)
    assert vecenv.autoreset_mode == AutoresetMode.SAME_STEP
    vecenv.async_reset(seed=[5, 6, 7, 8])
    shown, lost = None, False
    with toys.time_limit(20):  # the others may come many times meanwhile
        while True:
            observations, rewards, _, truncations, infos, env_id, mask = vecenv.recv()
            mine = np.isin(env_id, [0, 1])
            if mine.any() and lost:
                break
            if any("restarted" in info for info in infos):
                lost = True
                assert not mask[mine].any()
                assert truncations[mine].all()
                assert rewards[mine].tolist() == [0, 0]
                assert np.array_equal(vecenv.final_observations[mine], shown)
                generator = np.random.default_rng(restart_seed(5, 1))
                generator.integers(2, 6, 2)
                assert np.array_equal(observations[mine, 1], np.float32(generator.random(2)))
            if mine.any():
                shown = observations[mine].copy()
            vecenv.send(np.ones((vecenv.agents_per_batch, 2), np.float32))
    assert mask[mine].all()
    assert observations[mine, 0].tolist() == [1, 1]


@on_all
def test_restarts_end_after_so_many(build):
    vecenv = build(toys.faulty(), restart=2)
    with (
        pytest.warns(RuntimeWarning, match="environment 1 was made anew: environment 1 .*boom"),
        pytest.raises(WorkerError, match="raised ValueError in step") as caught,
    ):
        drive(vecenv, 10**4)
    assert "(it had been made anew restart=2 times before)" in str(caught.value)


def test_a_warning_for_each_restart_says_which_and_why():
    with (
        vector.make(flaky(), num_envs=4, restart=3) as vecenv,
        warnings.catch_warnings(record=True) as caught,
    ):
        warnings.simplefilter("always")
        step_rows(vecenv, [10, 11, 12, 13], 8)
    assert [str(w.message) for w in caught] == [
        "environment 1 was made anew: environment 1 (seed 11) raised ValueError in step 3: boom"
    ]
    assert issubclass(caught[0].category, RuntimeWarning)


def test_a_constructor_is_never_called_again_by_itself():
    with pytest.raises(WorkerError, match="raised ValueError in its constructor: boom in env 1"):
        vector.make(toys.faulty(where="constructor"), num_envs=4, restart=5)


@on_all
@pytest.mark.filterwarnings(ANEW)
def test_a_reset_after_a_lost_row_shows_everybody_again(build):
    vecenv = build(flaky(), restart=1)
    rows, _ = step_rows(vecenv, [10, 11, 12, 13], 4)
    assert rows[-1][-1] == 0
    rows, told = step_rows(vecenv, [20, 21, 22, 23], 3)
    assert without_first(rows) == [(0, 0, 0, 0, 1), (1, 1, 0, 0, 1), (2, 1, 0, 0, 1)]
    assert rows[0][0] == np.float32(toys.first_draw(21))
    assert told == []


@pytest.mark.filterwarnings(ANEW)
def test_a_state_taken_at_a_lost_row_goes_on_with_the_new_episode():
    actions = np.ones(4, np.int64)
    with vector.make(flaky(), num_envs=4, restart=1) as vecenv:
        vecenv.reset(seed=[10, 11, 12, 13])
        for _ in range(3):
            vecenv.step(actions)
        state = vecenv.get_state()
        expected = vecenv.step(actions)[0].copy()
    with (
        vector.make(flaky(), num_envs=4) as vecenv,
        pytest.raises(SnapshotError, match="environment 1: .* made anew; go on .* restart=1"),
    ):
        vecenv.set_state(state)
    with vector.make(flaky(), num_envs=4, restart=1) as vecenv:
        vecenv.set_state(state)
        assert vecenv.recv()[6].tolist() == [True, False, True, True]
        vecenv.send(actions)
        observations, *_, mask = vecenv.recv()
    assert mask.all()
    assert observations[[0, 2, 3]].tolist() == expected[[0, 2, 3]].tolist()
    assert observations[1].tolist()[1:] == [0, -1]


@pytest.mark.parametrize(("before", "after"), [(0, 1), (1, 0)])
def test_a_state_may_be_put_back_with_another_number_of_restarts(before, after):
    with vector.make(toys.make_draw, num_envs=4, restart=before) as vecenv:
        vecenv.reset()
        state = vecenv.get_state()
        expected = vecenv.step(ZEROS)[0].copy()
    with vector.make(toys.make_draw, num_envs=4, restart=after) as vecenv:
        vecenv.set_state(state)
        vecenv.recv()
        assert np.array_equal(vecenv.step(ZEROS)[0], expected)


def test_restart_seeds_are_children_of_the_environments_own():
    assert restart_seed(None, 3) is None
    assert [restart_seed(7, n) for n in (1, 2, 3)] == spread_seed(7, 3)


# -- workers that die ----------------------------------------------------------------------------

on_workers = pytest.mark.parametrize(
    "build",
    [
        "sync",
        *(
            pytest.param(name, marks=pytest.mark.slow)
            for name in ("sync4", "pool", "gather", "ray", "ray_gather")
        ),
    ],
    indirect=True,
)


@leaves_nothing
@pytest.mark.filterwarnings(ANEW)
@on_workers
def test_a_dead_worker_is_replaced_and_its_environments_are_lost(build):
    with build(flaky(how="kill"), restart=1) as vecenv:
        rows, told = step_rows(vecenv, [10, 11, 12, 13], 6)
    assert without_first(rows) == [
        (0, 0, 0, 0, 1),
        (1, 1, 0, 0, 1),
        (2, 1, 0, 0, 1),
        (2, 0, 0, 1, 0),
        (0, 0, 0, 0, 1),
        (1, 1, 0, 0, 1),
    ]
    assert rows[4][0] == np.float32(toys.first_draw(restart_seed(11, 1)))
    restarted = {i: text for info in told for i, text in info["restarted"].items()}
    assert set(restarted) == ({0, 1} if build.backend in ("sync", "ray") else {1})
    assert all("died while it was busy" in text for text in restarted.values())
    if build.backend not in toys.RAY:  # which knows no signals
        assert all("SIGKILL" in text for text in restarted.values())


@leaves_nothing
@pytest.mark.filterwarnings(ANEW)
@on_workers
def test_a_worker_that_dies_in_a_reset_is_replaced(build):
    with (
        build(flaky(how="kill", where="reset"), restart=1) as vecenv,
        pytest.raises(WorkerError, match="it had been made anew restart=1 times before"),
    ):
        step_rows(vecenv, [10, 11, 12, 13], 2)
    with build(toys.make_draw, restart=1) as vecenv:
        vecenv.async_reset(seed=3)
        vecenv.recv()
        os.kill(vecenv.call("pid")[1], signal.SIGKILL)
        vecenv.async_reset(seed=[20, 21, 22, 23])
        seen = {}
        while len(seen) < 4:
            observations, *_, env_id, mask = vecenv.recv()
            assert mask.all()
            for row, agent in zip(observations, env_id.tolist(), strict=True):
                seen.setdefault(agent, row[0])
            vecenv.send(np.zeros(vecenv.agents_per_batch, np.int64))
    assert seen == {i: np.float32(toys.first_draw(20 + i)) for i in range(4)}


on_one_crew = pytest.mark.parametrize(
    "build", ["sync", pytest.param("ray", marks=pytest.mark.slow)], indirect=True
)


@leaves_nothing
@pytest.mark.filterwarnings(ANEW)
@on_one_crew
def test_a_worker_that_dies_after_a_state_was_put_back_is_replaced(build):
    """Without a reset, so that nobody knows seeds or options."""
    with build(toys.make_draw) as vecenv:
        vecenv.reset()
        state = vecenv.get_state()
    with build(toys.make_draw, restart=1) as vecenv:
        vecenv.set_state(state)
        vecenv.recv()
        os.kill(vecenv.call("pid")[0], signal.SIGKILL)
        _, _, _, truncations, _ = vecenv.step(ZEROS)
        assert truncations.tolist() == [True, True, False, False]
        assert vecenv.step(ZEROS)[0][:, 1].tolist() == [0, 0, 2, 2]


class HangsOnce(toys.Draw):
    """Never ends its first reset, which leaves a `mark`; later ones outlast looks of the driver."""

    def __init__(self, mark):
        super().__init__()
        self.mark = mark

    def reset(self, seed=None, options=None):
        again = self.mark.exists()
        self.mark.touch()
        time.sleep(0.1 if again else 600)
        return super().reset(seed=seed, options=options)


@leaves_nothing
@pytest.mark.filterwarnings(ANEW)
@on_one_crew
def test_one_in_the_place_of_another_gets_the_whole_timeout(build, monkeypatch, tmp_path):
    now = [0.0]
    clock = types.SimpleNamespace(monotonic=lambda: now[0], sleep=time.sleep)
    driver, waiting = (
        ("ray_actors", "ray_handles") if build.backend == "ray" else ("workers", "shared")
    )
    mark = tmp_path / "mark"
    hangs = functools.partial(toys.make_emulated, HangsOnce, mark)
    vecenv = build([toys.make_draw, hangs, toys.make_draw, toys.make_draw], timeout=60, restart=1)
    monkeypatch.setattr(f"pufferlib.vector.{driver}.time", clock)
    monkeypatch.setattr(f"pufferlib.vector.{waiting}.PATIENCE", 0.02)
    vecenv.async_reset()
    assert wait_until(mark.exists, 20)
    now[0] = 61.0
    *_, mask = vecenv.recv()
    assert mask.all()
    vecenv.close()


@leaves_nothing
@pytest.mark.filterwarnings(ANEW)
@pytest.mark.parametrize(
    "context",
    ["fork", *(pytest.param(name, marks=pytest.mark.slow) for name in ("spawn", "forkserver"))],
)
def test_a_worker_killed_between_commands_is_replaced_under_every_start_method(context):
    with parallel(toys.make_draw, context=context, restart=1) as vecenv:
        vecenv.reset(seed=1)
        (first,) = (w for w in multiprocessing.active_children() if w.name.endswith("worker-0"))
        os.kill(first.pid, signal.SIGKILL)
        observations, _, _, truncations, infos = vecenv.step(ZEROS)
        assert truncations.tolist() == [True, True, False, False]
        assert sorted(i for info in infos for i in info["restarted"]) == [0, 1]
        assert vecenv.step(ZEROS)[0][:, 1].tolist() == [0, 0, 2, 2]


@leaves_nothing
def test_deaths_end_after_so_many():
    with (
        pytest.warns(RuntimeWarning, match="environment 1 was made anew: worker 0 .* died"),
        fails_soon(match=r"worker 0 .*SIGKILL[\s\S]*made anew restart=2 times before"),
    ):
        drive(parallel(toys.faulty(how="kill"), restart=2), 10**4)


@pytest.mark.parametrize("restart", [-1, 1.5, True, "2"])
def test_restart_is_a_count(restart):
    with pytest.raises(APIUsageError, match="restart: expected an int of at least 0, got"):
        vector.make(toys.make_draw, restart=restart)
