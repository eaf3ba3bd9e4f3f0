"""Ocean's games under sanitizers, and without the C library as in a web page."""

import subprocess
from pathlib import Path

import numpy as np
import pytest

from pufferlib import native
from pufferlib.environments.ocean.native import NativeSquared
from pufferlib.environments.ocean.splitmix import SplitMix64

CORE = Path(native.__file__).parent
GAMES = CORE.parent / "environments" / "ocean" / "native"
SOURCES = sorted(GAMES.glob("*.c"))
BY_COMPILERS = {"memcpy", "memset", "memmove"}  # calls that compilers make by themselves

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(300),
    pytest.mark.skipif(not native.available, reason="needs the compiled core, and a compiler"),
]


def run(*command):
    done = subprocess.run([str(part) for part in command], capture_output=True)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout


def rows_of_the_core(d, targets, worlds, steps, seed):
    env, stream = NativeSquared(worlds, d, targets), SplitMix64(seed + 1)
    env.reset(seed)
    for _ in range(steps):
        infos = env.step(np.array([stream.below(8) for _ in range(worlds)]))
        yield from (env.observations.tobytes(), env.rewards.tobytes(), env.terminals.tobytes())
        for info in infos:
            yield np.rec.fromarrays(list(info.values())).tobytes()


@pytest.fixture(scope="module", params=["address,undefined", "thread"])
def player(request, tmp_path_factory):
    directory = tmp_path_factory.mktemp("player")
    flags = [f"-fsanitize={request.param}", "-fno-sanitize-recover=all", "-g", "-O1"]
    objects = [directory / f"{source.stem}.o" for source in SOURCES]
    for source, target in zip(SOURCES, objects, strict=True):
        run("gcc", *flags, "-c", source, "-o", target)
    driver = Path(__file__).with_name("play_worlds.cpp")
    run("g++", *flags, f"-I{CORE}", driver, *objects, "-o", directory / "play", "-lpthread")
    return directory / "play"


@pytest.mark.parametrize(
    "arguments",
    [
        (2, 3, 64, 200, 7),
        (1, 8, 5, 100, 1),
        (3, 1, 33, 60, 2),
        (127, 1016, 2, 10, 3),
    ],
)
@pytest.mark.parametrize("threads", [1, 3])
def test_sanitizers_find_nothing_and_the_rows_are_the_same(player, arguments, threads):
    assert run(player, *arguments, threads) == b"".join(rows_of_the_core(*arguments))


FLAGS = ("-std=c11", "-O3", "-ffreestanding", "-Wall", "-Wextra", "-Werror")


def test_games_need_nothing_of_the_c_library(tmp_path):
    """All games linked into one object: what that still asks for, a page would have to bring."""
    objects = [tmp_path / f"{source.stem}.o" for source in SOURCES]
    for source, target in zip(SOURCES, objects, strict=True):
        run("gcc", *FLAGS, "-c", source, "-o", target)
    run("gcc", "-r", "-nostdlib", *objects, "-o", tmp_path / "all.o")
    names = run("nm", "-u", tmp_path / "all.o").decode().split()[1::2]
    assert set(names) <= BY_COMPILERS
