"""`puffer autotune`: what it measures, what it stores, and what training takes from there."""

import json
import re

import numpy as np
import pytest

import pufferlib
from pufferlib.cli import main
from pufferlib.commands import autotune as command
from pufferlib.exceptions import WorkerError
from pufferlib.vector.tuning.profile import Profile
from pufferlib.vector.tuning.rates import Measurement, Slice
from pufferlib.vector.tuning.result import Tuning
from pufferlib.vector.tuning.settings import Setting

PROFILE = Profile(1, 1000, 1e-4, 0.0, 10, 0.1, False, 10, 10, 10, True, 1e-3)


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    return tmp_path / "pufferlib" / "autotune"


@pytest.fixture
def asked(monkeypatch):
    """What the command asks the library for; the answer is always the same."""
    calls = []

    def find_fastest(creator, **kwargs):
        calls.append({"creator": creator, **kwargs})
        setting = Setting(16, 2, 8)
        found = Measurement(setting, (Slice(1000, 1.0, 0.5),))
        text = f"make_squared, env_kwargs={kwargs['env_kwargs']!r}"
        return Tuning(setting.make_kwargs, 1000.0, PROFILE, (found,), text, ())

    monkeypatch.setattr(command, "find_fastest", find_fastest)
    return calls


def resolved_vec(capsys, *options):
    capsys.readouterr()
    assert main(["train", "squared", "--print-config", *options]) == 0
    return json.loads(capsys.readouterr().out)["vec"]


def test_the_result_is_shown_and_stored_and_training_takes_it(asked, cache, capsys):
    assert main(["autotune", "squared", "--env.num-targets", "2"]) == 0
    out = capsys.readouterr().out
    (path,) = cache.iterdir()
    assert f"stored in {path}\n" in out
    assert command.POOL_WARNING in out
    assert out.endswith("train with it: puffer train squared --env.num-targets 2 --vec.auto True\n")
    (line,) = re.findall(r"^pufferlib\.vector\.make\(.*\)$", out, re.MULTILINE)
    with eval(line) as vecenv:
        assert (vecenv.num_envs, vecenv.num_workers, vecenv.agents_per_batch) == (16, 2, 8)
        assert vecenv.get_attr("num_targets", indices=[0]) == [2]
    options = ("--env.num-targets", "2", "--vec.auto", "True")
    tuned = {"backend": "multiprocessing", "num_envs": 16, "num_workers": 2, "batch_size": 8}
    assert resolved_vec(capsys, *options) == {
        **tuned,
        "zero_copy": True,
        "seed": None,
        "timeout": None,
        "restart": 0,
        "auto": False,
    }
    assert resolved_vec(capsys, *options, "--vec.num-envs", "32")["num_envs"] == 32
    assert resolved_vec(capsys)["backend"] == "serial"  # the packaged file


def test_the_command_line_goes_over_what_is_stored_over_a_file(asked, cache, capsys):
    assert main(["autotune", "squared"]) == 0
    (cache / "mine.toml").write_text("[vec]\nauto = true\nnum_workers = 7\nseed = 3\n")
    vec = resolved_vec(capsys, "--config", str(cache / "mine.toml"), "--vec.batch-size", "16")
    assert (vec["num_workers"], vec["batch_size"], vec["seed"]) == (2, 16, 3)


def test_without_a_result_training_tells_the_command(capsys):
    options = ["--vec.auto", "True", "--env.num-targets", "2"]
    assert main(["train", "squared", *options]) == 2
    assert "measure once with: puffer autotune squared --env.num-targets 2\n" in (
        capsys.readouterr().err
    )


def test_what_is_asked_of_the_library(asked):
    assert main(["autotune", "squared"]) == 0
    usual = asked[-1]
    assert usual["creator"] is pufferlib.environments.load("squared").env_creator("squared")
    assert usual["env_kwargs"] == {
        "distance_to_target": 3,
        "num_targets": 1,
        "render_mode": "ansi",
    }
    names = ("num_envs", "pools", "seconds", "timeout", "show")
    assert [usual[name] for name in names] == [64, True, 60.0, 60.0, False]
    options = ["--max-envs", "128", "--no-pools", "--seconds", "5", "--timeout", "2"]
    assert main(["autotune", "squared", *options]) == 0
    assert [asked[-1][name] for name in names] == [None, False, 5.0, 2.0, False]
    assert asked[-1]["max_envs"] == 128
    assert main(["autotune", "squared", "--vec.num-envs", "6"]) == 0
    assert asked[-1]["num_envs"] == 6


@pytest.mark.parametrize("options", [[], ["--use-rnn"]])
def test_the_policy_is_the_one_that_would_be_trained(options, asked):
    assert main(["autotune", "squared", *options]) == 0
    policy = asked[-1]["policy"]
    for rows in (1, 5):
        actions = policy(np.zeros((rows, 7, 7), np.int8))
        assert actions.shape == (rows,)
        assert set(actions) <= set(range(8))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["sqared"], "did you mean 'squared'?"),
        ([], "the environment comes first"),
        (["squared", "--second", "1"], "did you mean --seconds?"),
        (["squared", "--seconds", "0"], "--seconds: expected more than 0, got 0"),
        (["squared", "--max-envs", "-1"], "--max-envs: expected more than 0, got -1"),
        (["squared", "--timeout", "0"], "--timeout: expected more than 0, got 0"),
        (["squared", "--config", "nowhere.toml"], "nowhere.toml: No such file"),
        (["squared", "--vec.num-envs", "0"], "vec.num_envs: expected at least 1, got 0"),
    ],
)
def test_mistakes_exit_with_2(words, message, asked, cache, capsys):
    assert main(["autotune", *words]) == 2
    assert message in capsys.readouterr().err
    assert asked == []
    assert not cache.exists()


def test_a_failing_environment_exits_with_1_and_stores_nothing(monkeypatch, cache, capsys):
    def fail(creator, **kwargs):
        raise WorkerError("backend='serial', num_envs=64: environment 0 raised")

    monkeypatch.setattr(command, "find_fastest", fail)
    assert main(["autotune", "squared"]) == 1
    assert "backend='serial', num_envs=64: environment 0 raised" in capsys.readouterr().err
    assert not cache.exists()


def test_help_shows_the_options(capsys):
    with pytest.raises(SystemExit) as stopped:
        main(["autotune", "squared", "--help"])
    assert stopped.value.code == 0
    text = capsys.readouterr().out
    assert all(option in text for option in ("--max-envs", "--seconds", "--env.num-targets"))


@pytest.mark.slow
def test_measure_then_train(capsys):
    assert main(["autotune", "squared", "--seconds", "3", "--vec.num-envs", "4"]) == 0
    assert "recommended" in capsys.readouterr().out
    options = ["--train.total-timesteps", "512", "--train.loggers", "none"]
    assert main(["train", "squared", "--vec.auto", "True", *options]) == 0
