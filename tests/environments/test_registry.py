"""The registry: names, what is installed, messages."""

import dataclasses
import importlib.util
import subprocess
import sys
import tomllib
import warnings
from pathlib import Path

import pytest

from pufferlib import environments
from pufferlib.exceptions import ConfigError, EnvironmentSetupError

PYPROJECT = Path(__file__).parents[2] / "pyproject.toml"
EXTRAS = tomllib.loads(PYPROJECT.read_text())["project"]["optional-dependencies"]


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
    with pytest.raises(ConfigError, match="known: acrobot, .*, squared, "):
        environments.resolve("zzzzzz")


TASKS = ["Maze-Large-v0", "Maze-Small-v0", "Sokoban-v0"]


@pytest.mark.parametrize(
    ("name", "end"),
    [
        ("sokobn-V0", "; did you mean 'Sokoban-v0'?"),
        ("MAZE", "; known: Maze-Large-v0, Maze-Small-v0"),
        ("zzz", "; known: Maze-Large-v0, Maze-Small-v0, Sokoban-v0"),
    ],
)
def test_an_unknown_task_gets_the_nearest_one_or_those_that_contain_it(name, end):
    with pytest.raises(ConfigError) as caught:
        environments.check_task(name, TASKS, "grid")
    assert str(caught.value) == f"unknown grid task '{name}'{end}"


def test_a_message_does_not_list_thousands_of_tasks():
    with pytest.raises(ConfigError, match=r"known: Game0000, .*, Game0099 and 1,100 more$"):
        environments.check_task("zzz", (f"Game{i:04}" for i in range(1_200)), "console")


def test_extras_of_the_registry_exist():
    for row in environments.ROWS.values():
        assert row.extra is None or row.extra in EXTRAS


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


def replace_nle(monkeypatch, tmp_path, text):
    """Let `import nle` run this text."""
    (tmp_path / "nle").mkdir()
    (tmp_path / "nle" / "__init__.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    for name in [name for name in sys.modules if name.partition(".")[0] == "nle"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "nle", None)  # so that it is gone afterwards
    del sys.modules["nle"]


def test_what_packages_say_of_themselves_at_their_import_is_not_shown(
    monkeypatch, tmp_path, capsys
):
    warns = "import sys, warnings; warnings.warn('old modules'); print('old', file=sys.stderr)"
    replace_nle(monkeypatch, tmp_path, f"{warns}; GAME = 1")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        (nle,) = environments.require("nethack")
    assert nle.GAME == 1
    assert capsys.readouterr().err == ""


def test_a_broken_package_is_reported_with_its_own_error(monkeypatch, tmp_path):
    replace_nle(monkeypatch, tmp_path, "raise ImportError('libfoo.so is missing')")
    with pytest.raises(EnvironmentSetupError, match=r"libfoo\.so is missing.*--force-reinstall$"):
        environments.require("nethack")


def test_a_package_that_lacks_a_library_gets_the_line_for_debian(monkeypatch, tmp_path):
    replace_nle(monkeypatch, tmp_path, "raise ImportError('libvulkan.so.1: cannot open')")
    row = dataclasses.replace(environments.ROWS["nethack"], system=("libvulkan1", "libegl1"))
    monkeypatch.setattr(environments, "ROWS", {"nethack": row})
    line = "sudo apt-get install -y libvulkan1 libegl1"
    with pytest.raises(EnvironmentSetupError, match=rf"libvulkan\.so\.1(.|\n)*of Debian: {line}$"):
        environments.require("nethack")


def test_the_registry_imports_no_environment_library_and_no_torch():
    code = (
        "import sys, pufferlib.environments as e; [row.installed for row in e.ROWS.values()];"
        "assert not {'torch', 'nle', 'gymnasium'} & set(sys.modules), sys.modules.keys()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True)
    assert done.returncode == 0, done.stderr.decode()
