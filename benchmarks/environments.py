"""The speed of every environment that is installed: its library alone, and through pufferlib.

    python benchmarks/environments.py [NAME ...] [--seconds 1] [--repeats 3] [--json FILE]

Steps per second of CPU time, resets included, of one environment under random actions: alone, in a
loop in Python over the library's own interface, and behind the binding's wrappers, emulation,
episode statistics and `Serial`. CPU time, so that other programs matter little. Every measurement
has a process of its own, the two sides of an environment in turn; medians count.

"Alone" is what lies below the last wrapper of pufferlib, with the options of the binding's default
task: Atari skips four frames and scales the rest there as well. Libraries of another interface are
played in `libraries.py`; what is pufferlib's own has no such number. Pokemon Red's cartridge may
not be handed on: unless POKEMON_RED_ROM names one, that of `gameboy.py` stands in for it.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import psutil
from gameboy import cartridge
from gymnasium import spaces
from libraries import LIBRARIES
from report import as_markdown, machine

from pufferlib import environments, vector
from pufferlib.emulation.masks import take_allowed
from pufferlib.testing.recording import sample_actions

SIDES = ("alone", "pufferlib")
HEADINGS = ("environment", "agents", "observations", "actions", *SIDES, "share")
ACTIONS = 64  # drawn beforehand, and repeated
WARM_UP = 10

Step = Callable[[], Any]
Result = dict[str, Any]


# -- one measurement, in a process of its own ----------------------------------------------------


def measure(name: str, side: str, seconds: float) -> Result:
    """What one side of an environment does, and, of ours, what it shows."""
    task = environments.resolve(name)
    creator = environments.load(name).env_creator(task.task)
    if side == "alone":
        # The whole is kept: maps and folders of the library's environment live as long as it does.
        env = None if name in LIBRARIES else creator()
        steps = alone_steps(name, env)
        return {"speed": speed(steps, seconds) if steps else None}
    with vector.make(creator) as vecenv:
        return shown(vecenv.driver_env) | {"speed": speed(serial_steps(vecenv), seconds)}


def shown(env: Any) -> Result:
    """Agents and spaces, as the table has them."""
    emulated, space = env.emulated, env.single_observation_space
    leaves = "" if emulated is None else emulated.observation_dtype
    fields = getattr(leaves, "names", None)
    return {
        "agents": env.num_agents,
        "observations": f"{len(fields)} parts, {space.shape[0]:,} {space.dtype}"
        if fields
        else described(space),
        "actions": described(env.single_action_space),
    }


def described(space: Any) -> str:
    """A flat space in a few words."""
    if isinstance(space, spaces.Discrete):
        return f"{space.n} choices"
    if isinstance(space, spaces.MultiDiscrete):
        sizes = sorted({int(n) for n in space.nvec.ravel()})
        bounds = " to ".join(map(str, dict.fromkeys([sizes[0], sizes[-1]])))
        return f"{space.nvec.size} times {bounds} choices"
    return f"{' × '.join(map(str, space.shape))} {space.dtype}"


def speed(steps: Iterator[float], seconds: float) -> float:
    """Steps per second of CPU time, of an iterator over what each took in nanoseconds.

    Games that are programs of their own, as ViZDoom's, count as well.
    """
    for _ in range(WARM_UP):
        next(steps)
    count, spent, before = 0, 0.0, children_seconds()
    while spent < seconds * 1e9:
        spent += next(steps)
        count += 1
    return count / (spent / 1e9 + children_seconds() - before)


def children_seconds() -> float:
    """CPU time of the programs that this one has started and that still run."""
    times = [child.cpu_times() for child in psutil.Process().children(recursive=True)]
    return sum(spent.user + spent.system for spent in times)


def timed(step: Callable[..., Any], *arguments: Any) -> tuple[Any, int]:
    """What a call returned, and its nanoseconds of CPU time."""
    begun = time.process_time_ns()
    result = step(*arguments)
    return result, time.process_time_ns() - begun


def serial_steps(vecenv: vector.Serial) -> Iterator[int]:
    """Random actions, those that the masks allow, through `Serial`."""
    actions = sample_actions(vecenv.single_action_space, ACTIONS, vecenv.num_agents, 0)
    emulated, generator = vecenv.driver_env.emulated, np.random.default_rng(0)
    observations, _ = vecenv.reset(seed=0)
    while True:
        for chosen in actions:
            take_allowed(chosen, observations, emulated, generator)
            (observations, *_), spent = timed(vecenv.step, chosen)
            yield spent


def alone_steps(name: str, env: Any) -> Iterator[int] | None:
    """Random play in the library's own environment below `env`; None if there is none."""
    if name in LIBRARIES:
        step = LIBRARIES[name]()
        return (timed(step)[1] for _ in itertools.count())
    inner = library_env(env)
    if inner is None:
        return None
    return parallel_steps(inner) if hasattr(inner, "possible_agents") else single_steps(inner)


def library_env(env: Any) -> Any:
    """What lies below the last wrapper of pufferlib."""
    layers = [env]
    while (inner := vars(layers[-1]).get("env")) is not None:
        layers.append(inner)
    ours = [i for i, layer in enumerate(layers) if type(layer).__module__.startswith("pufferlib.")]
    below = layers[ours[-1] + 1 :]
    return below[0] if below else None


def single_steps(env: Any) -> Iterator[int]:
    """Random actions in an environment of Gymnasium, or of the old Gym."""
    env.action_space.seed(0)
    actions = [env.action_space.sample() for _ in range(ACTIONS)]
    env.reset()
    while True:
        for action in actions:
            result, spent = timed(env.step, action)
            if result[2] or (len(result) == 5 and result[3]):
                spent += timed(env.reset)[1]
            yield spent


def parallel_steps(env: Any) -> Iterator[int]:
    """Random actions of all agents that are there, in an environment of PettingZoo."""
    for seed, agent in enumerate(env.possible_agents):
        env.action_space(agent).seed(seed)
    actions = [
        {agent: env.action_space(agent).sample() for agent in env.possible_agents}
        for _ in range(ACTIONS)
    ]
    env.reset()
    while True:
        for drawn in actions:
            chosen = {agent: drawn[agent] for agent in env.agents}
            _, spent = timed(env.step, chosen)
            if not env.agents:
                spent += timed(env.reset)[1]
            yield spent


# -- all of them ---------------------------------------------------------------------------------


def in_a_process(name: str, side: str, seconds: float) -> Result | None:
    """`measure` in a fresh interpreter; None, and what went wrong on stderr, if it failed."""
    script = str(Path(__file__).resolve())
    command = [sys.executable, script, name, "--seconds", str(seconds), "--side", side]
    with tempfile.TemporaryDirectory() as directory:  # some games leave files where they start
        done = subprocess.run(command, cwd=directory, capture_output=True, text=True)
    if done.returncode:
        print(f"{name}, {side}: {done.stderr.strip().splitlines()[-1:]}", file=sys.stderr)
        return None
    result: Result = json.loads(done.stdout.splitlines()[-1])
    return result


def compare(name: str, seconds: float, repeats: int) -> Result:
    """Both sides of an environment in turn, and the median of each."""
    merged: Result = {"name": name}
    speeds: dict[str, list[float]] = {side: [] for side in SIDES}
    for _ in range(repeats):
        for side in SIDES:
            result = in_a_process(name, side, seconds) or {"speed": None}
            found = result.pop("speed")
            speeds[side] += [] if found is None else [found]
            merged |= result
    medians = {side: statistics.median(found) for side, found in speeds.items() if found}
    return merged | medians


def cells(result: Result) -> list[str]:
    """A row of the table."""
    alone, ours = (result.get(side) for side in SIDES)
    share = f"{ours / alone:.0%}".replace("%", " %") if alone and ours else "–"
    numbers = [
        f"{value:,.{0 if value >= 100 else 1}f}" if value else "–" for value in (alone, ours)
    ]
    texts = [str(result.get(key, "–")) for key in ("name", "agents", "observations", "actions")]
    return [*texts, *numbers, share]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help="of environments; all that are installed if none")
    parser.add_argument("--seconds", type=float, default=1.0, help="CPU time of a measurement")
    parser.add_argument("--repeats", type=int, default=3, help="of which the median counts")
    parser.add_argument("--json", type=Path, help="write the numbers here, with the machine's")
    parser.add_argument("--side", choices=SIDES, help="measure one side here and print JSON")
    args = parser.parse_args()
    if args.side:
        print(json.dumps(measure(args.names[0], args.side, args.seconds)))
        return
    names = args.names or [row.name for row in environments.ROWS.values() if row.installed]
    with tempfile.TemporaryDirectory() as directory:
        rom = Path(directory, "game.gb")
        rom.write_bytes(cartridge())
        os.environ.setdefault("POKEMON_RED_ROM", str(rom))
        results = [compare(name, args.seconds, args.repeats) for name in names]
    print(as_markdown(HEADINGS, map(cells, results)))
    if args.json:
        args.json.write_text(json.dumps({"machine": machine(), "results": results}, indent=1))


if __name__ == "__main__":
    main()
