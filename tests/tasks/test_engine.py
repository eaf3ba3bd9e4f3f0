"""What the tasks read from the container engine, and what they say where they cannot."""

import sys

import pytest
import task_tools  # noqa: F401  # skips where the extra dev is missing
from puffertank import engine, runner


def test_an_engine_that_does_not_answer(monkeypatch, tmp_path):
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/none.sock")
    with pytest.raises(engine.NoEngineError, match="is Docker running"):
        engine.find_image("puffertank/base:cpu")


def test_the_engine_is_that_of_the_docker_command(monkeypatch, tmp_path):
    monkeypatch.delenv("DOCKER_HOST", raising=False)
    docker = tmp_path / "docker"
    docker.write_text('#!/bin/sh\n[ "$1 $2" = "context inspect" ] && echo unix:///other.sock\n')
    docker.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    assert engine._engine_address() == "unix:///other.sock"
    monkeypatch.setenv("DOCKER_HOST", "tcp://elsewhere")
    assert engine._engine_address() == "tcp://elsewhere"


def test_without_the_sdk_the_message_says_so(monkeypatch):
    class Folder:
        """What `import docker` finds in the repository: the folder of that name."""

    monkeypatch.setitem(sys.modules, "docker", Folder)
    with pytest.raises(engine.NoEngineError, match="Docker SDK for Python is not installed"):
        engine.find_image("x")


def test_missing_commands_are_named(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SystemExit, match="pre-commit is not installed"):
        runner.Runner()("pre-commit")
