"""What the tests of this folder share.

Its modules are importable: `from families import …`. The cartridge of Pokemon Red is a small one
of our own.
"""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

import pocket_game


@pytest.fixture(scope="session", autouse=True)
def cartridge(tmp_path_factory):
    """The file that stands for Pokemon Red."""
    path = tmp_path_factory.mktemp("game_boy") / "pocket.gb"
    path.write_bytes(pocket_game.cartridge())
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("POKEMON_RED_ROM", str(path))
        yield path
