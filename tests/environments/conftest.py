"""What the tests of this folder share.

Its modules are importable: `from families import …`. The cartridge of Pokemon Red is a small one
of our own.
"""

import functools
import os
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

# PyBoy loads PyOpenGL, which settles on one way to draw for the process; MuJoCo, if it comes later,
# needs this one where there is no display.
os.environ.setdefault("PYOPENGL_PLATFORM", "egl")

import pocket_game

from pufferlib import environments


@pytest.fixture(scope="session", autouse=True)
def cartridge(tmp_path_factory):
    """The file that stands for Pokemon Red."""
    path = tmp_path_factory.mktemp("game_boy") / "pocket.gb"
    path.write_bytes(pocket_game.cartridge())
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("POKEMON_RED_ROM", str(path))
        yield path


@functools.cache
def play_procgen():
    """What Procgen does once in a process; nothing where it is not installed."""
    if environments.ROWS["procgen"].installed:
        env = environments.load("procgen").make_env()
        env.reset(seed=0)
        env.close()


@pytest.fixture(autouse=True)
def procgen_before_java(request):
    """Procgen crashes the process if a Java virtual machine starts in it before its first game."""
    if "microrts" in request.node.nodeid:
        play_procgen()
