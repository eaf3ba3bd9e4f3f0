"""The deliberate bugs: that each is one, and stands where the package has the function."""

import importlib
import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from pufferlib.commands import trials

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"

sys.path.insert(0, str(BENCHMARKS))
bugs = importlib.import_module("bugs")
mutations = importlib.import_module("mutations")
sys.path.pop(0)


@pytest.mark.parametrize("bug", bugs.BUGS, ids=lambda bug: bug.name)
def test_target_exists_and_a_trial_is_there_to_find_it(bug):
    owner, name = bug.locate()
    assert callable(getattr(owner, name))
    assert bug.env in mutations.ENVS


def test_missing_target_is_an_error_not_a_bug_without_effect():
    gone = bugs.Bug("gone", "pufferlib.vector.base:VecEnv.recieve", print, "squared")
    with pytest.raises(
        AttributeError, match=r"gone: pufferlib.vector.base:VecEnv.recieve does not"
    ):
        gone.install()


def test_bug_takes_the_place_of_the_function_and_tells_when_it_was_reached(monkeypatch):
    from pufferlib.vector import base

    monkeypatch.setattr(base, "env_seeds", base.env_seeds)  # put back afterwards
    was_reached = bugs.BY_NAME["seeds equal"].install()
    assert not was_reached()
    assert base.env_seeds([7, 8, 9], 3) == [7, 7, 7]
    assert was_reached()


# -- what each does ----------------------------------------------------------------------------


def echo(*args):
    return args


def test_states():
    assert bugs.state_never_reset(echo, "wrapper", 1, 2, "starts") == ("wrapper", 1, 2, None)
    state = (torch.tensor([[1, 2, 3]]),)
    (found,) = bugs.state_of_another_agent(lambda *_: state, None, None)
    assert found.tolist() == [[3, 1, 2]]
    assert bugs.state_of_another_agent(lambda *_: None, None, None) is None


def test_crossings():
    written = []
    places = [SimpleNamespace(write=lambda rows, i=i: written.append((i, rows))) for i in (0, 1)]
    team = [SimpleNamespace(index=4), SimpleNamespace(index=6)]
    vecenv = SimpleNamespace(_places=places, _batch=team, _rows={4: "a", 6: "b"}, _gathered="rows")
    assert bugs.workers_crossed(None, vecenv) == "rows"
    assert written == [(1, "a"), (0, "b")]
    assert bugs.agents_crossed(lambda *_: {1: "left", 2: "right"}, None, None) == {
        1: "right",
        2: "left",
    }


def test_advantages():
    rewards = np.array([[1, 2, 3]], np.float32)
    ends = np.array([[0, 1, 0]], bool)
    late, *rest = bugs.reward_of_the_step_before(echo, rewards, "values")
    assert late.tolist() == [[0, 1, 2]]
    assert rest == ["values"]
    *_, terminals, dones, valid = bugs.advantage_across_episodes(
        echo, rewards, rewards, rewards, ends, ends, "valid"
    )
    assert not terminals.any()
    assert not dones.any()
    assert valid == "valid"
    masks, dones, same_step = bugs.mask_ignored(echo, ~ends, ends, False)
    assert masks.all()
    assert not dones.any()
    assert same_step is False


def test_observations_and_actions():
    rows = torch.arange(4)[None]
    assert bugs.bytes_reordered(lambda x, _: x, rows, "leaf").tolist() == [[3, 0, 1, 2]]
    sent = []
    for space in (SimpleNamespace(n=3), SimpleNamespace(nvec=np.array([3, 2]))):
        vecenv = SimpleNamespace(single_action_space=space)
        bugs.action_offset(lambda _, actions: sent.append(actions.tolist()), vecenv, [0, 1])
    assert sent == [[1, 2], [1, 1]]
    vecenv = SimpleNamespace(num_agents=2)
    batches = iter([[[5.0], [6.0]], [[7.0], [8.0]]])

    def recv(_):
        return np.array(next(batches)), None, None, None, None, np.array([1, 0]), None

    assert bugs.stale_observation(recv, vecenv)[0].tolist() == [[0], [0]]
    assert bugs.stale_observation(recv, vecenv)[0].tolist() == [[5], [6]]


def test_losses():
    assert bugs.entropy_sign(lambda *_: (1, 2, 3)) == (1, 2, -3)

    def init(batch):
        batch._valid = np.array([[True, False], [True, True]])
        batch._advantages = torch.tensor([1.0, 0.0, 3.0, 5.0])
        batch._values = torch.tensor([10.0, 20.0, 30.0, 40.0])

    batch = SimpleNamespace()
    bugs.normalisation_leak(init, batch)
    expected = torch.tensor([-1.0, 0.0, 0.0, 1.0]) * 1.5**0.5
    torch.testing.assert_close(batch._advantages, expected)
    torch.testing.assert_close(batch._returns, expected + batch._values)


# -- the study ---------------------------------------------------------------------------------


def ran(bug, env, seed, caught, reached=True):
    return {"bug": bug, "env": env, "seed": seed, "caught": caught, "reached": reached}


def test_table_counts_seeds():
    runs = [
        *(ran("none", env, seed, False) for env in ("squared", "bandit") for seed in (1, 2)),
        ran("mask ignored", "squared", 1, True),
        ran("mask ignored", "squared", 2, False),
        ran("mask ignored", "bandit", 1, True),
        ran("mask ignored", "bandit", 2, True),
        ran("agents crossed", "squared", 1, False, reached=False),
        ran("agents crossed", "multiagent", 1, True),
    ]
    lines = [line.strip("| ").split(" | ") for line in mutations.as_markdown(runs).splitlines()]
    head, _, none, crossed, mask = lines
    assert head == ["bug", *(trial.env for trial in trials.TRIALS), "together"]
    assert dict(zip(head, none, strict=True))["squared"] == "0/2"
    assert dict(zip(head, none, strict=True))["memory"] == "–"
    assert dict(zip(head, crossed, strict=True))["squared"] == "·"
    assert dict(zip(head, crossed, strict=True))["together"] == "1/1"
    assert dict(zip(head, mask, strict=True))["squared"] == "1/2"
    assert mask[-1] == "2/2"


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_three_bugs_are_found(tmp_path):
    names = ["mask ignored", "agents crossed", "normalisation leak"]
    subprocess.run(
        [sys.executable, BENCHMARKS / "mutations.py", "--quick", "--own", "--seeds", "1"]
        + ["--bugs", *names, "--results", tmp_path],
        check=True,
    )
    found = [json.loads(file.read_text()) for file in tmp_path.glob("*.json")]
    assert sorted(run["bug"] for run in found) == sorted(names)
    assert all(run["reached"] and run["caught"] for run in found)
