"""`puffer new-env`: what it writes, what it refuses, and that what it writes works."""

import copy
import importlib
import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest

from pufferlib.cli import main
from pufferlib.commands import new_env
from pufferlib.exceptions import ConfigError, EnvironmentSetupError
from pufferlib.trainer import checkpoint
from pufferlib.trainer.evaluate import evaluate_policy
from pufferlib.trainer.runs import find_checkpoint
from pufferlib.trainer.setup import load_config, make_vecenv, policy_of_checkpoint

COMMON = ["__init__.py", "{}.py", "{}.toml", "test_{}.py"]


@pytest.fixture
def here(tmp_path, monkeypatch):
    """An empty working directory whose packages `new_…` are forgotten afterwards."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    yield tmp_path
    for name in [name for name in sys.modules if name.startswith("new_")]:
        del sys.modules[name]


@pytest.mark.parametrize(
    ("native", "more"), [(False, []), (True, ["{}.c", "native.py"])], ids=["python", "native"]
)
def test_a_package_is_written_whole(here, native, more):
    files = new_env.write("new_game", native)
    names = sorted(name.format("new_game") for name in COMMON + more)
    assert sorted(path.name for path in files) == names
    assert sorted(path.name for path in Path("new_game").iterdir()) == names
    for path in files:
        text = path.read_text()
        assert not {"$", "NAME"} & set(text.split()), path
        assert "NewGame" in text or path.name == "native.py"
        if path.suffix == ".py":
            compile(text, str(path), "exec")
    settings = tomllib.loads(Path("new_game", "new_game.toml").read_text())
    assert settings["vec"] == {"backend": "serial", "num_envs": 1}


@pytest.mark.parametrize(
    ("name", "expected"), [("my_game", "MyGame"), ("a2c", "A2c"), ("go_9x9_", "Go9x9")]
)
def test_the_class_is_named_after_the_package(name, expected):
    assert new_env.class_name(name) == expected


@pytest.mark.parametrize("name", ["My", "1st", "my-game", "my.game", "", "_x", "class", "none"])
def test_names_that_no_package_can_have(here, name):
    with pytest.raises(ConfigError, match=f"NAME: expected small letters.*got '{name}'"):
        new_env.write(name)
    assert not list(here.iterdir())


@pytest.mark.parametrize("name", ["random", "torch"])
def test_a_package_hides_no_other(here, name):
    with pytest.raises(ConfigError, match=f"finds a module '{name}' already; choose another"):
        new_env.write(name)


def test_nothing_is_written_over(here):
    Path("new_game").mkdir()
    with pytest.raises(ConfigError, match="new_game exists already; choose another name"):
        new_env.write("new_game")
    Path("file").touch()
    with pytest.raises(ConfigError, match="cannot write file/new_other: Not a directory"):
        new_env.write("new_other", directory=Path("file"))


def test_the_command_says_how_to_go_on(here, capsys):
    assert main(["new-env", "new_game", "--directory", "deep/down"]) == 0
    *files, _, go, test, train, watch = capsys.readouterr().out.splitlines()
    assert files == [str(path) for path in map(Path, files) if path.is_file()]
    assert go == "go there  cd deep/down"
    assert test == "test it   pytest new_game"
    assert train == "train it  puffer train new_game:NewGame"
    assert watch == "watch it  puffer eval new_game:NewGame --render"
    assert main(["new-env", "1st"]) == 2
    assert "NAME: expected" in capsys.readouterr().err


def test_a_missing_compiler_is_told_at_once_and_when_it_is_needed(here, monkeypatch, capsys):
    monkeypatch.setattr(shutil, "which", lambda name: None)
    assert main(["new-env", "new_game", "--native"]) == 0
    assert "install a C compiler" in capsys.readouterr().out
    monkeypatch.setenv("CC", "no-such-compiler")
    assert main(["train", "new_game:NewGame"]) == 1
    error = capsys.readouterr().err
    assert "new_game.c needs a C compiler, but 'no-such-compiler' cannot be run" in error
    assert "or name yours in CC" in error


def test_what_the_compiler_refuses_is_shown(here, monkeypatch):
    new_env.write("new_game", native=True)
    Path("new_game", "compiler").write_text("#!/bin/sh\necho 'line 1: no' >&2\nexit 1\n")
    Path("new_game", "compiler").chmod(0o755)
    monkeypatch.setenv("CC", "new_game/compiler")
    with pytest.raises(EnvironmentSetupError, match=r"(?s)new_game\.c failed:.*line 1: no"):
        importlib.import_module("new_game")
    assert list(Path("new_game", "__pycache__").glob("*.so")) == []


@pytest.mark.slow
def test_both_kinds_pass_their_own_tests_and_play_alike(here):
    new_env.write("new_slow")
    new_env.write("new_fast", native=True)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "new_slow", "new_fast"],
        env=os.environ | {"CFLAGS": "-Werror"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "10 passed" in done.stdout
    slow = importlib.import_module("new_slow").NewSlow(num_agents=1, size=9)
    fast = importlib.import_module("new_fast").NewFast(num_agents=1, size=9)
    slow.reset(seed=1)
    fast.reset(seed=1)
    rng = np.random.default_rng(1)
    for action in rng.integers(2, size=1_000):
        # Their generators differ, so each is given the other's goal.
        slow.goal[:] = 0 if fast.observations[0, 1] < 0 else 8
        infos = [env.step(np.array([action])) for env in (slow, fast)]
        assert infos[0] == infos[1]
        for name in ("rewards", "terminals", "truncations"):
            assert getattr(slow, name) == getattr(fast, name)
        assert slow.observations[0, 0] == fast.observations[0, 0]
    with pytest.raises(ValueError, match="could not broadcast"):
        fast.step(np.zeros(2, np.int64))  # which C would not notice
    assert_a_copy_has_rows_of_its_own(fast)


def assert_a_copy_has_rows_of_its_own(env):
    env.reset(seed=1)
    env.step(np.array([1]))
    twin = copy.deepcopy(env)
    env.step(np.array([1]))
    assert twin.observations[0, 0] == 0.25
    twin.step(np.array([0]))
    assert (twin.observations[0, 0], env.observations[0, 0]) == (0, 0.5)


@pytest.mark.slow
def test_the_native_kind_is_trained_to_its_best_score(here):
    new_env.write("new_game", native=True)
    name = "new_game:NewGame"
    workers = ["--vec.backend", "multiprocessing", "--vec.num-envs", "2"]
    options = [*workers, "--env.num-agents", "128", "--train.loggers", "none"]
    assert main(["train", name, *options]) == 0
    content = checkpoint.read(find_checkpoint("latest", name, "runs"))
    config = load_config(name)
    with make_vecenv(config) as vecenv:
        policy = policy_of_checkpoint(content, "latest", config, vecenv)
        result = evaluate_policy(vecenv, policy, 500, score_key="score", seed=1)
    assert result.mean >= 0.95


@pytest.mark.slow
def test_a_changed_source_is_compiled_anew(here):
    new_env.write("new_game", native=True)
    source = Path("new_game", "new_game.c")
    ask = "import new_game as g; e = g.NewGame(1); e.reset(1); print(e.observations[0, 0])"
    assert subprocess.check_output([sys.executable, "-c", ask], text=True) == "0.0\n"
    source.write_text(source.read_text().replace("options[SIZE] / 2;", "0;"))
    assert subprocess.check_output([sys.executable, "-c", ask], text=True) == "-1.0\n"
    assert len(list(Path("new_game", "__pycache__").glob("*.so"))) == 2
