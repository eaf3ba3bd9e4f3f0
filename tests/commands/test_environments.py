"""`puffer envs` and `puffer install`: what is here, and the calls that bring the rest."""

import dataclasses
import importlib.util
import sys
from pathlib import Path

import pufferlib
from pufferlib.cli import main
from pufferlib.commands import environments as command
from pufferlib.environments import ROWS
from pufferlib.environments.row import Row

ROOT = Path(pufferlib.__file__).parent.parent


def hide_package(monkeypatch, hidden):
    find_spec = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == hidden else find_spec(name)
    )


def test_envs_lists_what_is_here_and_what_is_not(monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "160")
    hide_package(monkeypatch, "nle")
    assert main(["envs"]) == 0
    text = capsys.readouterr().out
    assert all(name in text for name in ROWS)
    assert "puffer train squared" in text
    words = text.replace(",", " ").split()
    here = [row for row in ROWS.values() if row.installed]
    assert {"classic_control", "ocean"} <= {row.name for row in here}
    assert [name for row in here for name in row.tasks if name not in words] == []
    assert "puffer install nethack" in text
    assert "pip install 'pufferlib[nethack]'" in text


def test_install_calls_pip_with_the_lock_and_returns_its_code(monkeypatch, capsys):
    lines = [
        "numpy>=2.0",
        'nle==1.3.0; python_version < "3.14" and extra == "nethack"',
        'pygame-ce>=2.5; extra == "classic-control"',
    ]
    monkeypatch.setattr("importlib.metadata.requires", lambda name: lines)
    calls = []
    code = command.install(["nethack"], run=lambda call: calls.append(call) or 3)
    (call,) = calls
    assert code == 3
    assert call[:4] == [sys.executable, "-m", "pip", "install"]
    assert call[-1] == 'nle==1.3.0; python_version < "3.14"'
    assert call[4:-1] == ["-c", str(ROOT / "constraints.txt")]
    assert capsys.readouterr().out.startswith("Installing nethack")
    monkeypatch.setattr("pufferlib.lock.find_root", lambda: None)
    command.install(["nethack"], run=lambda call: calls.append(call) or 0)
    assert "-c" not in calls[-1]
    assert "newest versions" in capsys.readouterr().out
    assert command.extra_requirements("classic_control") == ["pygame-ce>=2.5"]


def test_install_names_what_debian_has_before_and_how_to_train_after(monkeypatch, capsys):
    monkeypatch.setattr("importlib.metadata.requires", lambda name: ["x; extra == 'minigrid'"])
    row = dataclasses.replace(ROWS["minigrid"], packages=("gymnasium",), system=("g++",))
    monkeypatch.setattr("pufferlib.environments.ROWS", {"minigrid": row})
    assert command.install(["minigrid"], run=lambda call: print("pip runs") or 0) == 0
    needs, _, runs, train = capsys.readouterr().out.splitlines()[-4:]
    assert needs == "minigrid needs of Debian: sudo apt-get install -y g++"
    assert (runs, train) == ("pip runs", "puffer train minigrid")


def test_install_brings_what_does_not_resolve_after_what_it_needs(monkeypatch, tmp_path):
    (tmp_path / "constraints").mkdir()
    (tmp_path / "constraints" / "nodeps.txt").write_text("[old]\nold-game==1.0  # says so\n")
    lines = ["numpy>=2.0", 'cffi>=1.13; extra == "old"', 'nle==1.3.0; extra == "nethack"']
    monkeypatch.setattr("importlib.metadata.requires", lambda name: lines)
    first, second = command.pip_commands("old", tmp_path)
    assert first[3:] == ["install", "-c", str(tmp_path / "constraints.txt"), "cffi>=1.13"]
    flags = ["--no-deps", "--ignore-requires-python", "--no-build-isolation"]
    assert second[3:] == ["install", *flags, "old-game==1.0"]
    assert len(command.pip_commands("nethack", tmp_path)) == 1


def test_install_does_not_pretend_where_there_is_no_lock(monkeypatch, capsys):
    monkeypatch.setattr("pufferlib.lock.find_root", lambda: None)
    assert main(["install", "procgen"]) == 1
    assert "procgen is installed from constraints/nodeps.txt" in capsys.readouterr().err


def test_a_line_of_pip_that_would_not_bring_it_is_not_named(monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "160")
    hide_package(monkeypatch, "procgen")
    assert main(["train", "procgen"]) == 1
    assert main(["envs"]) == 0
    text = "".join(capsys.readouterr())
    assert "puffer install procgen" in text
    assert "pufferlib[procgen]" not in text


def test_install_says_what_pip_cannot_bring(monkeypatch, capsys):
    row = Row(name="far", description="", default="x", packages=("no_such_module",))
    monkeypatch.setattr(
        "pufferlib.environments.ROWS",
        {
            "far": dataclasses.replace(row, elsewhere="built in image stage 2"),
            "new": dataclasses.replace(row, name="new", newest_python=(3, 10)),
        },
    )
    assert main(["install", "far"]) == 1
    assert "far cannot be installed here: built in image stage 2" in capsys.readouterr().err
    assert main(["install", "new"]) == 1
    assert "published for Python 3.10 and older, this is 3." in capsys.readouterr().err


def test_install_of_what_needs_nothing_and_of_what_is_unknown(capsys):
    assert main(["install", "squared"]) == 0
    assert "nothing to install" in capsys.readouterr().out
    assert main(["install", "nethak"]) == 2
    assert "did you mean 'nethack'?" in capsys.readouterr().err
