"""What PufferLib's own documents claim of speed, beside what this machine shows and allows.

    python benchmarks/claims.py [--seconds 1] [--repeats 3] [--claims atari nethack pokemon cleanrl]

The claims are of machines with many cores, and most compare with environments that step one after
the other or wait for the slowest. The bound says what such a ratio can be here: all cores with bare
environments and nothing between them. Everything is measured in turn, in one process and its
workers, so that the ratios hold on a machine that others use.

Pokemon Red has a cartridge that nobody may hand on. `gameboy.py` is a game of our own in the same
emulator, which computes nothing between two frames: a bound for Pokemon Red, not its speed.
"""

from __future__ import annotations

import argparse
import contextlib
import statistics
import warnings
from collections.abc import Iterator
from dataclasses import dataclass

from contestants import ASYNC, BOUND, SERIAL, SYNC, contestants, ours, steps_per_second
from rich.console import Console
from rich.table import Table
from vector import sample_actions
from workloads import WORKLOADS

from pufferlib.vector.sizes import available_cores

CORES = max(2, available_cores())
WORKERS, POOL = ours(CORES), ours(CORES, pool=True)


@dataclass(frozen=True)
class Claim:
    """One sentence of these documents about stepping environments.

    Attributes:
        workload: what is measured.
        own: our contestants, of which the fastest counts.
        peers: who they are compared with.
    """

    text: str
    workload: str
    own: tuple[str, ...]
    peers: tuple[str, ...]


CLAIMS = {
    "atari": [
        Claim("Atari 50–60 % faster, synchronous", "breakout", (SERIAL, WORKERS), (SYNC, ASYNC)),
        Claim("Atari 5× asynchronous", "breakout", (POOL,), (ASYNC,)),
    ],
    "nethack": [Claim("NetHack 10×", "nethack", (WORKERS, POOL), (ASYNC,))],
    "pokemon": [Claim("Pokemon Red 6,000 steps/s", "gameboy", (WORKERS, POOL), (SYNC, ASYNC))],
}
CLEANRL = "CleanRL's Atari +65 %"


def measure(workload: str, names: set[str], seconds: float, repeats: int) -> dict[str, float]:
    """Medians in steps per second, of contestants in turn; the bound is of all cores."""
    creators, actions = WORKLOADS[workload].creators, sample_actions(WORKLOADS[workload])
    chosen = {name: c for name, c in contestants((CORES,)).items() if name in names}
    runs: dict[str, list[float]] = {name: [] for name in chosen}
    for _ in range(repeats):
        for name, make in chosen.items():
            runs[name].append(steps_per_second(make(creators, actions), seconds))
    speeds = {name: statistics.median(values) for name, values in runs.items()}
    return speeds | {BOUND: speeds[BOUND] * available_cores()}


def judged(claim: Claim, speeds: dict[str, float]) -> tuple[str, str]:
    """What is shown, and the bound of that."""
    best = max(claim.own, key=speeds.__getitem__)
    shown = [f"{speeds[best]:,.0f} steps/s ({best})"]
    bound = [f"{speeds[BOUND]:,.0f} steps/s"]
    for peer in claim.peers:
        shown.append(f"{speeds[best] / speeds[peer]:.2f}× {peer}")
        bound.append(f"{speeds[BOUND] / speeds[peer]:.2f}×")
    return "\n".join(shown), "\n".join(bound)


def of_stepping(claims: list[Claim], seconds: float, repeats: int) -> Iterator[tuple[str, ...]]:
    """A row for each claim about one workload."""
    workload = claims[0].workload
    if WORKLOADS[workload].missing:
        yield claims[0].text, f"left out: {WORKLOADS[workload].install}", "–"
        return
    names = {BOUND, *(name for claim in claims for name in (*claim.own, *claim.peers))}
    speeds = measure(workload, names, seconds, repeats)
    for claim in claims:
        yield claim.text, *judged(claim, speeds)


def of_learning(repeats: int) -> tuple[str, ...]:
    """CleanRL's loop with Gymnasium's vectorization and with ours.

    The bound is the loop of `SYNC` if its environments' time were divided by the number of cores:
    learning waits for them, and they for it.
    """
    import atari_loop as loop
    import torch
    from gymnasium.vector import AsyncVectorEnv, SyncVectorEnv

    torch.set_num_threads(available_cores())
    sides = {
        SYNC: loop.gymnasium_side(SyncVectorEnv),
        ASYNC: loop.gymnasium_side(AsyncVectorEnv),
        SERIAL: loop.our_side(backend="serial"),
        WORKERS: loop.our_side(backend="multiprocessing", num_workers=CORES),
    }
    agent = loop.Agent()
    with contextlib.ExitStack() as stack:
        loops = {name: loop.Loop(stack.enter_context(side), agent) for name, side in sides.items()}
        runs: dict[str, list[tuple[float, float]]] = {name: [] for name in loops}
        for i in range(repeats + 1):  # the first is a warm-up
            for name, one in loops.items():
                one.update()
                if i:
                    runs[name].append((one.seconds, one.stepping))
    seconds = {name: statistics.median(s for s, _ in values) for name, values in runs.items()}
    stepping = statistics.median(s for _, s in runs[SYNC])
    best = min((SERIAL, WORKERS), key=seconds.__getitem__)
    least = seconds[SYNC] - stepping * (1 - 1 / available_cores())
    rate = loop.NUM_ENVS * loop.NUM_STEPS / seconds[best]
    shown, bound = (
        [f"{rate:,.0f} steps/s ({best})"],
        [f"stepping is {stepping / seconds[SYNC]:.0%}"],
    )
    for peer in (SYNC, ASYNC):
        shown.append(f"{seconds[peer] / seconds[best]:.2f}× {peer}")
        bound.append(f"{seconds[peer] / least:.2f}×")
    return CLEANRL, "\n".join(shown), "\n".join(bound)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=1.0, help="per measurement of stepping")
    parser.add_argument("--repeats", type=int, default=3, help="of which the median counts")
    names = [*CLAIMS, "cleanrl"]
    parser.add_argument("--claims", nargs="+", choices=names, default=names)
    args = parser.parse_args()
    warnings.simplefilter("ignore")  # of environments about themselves
    table = Table("claim", "here", "bound", title=f"on {available_cores()} cores", show_lines=True)
    for name in args.claims:
        if name == "cleanrl":
            table.add_row(*of_learning(args.repeats))
            continue
        for row in of_stepping(CLAIMS[name], args.seconds, args.repeats):
            table.add_row(*row)
    Console(width=110).print(table)


if __name__ == "__main__":
    main()
