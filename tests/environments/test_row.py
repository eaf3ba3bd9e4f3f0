"""Rows of the registry: what is missing, what is impossible, and what to do about it."""

import configparser
import sys
from pathlib import Path

import pytest

from pufferlib.environments import ROWS
from pufferlib.environments.row import Row


def row(**fields):
    return Row(**{"name": "game", "description": "", "default": "easy", "extra": "game", **fields})


def test_packages_and_programs_are_looked_for_without_importing(monkeypatch, tmp_path):
    (tmp_path / "there.py").write_text("raise RuntimeError('imported')")
    program = tmp_path / "play"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert row(packages=("there",), commands=("play",)).state == "installed"
    lacking = row(packages=("there", "not_there"), commands=("play", "java"))
    assert (lacking.missing, lacking.state) == (("not_there", "java"), "missing")


def test_remedies_name_each_thing_that_is_missing(monkeypatch):
    monkeypatch.delenv("GAME_ROM", raising=False)
    needs = {"system": ("default-jre-headless",), "file_variable": "GAME_ROM"}
    assert row(packages=("not_there",), **needs).remedies == (
        "puffer install game",
        "sudo apt-get install -y default-jre-headless",
        "export GAME_ROM=FILE, which you bring yourself",
    )
    assert row(packages=("sys",), **needs).remedies == (
        "export GAME_ROM=FILE, which you bring yourself",
    )
    monkeypatch.setenv("GAME_ROM", "game.gb")
    assert row(packages=("sys",), **needs).remedies == ()


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        (
            {"elsewhere": "a Bazel build; image stage 2 has it"},
            "a Bazel build; image stage 2 has it",
        ),
        ({"newest_python": (3, 10)}, "published for Python 3.10 and older, this is 3."),
    ],
)
def test_what_cannot_be_installed_here_says_why(fields, why):
    impossible = row(packages=("not_there",), **fields)
    assert impossible.state == "impossible"
    assert impossible.remedies[0].startswith(why)
    assert row(packages=("sys",), **fields).state == "installed", "someone has managed"


def test_what_pip_does_not_bring_by_itself_is_what_the_list_without_dependencies_has():
    listed = configparser.ConfigParser(allow_no_value=True, delimiters=("\0",))
    listed.read(Path(__file__).parents[2] / "constraints" / "nodeps.txt")
    rows = [row for row in ROWS.values() if row.without_dependencies]
    assert {row.extra for row in rows} == set(listed.sections()) - {"bench"}
    assert [row.install for row in rows] == [f"puffer install {row.name}" for row in rows]


def test_the_usual_name_is_a_short_one_of_the_default_task():
    assert row(tasks={"game_hard": "hard", "game_easy": "easy"}).usual == "game_easy"
    assert row(tasks={"game_hard": "hard"}).usual == "game"


def test_the_newest_python_is_one_that_works():
    assert row(packages=("not_there",), newest_python=sys.version_info[:2]).state == "missing"
