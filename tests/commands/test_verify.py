"""`puffer verify`: what it demands, what it says, and what its numbers are made of."""

import dataclasses
import json
from types import SimpleNamespace

import numpy as np
import pytest

from pufferlib import environments
from pufferlib.cli import main
from pufferlib.commands import trials
from pufferlib.commands.trials import Demand, Outcome, Trial
from pufferlib.exceptions import ConfigError

BOARD = Demand(score=0.9, critic=0.1)
GOOD = Outcome(score=0.95, critic=0.05, learnt=1000, played=990, unfinished=20)


def verify(monkeypatch, demand, *options):
    """The exit code of the command with one trial, trained for a single update."""
    tiny = {"total_timesteps": 256, "bptt_horizon": 4, "update_epochs": 1}
    demand = dataclasses.replace(demand, train=tiny | dict(demand.train))
    trial = Trial(env="multiagent", full=demand, quick=demand, meaning="they cross", episodes=1)
    monkeypatch.setattr(trials, "TRIALS", (trial,))
    return main(["verify", "--envs", "multiagent", *options])


def test_passing_trial_as_json(monkeypatch, capsys):
    assert verify(monkeypatch, Demand(score=0), "--json", "--quick", "--seed", "3") == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["passed"], told["quick"], told["seed"]) == (True, True, 3)
    (trial,) = told["trials"]
    assert trial["env"] == "multiagent"
    assert trial["failures"] == []
    assert trial["learnt"] == 256
    assert 0 <= trial["score"] <= 1
    assert trial["critic"] is not None
    assert trial["spread"] < 1e-5
    assert trial["error"] is None


def test_failing_trial_says_what_it_means(monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "200")
    assert verify(monkeypatch, Demand(score=1.01)) == 1
    text = capsys.readouterr().out
    assert "1.010" in text
    assert "< 1.01: they cross" in text
    assert "1 of 1 failed: multiagent." in text


def test_errors_are_outcomes(monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "200")
    assert verify(monkeypatch, Demand(score=0, train={"gama": 1})) == 1
    text = capsys.readouterr().out
    assert "ConfigError: overrides: unknown key 'train.gama'" in text
    assert "the run broke off" in text


def test_unknown_environment_names_the_nearest(capsys):
    assert main(["verify", "--envs", "memry"]) == 2
    assert "--envs: unknown environment 'memry'; did you mean memory?" in capsys.readouterr().err
    assert main(["verify", "--seed", "-1"]) == 2
    assert "--seed: expected at least 0, got -1" in capsys.readouterr().err


def test_every_sanity_environment_has_a_trial():
    native = {name for name in environments.ROWS["ocean"].tasks if name.endswith("_native")}
    names = [trial.env for trial in trials.TRIALS]
    assert len(names) == len(set(names)) == 7
    assert set(names) <= set(environments.ROWS["ocean"].tasks) - native
    assert [trial.env for trial in trials.find(["memory", "squared"])] == ["squared", "memory"]
    with pytest.raises(ConfigError, match="unknown environment 'cartpole'"):
        trials.find(["squared", "cartpole"])


@pytest.mark.parametrize("trial", trials.TRIALS, ids=lambda trial: trial.env)
@pytest.mark.parametrize("level", ["full", "quick"])
def test_trials_use_settings_that_exist_and_a_pool_that_is_gathered(trial, level):
    config = trials.configure(trial.env, getattr(trial, level), seed=5)
    config.validate()
    assert config.score_key == "score"
    assert config.train.seed == 5
    assert config.vec.backend == "multiprocessing"
    assert config.vec.num_envs == 2 * config.vec.batch_size
    assert config.vec.num_envs % config.vec.num_workers == 0
    assert not config.vec.zero_copy


def test_nothing_is_wrong_with_what_was_demanded():
    assert GOOD.failures(BOARD, "that") == []
    assert dataclasses.replace(GOOD, critic=None).failures(Demand(score=0.9), "that") == []


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"score": 0.899}, "score 0.899 < 0.9: that"),
        ({"score": float("nan")}, "score nan < 0.9: that"),
        ({"critic": 0.101}, "critic off by 0.101, at most 0.1"),
        ({"critic": None}, "critic episodes never begin, at most 0.1"),
        ({"spread": 0.002}, "equal first observations are valued 0.002 apart, at most 0.001"),
        ({"played": 979}, "learnt from 1,000 steps, played 979"),
        ({"played": 1021}, "learnt from 1,000 steps, played 1,021"),
        ({"score": None, "error": "OSError: no"}, "OSError: no: the run broke off"),
    ],
)
def test_each_number_is_judged(changes, text):
    (failure,) = dataclasses.replace(GOOD, **changes).failures(BOARD, "that")
    assert failure.startswith(text)


def test_returns_to_the_end_of_the_episode():
    rewards = np.array([[1, 2, 4, 8], [1, 1, 1, 1]], np.float32)
    dones = np.array([[0, 1, 0, 0], [1, 0, 0, 1]], bool)
    expected = [[2, 2, np.nan, np.nan], [1, 1.75, 1.5, 1]]
    np.testing.assert_array_equal(trials.returns_to_end(rewards, dones, 0.5), expected)


def test_critic_is_measured_where_whole_episodes_begin():
    segments = SimpleNamespace(
        rewards=np.array([[0, 1, 9, 1, 0]], np.float32),
        dones=np.array([[0, 1, 0, 1, 0]], bool),
        # The row after an end is that of the reset, on which nobody acts; the last has no end.
        starts=np.array([[1, 0, 0, 1, 1]], bool),
        valid=np.array([[1, 1, 0, 1, 1]], bool),
        values=np.array([[0.25, 9, 9, 1.5, 9]], np.float32),
    )
    # Returns 0.5 and 1, values 0.25 and 1.5.
    assert trials.critic_error(segments, 0.5) == 0.125
    segments.starts[:] = False
    assert trials.critic_error(segments, 0.5) is None


def test_spread_is_that_of_equal_first_observations():
    segments = SimpleNamespace(
        observations=np.array([[[1, 2], [1, 2], [1, 2]], [[1, 2], [3, 4], [3, 5]]], np.int8),
        starts=np.array([[1, 0, 1], [1, 1, 1]], bool),
        valid=np.array([[1, 1, 0], [1, 1, 1]], bool),
        values=np.array([[0.5, 9, 9], [0.25, 7, 8]], np.float32),
    )
    assert trials.spread_of_starts(segments) == 0.25
    segments.starts[1, 0] = False  # now none is there twice
    assert trials.spread_of_starts(segments) is None
    segments.starts[:] = False
    assert trials.spread_of_starts(segments) is None
