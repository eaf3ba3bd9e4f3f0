"""Ocean's games as web pages get them; by hand, since clang is needed for nothing else."""

import shutil
import subprocess
from pathlib import Path

import pytest

from pufferlib.environments.ocean import native

SOURCES = sorted(Path(native.__file__).parent.glob("*.c"))
FLAGS = ("-std=c11", "-O3", "-ffreestanding", "-Wall", "-Wextra", "-Werror")


@pytest.mark.bench
@pytest.mark.skipif(shutil.which("clang") is None, reason="needs clang")
@pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.stem)
def test_games_compile_for_web_pages(source, tmp_path):
    command = ["clang", "--target=wasm32", *FLAGS, "-c", source, "-o", tmp_path / "game.o"]
    subprocess.run(command, check=True)
