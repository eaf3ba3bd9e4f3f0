"""Ocean's games under sanitizers, and without the C library as in a web page."""

import subprocess
from pathlib import Path

import numpy as np
import pytest
from native_games import CASES, Case

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


def rows_of_the_core(env, steps, seed):
    """What the player writes, from a game in the core."""
    _, _, num_worlds, _ = env._arguments
    env.reset(seed)
    stream = SplitMix64(seed + 1)
    rows = [env.observations, env.rewards, env.terminals, env.truncations, env.masks]
    for _ in range(steps):
        choices = [stream.below(int(env.single_action_space.n)) for _ in range(env.num_agents)]
        infos = env.step(np.array(choices))
        yield from (array.tobytes() for array in rows)
        yield from (np.rec.fromarrays(list(info.values())).tobytes() for info in infos)
    yield from (env._worlds.picture(world).tobytes() for world in range(num_worlds))


@pytest.fixture(scope="module", params=["address,undefined", "thread"])
def player(request, tmp_path_factory):
    directory = tmp_path_factory.mktemp("player")
    flags = [f"-fsanitize={request.param}", "-fno-sanitize-recover=all", "-g", "-O1"]
    flags += ["-ffp-contract=off"]  # as the core: the same bits on every machine
    objects = [directory / f"{source.stem}.o" for source in SOURCES]
    for source, target in zip(SOURCES, objects, strict=True):
        run("gcc", *flags, "-c", source, "-o", target)
    driver = Path(__file__).with_name("play_worlds.cpp")
    run("g++", *flags, f"-I{CORE}", driver, *objects, "-o", directory / "play", "-lpthread")
    return directory / "play"


LARGEST = Case(NativeSquared, {"distance_to_target": 127, "num_targets": 1016})


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize(
    ("case", "agents", "steps"),
    [*((case, 36, 100) for case in CASES), (LARGEST, 2, 10)],
    ids=str,
)
def test_sanitizers_find_nothing_and_the_rows_are_the_same(player, case, agents, steps, threads):
    env = case.make(num_agents=agents)
    game, options, num_worlds, _ = env._arguments
    played = run(player, game, num_worlds, steps, 7, threads, *options)
    assert played == b"".join(rows_of_the_core(env, steps, seed=7))


FLAGS = ("-std=c11", "-O3", "-ffreestanding", "-Wall", "-Wextra", "-Werror")


def test_games_need_nothing_of_the_c_library(tmp_path):
    """All games linked into one object: what that still asks for, a page would have to bring."""
    objects = [tmp_path / f"{source.stem}.o" for source in SOURCES]
    for source, target in zip(SOURCES, objects, strict=True):
        run("gcc", *FLAGS, "-c", source, "-o", target)
    run("gcc", "-r", "-nostdlib", *objects, "-o", tmp_path / "all.o")
    names = run("nm", "-u", tmp_path / "all.o").decode().split()[1::2]
    assert set(names) <= BY_COMPILERS
