"""One contract for every family: each test runs on all environments of `families.CASES`.

What is special about a family is tested in a file of its own.
"""

import dataclasses
import inspect
import pickle
import subprocess
import sys

import numpy as np
import pytest
import torch
from families import CASES, one_per_family, params
from small_runs import small, update

from pufferlib import clean_pufferl, environments, vector
from pufferlib.exceptions import ConfigError
from pufferlib.testing import check_env, require_equal, rollout


@pytest.fixture
def case(request):
    """The case, where its family is installed."""
    row = request.param.task.row
    if not row.installed:
        pytest.skip("; ".join(row.remedies))
    return request.param


def on(cases):
    return pytest.mark.parametrize("case", params(cases), indirect=True)


def test_every_family_that_pip_can_install_is_played():
    can_run = {row.name for row in environments.ROWS.values() if not row.elsewhere}
    assert {case.task.row.name for case in CASES} == can_run


# -- what users name -----------------------------------------------------------------------------


@on(one_per_family())
def test_a_family_has_a_creator_its_options_and_policies(case):
    package, row = case.package, case.task.row
    assert package.__name__ == row.module
    options = {field.name: field.default for field in dataclasses.fields(package.EnvConfig)}
    creator = package.env_creator()
    assert named_arguments(creator).items() <= options.items()
    creator(**options).close()
    drawn_by_itself = options.get("render_mode", case.render_mode)
    assert (drawn_by_itself or "rgb_array") == case.render_mode, (
        "what puffer eval --render asks for"
    )
    assert "hidden_size" in inspect.signature(package.Policy).parameters
    with pytest.raises(AttributeError, match="has no attribute 'Polcy'"):
        package.Polcy  # noqa: B018


def named_arguments(creator):
    """The arguments that a creator names, with their defaults."""
    parameters = inspect.signature(creator).parameters.values()
    return {p.name: p.default for p in parameters if p.kind != inspect.Parameter.VAR_KEYWORD}


@on(one_per_family())
def test_an_unknown_task_gets_the_nearest_one(case):
    default, family = case.task.row.default, case.task.row.name
    with pytest.raises(ConfigError, match=f"unknown {family} task .*did you mean '{default}'"):
        case.package.env_creator(default + "x")


_UNPICKLE = """
import pickle, sys
banned = set(sys.argv[1:])
for creator in pickle.loads(sys.stdin.buffer.read()):
    env = creator()
    env.reset(seed=0)
    env.close()
assert not banned & set(sys.modules), banned & set(sys.modules)
"""


@on(one_per_family())
def test_creators_work_in_a_fresh_process_without_torch(case):
    row = case.task.row
    tasks = dict.fromkeys([row.default, *row.tasks.values()])
    creators = [case.package.env_creator(task) for task in tasks]
    banned = ["torch"] if row.extra else ["torch", "matplotlib", "pygame"]
    done = subprocess.run(
        [sys.executable, "-c", _UNPICKLE, *banned],
        input=pickle.dumps(creators),
        capture_output=True,
    )
    assert done.returncode == 0, done.stderr.decode()


# -- how they play -------------------------------------------------------------------------------


@on(CASES)
def test_an_environment_keeps_the_native_contract(case):
    env = case.creator(**case.options)
    check_env(env, steps=case.checked_steps)
    env.close()


@on(CASES)
def test_two_episodes_of_random_play_are_the_same_in_workers(case):
    assert 2 * case.num_envs * case.steps + 4 * case.checked_steps >= 300
    serial = play(case, backend="serial")
    workers = play(case, backend="multiprocessing", num_workers=case.num_envs)
    for record in (serial, workers):
        assert episodes(record, case.num_envs).min() >= 2
    require_equal(serial, workers)


def play(case, **backend):
    """Random play through a backend."""
    envs = {"num_envs": case.num_envs, "env_kwargs": case.options}
    with vector.make(case.creator, **envs, **backend) as vecenv:
        return rollout(vecenv, case.steps, seed=5)


def episodes(record, num_envs):
    """How many episodes of each environment ended: one ends when its last agent does."""
    ended = record.terminals | record.truncations
    per_env = (len(ended), num_envs, -1)
    gone = (ended | ~record.masks).reshape(per_env).all(axis=2)
    return (gone & ended.reshape(per_env).any(axis=2)).sum(axis=0)


@on(CASES)
def test_pictures_need_no_display(case, monkeypatch):
    monkeypatch.delenv("DISPLAY", raising=False)
    env = case.creator(**case.options | {"render_mode": case.render_mode})
    env.reset(seed=1)
    picture = env.render()
    if case.render_mode == "ansi":
        assert picture.strip()
    else:
        assert (picture.dtype, picture.ndim, picture.shape[2]) == (np.uint8, 3, 3)
        assert picture.min() < picture.max(), "more than one shade"
    env.close()


@on(CASES)
def test_every_weight_of_its_policies_learns(case, tmp_path):
    package = case.package
    policies = {
        "plain": lambda env, policy: policy,
        "recurrent": getattr(package, "Recurrent", None),
    }
    for kind, wrap in policies.items():
        if wrap is None:
            continue
        torch.manual_seed(0)
        vecenv = vector.make(case.creator, num_envs=case.num_envs, env_kwargs=case.options)
        policy = wrap(vecenv.driver_env, package.Policy(vecenv.driver_env))
        trainer = clean_pufferl.create(small(), vecenv, policy, tmp_path / kind)
        before = {name: weight.detach().clone() for name, weight in policy.named_parameters()}
        update(trainer, times=1)
        still = [name for name, w in policy.named_parameters() if torch.equal(w, before[name])]
        clean_pufferl.close(trainer)
        assert still == [], kind
