"""The registry: names, what is installed, messages, and creators without torch."""

import dataclasses
import importlib.util
import inspect
import pickle
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from pufferlib import environments
from pufferlib.exceptions import ConfigError, EnvironmentSetupError

PYPROJECT = Path(__file__).parents[2] / "pyproject.toml"
EXTRAS = tomllib.loads(PYPROJECT.read_text())["project"]["optional-dependencies"]


def marks(row):
    """Families that the extra `test` does not bring are tested with the slow tests."""
    is_there = row.extra is None or row.extra in " ".join(EXTRAS["test"])
    return () if is_there else pytest.mark.slow


FAMILIES = [pytest.param(name, marks=marks(row)) for name, row in environments.ROWS.items()]


@pytest.mark.parametrize(
    ("name", "family", "task"),
    [
        ("squared", "ocean", "squared"),
        ("ocean", "ocean", "squared"),
        ("ocean/squared", "ocean", "squared"),
        ("cartpole", "classic_control", "CartPole-v1"),
        ("pendulum", "classic_control", "Pendulum-v1"),
        ("nethack", "nethack", "NetHackScore-v0"),
        ("nethack/NetHackChallenge-v0", "nethack", "NetHackChallenge-v0"),
    ],
)
def test_a_name_stands_for_a_family_and_a_task(name, family, task):
    found = environments.resolve(name)
    assert (found.name, found.row.name, found.task) == (name, family, task)


@pytest.mark.parametrize(
    ("name", "nearest"),
    [("sqared", "squared"), ("nethak", "nethack"), ("CartPole", "cartpole"), ("oceam/x", "ocean")],
)
def test_an_unknown_name_gets_the_nearest_one(name, nearest):
    with pytest.raises(
        ConfigError, match=f"unknown environment '{name}'; did you mean '{nearest}'"
    ):
        environments.resolve(name)


def test_a_name_like_no_other_gets_the_list():
    with pytest.raises(ConfigError, match="known: acrobot, atari, bandit, breakout"):
        environments.resolve("zzzzzz")


@pytest.mark.parametrize("family", FAMILIES)
def test_an_unknown_task_gets_the_nearest_one(family):
    module = environments.load(family)
    default = environments.ROWS[family].default
    with pytest.raises(ConfigError, match=f"unknown {family} task .*did you mean '{default}'"):
        module.env_creator(default + "x")


def test_extras_of_the_registry_exist():
    for row in environments.ROWS.values():
        assert row.extra is None or row.extra in EXTRAS


@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_has_the_same_face(family):
    row = environments.ROWS[family]
    module = environments.load(family)
    config = {field.name: field.default for field in dataclasses.fields(module.EnvConfig)}
    env = module.env_creator()(**config)
    assert env.num_agents == 1
    env.close()
    assert row.module == module.__name__
    assert row.default in {*row.tasks.values(), "NetHackScore-v0"}
    assert "hidden_size" in inspect.signature(module.Policy).parameters
    with pytest.raises(AttributeError, match="has no attribute 'Polcy'"):
        module.Polcy  # noqa: B018


def test_a_missing_package_is_reported_with_the_line_that_brings_it(monkeypatch):
    find_spec = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == "nle" else find_spec(name)
    )
    row = environments.ROWS["nethack"]
    assert not row.installed
    assert row.missing == ("nle",)
    for action in (lambda: environments.load("nethack"), lambda: environments.require("nethack")):
        with pytest.raises(EnvironmentSetupError) as caught:
            action()
        assert "pip install 'pufferlib[nethack]'" in str(caught.value)
        assert "puffer install nethack" in str(caught.value)
    assert environments.ROWS["ocean"].installed


def test_a_missing_package_stops_make_env(monkeypatch):
    nethack = environments.load("nethack")
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(EnvironmentSetupError, match="nle, which is not installed"):
        nethack.make_env()


def test_a_broken_package_is_reported_with_its_own_error(monkeypatch, tmp_path):
    (tmp_path / "nle").mkdir()
    (tmp_path / "nle" / "__init__.py").write_text("raise ImportError('libfoo.so is missing')")
    monkeypatch.syspath_prepend(tmp_path)
    for name in [name for name in sys.modules if name.partition(".")[0] == "nle"]:
        monkeypatch.delitem(sys.modules, name)
    with pytest.raises(EnvironmentSetupError, match=r"libfoo\.so is missing.*--force-reinstall"):
        environments.require("nethack")


_UNPICKLE = """
import pickle, sys
creators = pickle.loads(sys.stdin.buffer.read())
for creator in creators:
    env = creator()
    env.reset(seed=0)
    env.close()
banned = {"torch", "matplotlib", "pygame"} & set(sys.modules)
assert not banned, banned
print(len(creators))
"""


@pytest.mark.parametrize("family", FAMILIES)
def test_creators_work_in_a_fresh_process_without_torch(family):
    package, row = environments.load(family), environments.ROWS[family]
    creators = [package.env_creator(), *map(package.env_creator, row.tasks.values())]
    done = subprocess.run(
        [sys.executable, "-c", _UNPICKLE], input=pickle.dumps(creators), capture_output=True
    )
    assert done.returncode == 0, done.stderr.decode()
    assert int(done.stdout) == len(creators)


def test_the_registry_imports_no_environment_library_and_no_torch():
    code = (
        "import sys, pufferlib.environments as e; [row.installed for row in e.ROWS.values()];"
        "assert not {'torch', 'nle', 'gymnasium'} & set(sys.modules), sys.modules.keys()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True)
    assert done.returncode == 0, done.stderr.decode()
