"""Fixtures of the tests of `invoke …`: no engine, registry or other machine is used."""

import shutil
import sys
from pathlib import Path

import pytest
from puffertank import engine, runner, stack, transfer

from pufferlib.commands import machine as machine_facts

sys.path.insert(0, str(Path(__file__).parent))

ROOT = Path(__file__).parents[2]


@pytest.fixture
def machine(monkeypatch):
    """Commands are recorded, images made up."""
    from task_tools import Machine  # skips where invoke is missing; here it would be an error

    made = Machine()
    for name in ("execute", "execute_pipe", "ask"):
        monkeypatch.setattr(runner, name, getattr(made, name))
    monkeypatch.setattr(engine, "find_image", lambda name: made.images.get(name))
    monkeypatch.setattr(machine_facts, "has_nvidia_gpu", lambda: False)
    monkeypatch.setattr(stack, "revision", lambda: "abc")
    for name in ("PUFFER_REGISTRY", "PUFFER_TORCH_INDEX", "PUFFER_SSH", "ENVS"):
        monkeypatch.delenv(name, raising=False)
    return made


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    """A repository root of our own, with this lock and these images."""
    lock = [ROOT / "constraints.txt", *ROOT.glob("constraints/*.txt")]
    for path in (*lock, ROOT / "docker" / "bake.json"):
        target = tmp_path / path.relative_to(ROOT)
        target.parent.mkdir(exist_ok=True)
        shutil.copy(path, target)
    for module in (runner, stack, transfer):
        monkeypatch.setattr(module, "ROOT", tmp_path)
    return tmp_path
