"""`autotune` on real environments: what is measured in workers, and how failures are told."""

import functools
import os
import time

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete
from gymnasium.vector import AutoresetMode

import pufferlib
from pufferlib import vector
from pufferlib.emulation import GymnasiumPufferEnv
from pufferlib.exceptions import APIUsageError, SpaceError, WorkerError
from pufferlib.vector.tuning.bench import Bench
from pufferlib.vector.tuning.result import creator_text
from pufferlib.vector.tuning.settings import Setting


def serial(n):
    return Setting(n, 0, n)


def workers(w, n, batch=None):
    return Setting(n, w, batch or n)


class Waits(gymnasium.Env):
    """Sleeps in every step, so that its speed does not depend on who else uses the machine."""

    observation_space = Box(-1, 1, (4,), np.float32)
    action_space = Discrete(3)
    made = 0

    def __init__(self, seconds=0.0, fail=None):
        self.seconds, self.fail, self.t = seconds, fail, 0
        Waits.made += 1
        self.failing("make")
        if Waits.made > 1:
            self.failing("second")

    def failing(self, where):
        kind, _, place = (self.fail or "").partition(" ")
        if place != where:
            return
        if kind == "hang":
            time.sleep(60)
        if kind == "die":
            os._exit(3)
        raise ZeroDivisionError("the dice are gone")

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t = 0
        return np.zeros(4, np.float32), {}

    def step(self, action):
        assert 0 <= action < 3
        time.sleep(self.seconds)
        self.t += 1
        self.failing("step")
        return np.zeros(4, np.float32), 0.0, self.t == 3, False, {}


def make_waits(seconds=0.0, fail=None):
    return GymnasiumPufferEnv(Waits(seconds, fail))


@pytest.fixture(autouse=True)
def nothing_made_here():
    yield
    assert Waits.made == 0, "an environment came into the caller's process"


def bench(policy=None, **kwargs):
    timeout = 0.3 if kwargs.get("fail", "").startswith("hang") else 30.0
    return Bench(functools.partial(make_waits, **kwargs), policy, None, timeout)


def test_a_profile_of_a_real_environment(nothing_left):
    calls = []
    profile = bench(lambda rows: calls.append(rows.shape), seconds=0.002).profile(0.04)
    assert profile.num_agents == 1
    assert profile.step_seconds >= 0.002
    # Every fourth step is a reset.
    assert profile.resets == pytest.approx(profile.steps / 3, abs=1)
    assert 0 < profile.reset_share < 1
    assert profile.step_bytes == 4 * 4 + 8 + 4 + 3
    assert profile.shares_process
    assert not profile.resets_in_step
    assert profile.env_bytes >= 0
    assert profile.worker_bytes > 1_000_000
    assert profile.policy_seconds > 0
    assert set(calls) == {(1, 4)}


@pytest.mark.parametrize("kind", ["raise", "die"])
def test_an_environment_that_exists_once_per_process_is_noticed(kind, nothing_left):
    profile = bench(fail=f"{kind} second").profile(0.01)
    assert not profile.shares_process
    assert profile.env_bytes >= 0


class Flock(pufferlib.PufferEnv):
    """Three agents that reset themselves within the step."""

    autoreset_mode = AutoresetMode.SAME_STEP
    single_observation_space = Box(-1, 1, (2,), np.float32)
    single_action_space = Discrete(2)
    num_agents = 3

    def reset(self, seed=None, options=None):
        return []

    def step(self, actions):
        self.terminals[:] = True
        return []


def test_resets_within_a_step_cannot_be_told_apart():
    profile = Bench(Flock, None, None, 10.0).profile(0.01)
    assert profile.resets_in_step
    assert (profile.num_agents, profile.resets, profile.reset_share) == (3, 0, 0.0)
    assert profile.step_bytes == 3 * (8 + 8 + 4 + 3) + 3 * 8  # with the final observations


@pytest.mark.parametrize("setting", [serial(2), workers(2, 2), workers(2, 4, 2)], ids=str)
def test_a_trial_counts_rows_and_asks_the_policy(setting, nothing_left):
    shapes = []

    def policy(rows):
        shapes.append(rows.shape)
        return np.zeros(len(rows), int)

    real = bench(policy, seconds=0.001)
    real.profile(0.01)
    shapes.clear()
    with real.open(setting) as trial:
        ran = trial(0.02)
    assert set(shapes) == {(2, 4)}
    assert ran.rows > 0
    assert ran.rows % 2 == 0
    assert ran.seconds >= 0.02
    assert 0 < ran.policy_seconds < ran.seconds
    if setting.num_workers:
        assert ran.rows == 2 * len(shapes)


@pytest.mark.parametrize(
    ("fail", "message"),
    [
        ("raise make", "alone in a worker: environment 0 .* raised ZeroDivisionError in its cons"),
        ("raise step", "alone in a worker: environment 0 .* raised ZeroDivisionError in step 1"),
        ("die step", "alone in a worker: worker 0 .* died during a call: exit code 3"),
        ("hang make", r"alone in a worker: an environment was not made, .* within 0\.3 s: it hang"),
        ("hang step", r"alone in a worker: an environment was not made, .* within 0\.3 s: it hang"),
    ],
)
def test_a_failure_in_the_profile_is_named(fail, message, nothing_left):
    with pytest.raises(WorkerError, match=message):
        bench(fail=fail).profile(0.01)


def run_twice(real, setting):
    """The first run may end with the rows of the reset."""
    with real.open(setting) as trial:
        trial(0.01)
        trial(0.01)


@pytest.mark.parametrize("setting", [serial(2), workers(2, 2)], ids=str)
@pytest.mark.parametrize(
    ("fail", "message"),
    [
        ("raise make", "raised ZeroDivisionError in its constructor"),
        ("raise step", "raised ZeroDivisionError in step 1"),
        ("hang step", r"within 0\.3 s"),
    ],
)
def test_a_failure_in_a_trial_names_the_setting(setting, fail, message, nothing_left):
    with pytest.raises(WorkerError, match=f"^{setting}: .*{message}"):
        run_twice(bench(fail=fail), setting)


def test_actions_that_do_not_fit_are_the_policys_fault(nothing_left):
    with (
        pytest.raises(SpaceError, match="actions"),
        bench(lambda rows: np.zeros(7, int)).open(workers(2, 2)) as trial,
    ):
        trial(0.01)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"env_creator": [make_waits]}, "env_creator: expected one class or function, got list"),
        ({"seconds": 0}, "seconds: expected more than 0, got 0"),
        ({"num_envs": 0}, "num_envs: expected more than 0, got 0"),
        ({"max_envs": -1}, "max_envs: expected more than 0, got -1"),
        ({"max_bytes": 0}, "max_bytes: expected more than 0, got 0"),
        ({"timeout": float("nan")}, "timeout: expected more than 0, got nan"),
    ],
)
def test_impossible_arguments_are_refused(arguments, message):
    with pytest.raises(APIUsageError, match=message):
        vector.autotune(**({"env_creator": make_waits} | arguments))


class Opaque:
    """An argument without a literal."""


@pytest.mark.parametrize(
    ("creator", "args", "kwargs", "text"),
    [
        (make_waits, (), {}, "make_waits"),
        (lambda: None, (), {}, "env_creator"),
        (functools.partial(make_waits, 1), (), {}, "env_creator"),
        (np.random.default_rng(0).random, (), {}, "env_creator"),
        (Waits, (0.5,), {"fail": None}, "Waits, env_args=(0.5,), env_kwargs={'fail': None}"),
        (Waits, (Opaque(),), {"a": np.ones(2)}, "Waits, env_args=env_args, env_kwargs=env_kwargs"),
    ],
)
def test_the_line_names_the_creator_and_its_arguments(creator, args, kwargs, text):
    assert creator_text(creator, args, kwargs) == text


@pytest.mark.slow
def test_two_workers_are_recommended_where_they_are_faster(monkeypatch, capsys, nothing_left):
    monkeypatch.setattr("pufferlib.vector.tuning.search.available_cores", lambda: 2)
    result = vector.autotune(make_waits, (0.005,), seconds=10, num_envs=4, pools=False)
    rates = {found.setting: found.rate for found in result.measurements}
    assert set(rates) == {workers(2, 4), serial(4)}
    assert rates[workers(2, 4)] > 1.4 * rates[serial(4)]
    assert result.steps_per_second == rates[workers(2, 4)]
    assert result.profile.step_seconds >= 0.005
    line = capsys.readouterr().out.splitlines()[-1]
    assert (
        line
        == str(result)
        == (
            "pufferlib.vector.make(make_waits, env_args=(0.005,), backend='multiprocessing', "
            "num_envs=4, num_workers=2)"
        )
    )
    with eval(line) as vecenv:
        assert vecenv.num_agents == 4


@pytest.mark.slow
@pytest.mark.parametrize("context", ["forkserver", "spawn"])
def test_other_start_methods(context, nothing_left):
    result = vector.autotune(make_waits, num_envs=2, seconds=2, context=context, show=False)
    assert result.steps_per_second > 0
