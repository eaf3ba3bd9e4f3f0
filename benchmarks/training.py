"""Steps per second of whole training loops: CleanRL's, SB3's, Sample Factory's and ours.

    python benchmarks/training.py [--rows cartpole squared breakout nethack native agents]
                                  [--seconds 3] [--sample-factory PYTHON]
                                  [--json FILE] [--markdown FILE]

`cartpole`, `squared` (Ocean's), `breakout` and `nethack`: eight environments, and for everybody the
same network, batch, minibatches and passes (`loops.py`), each contestant with several numbers of
threads and workers, of which the best counts. The bound is both cores busy without a pause: first
with the bare environment and the choice of actions, then with learning. `native` is the trainer on
thousands of agents that cost next to nothing, against its network alone (`native.py`), and `agents`
lets their number grow. Every measurement is a process of its own. Only ratios within one run mean
anything. CleanRL (see `learning.py`) and Sample Factory are left out where they are missing; Sample
Factory needs an environment of its own:

    python -m venv DIR
    DIR/bin/pip install -c constraints/sample-factory.txt sample-factory ale-py 'setuptools<81'
    python benchmarks/training.py --sample-factory DIR/bin/python
"""

from __future__ import annotations

import argparse
import importlib.util
import itertools
import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import native
from loops import WORKLOADS, Setting
from report import Judged, as_markdown, machine, show

from pufferlib.vector.sizes import available_cores

HERE = Path(__file__).parent
OURS, CLEANRL, SB3, SAMPLE_FACTORY = "pufferlib", "CleanRL", "SB3", "Sample Factory"
IN_SAMPLE_FACTORY = ("cartpole", "breakout")
AGENTS = (64, 256, 1024, 4096)
ROWS = (*WORKLOADS, "native", "agents")

SETTINGS: dict[str, tuple[Setting, ...]] = {
    CLEANRL: (Setting(1), Setting(2)),
    SB3: (Setting(1), Setting(2), Setting(1, workers=8)),
    SAMPLE_FACTORY: (Setting(1, workers=1), Setting(1, workers=2)),
    OURS: (
        Setting(1),
        Setting(2),
        Setting(1, workers=2),
        Setting(2, workers=2),
        Setting(1, workers=2, pool=True),
        Setting(2, workers=2, pool=True),
    ),
}

# The goals: times the fastest peer, and the share of the bound.
TIMES_PEERS = {"cartpole": 2.0, "squared": 2.0, "breakout": 1.0, "nethack": 1.0}
SHARE_OF_BOUND = {"breakout": 0.9, "nethack": 0.9}
NATIVE_SHARE = {"mlp": 0.8, "lstm": 0.9}
MINGRU_TIMES_LSTM = 2.5
# PufferLib 3.0.0 on Squared on two cores with the same sizes; its LSTM has no resets in segments.
PUFFERLIB_3 = {"mlp": (390_000, 1.2), "lstm": (75_000, 0.9)}


@dataclass
class Results:
    """Steps per second; `loops` by workload, contestant and setting."""

    loops: dict[str, dict[str, dict[str, float]]] = field(default_factory=dict)
    bounds: dict[str, float] = field(default_factory=dict)
    native: dict[str, dict[str, Any]] = field(default_factory=dict)
    agents: dict[int, float] = field(default_factory=dict)

    def best(self, workload: str, contestant: str) -> tuple[str, float]:
        """The best setting and its speed."""
        speeds = self.loops[workload][contestant]
        setting = max(speeds, key=speeds.__getitem__)
        return setting, speeds[setting]

    def fastest_peer(self, workload: str) -> float | None:
        """Its speed; None without peers."""
        peers = [name for name in self.loops[workload] if name != OURS]
        return max((self.best(workload, peer)[1] for peer in peers), default=None)


def ask(script: str, *arguments: Any, python: str = sys.executable) -> Any:
    """The last line that a measuring process prints, as JSON."""
    command = [python, str(HERE / script), *map(str, arguments)]
    run = subprocess.run(command, capture_output=True, text=True)
    if run.returncode:
        sys.exit(f"{' '.join(command)}\nfailed:\n{run.stderr[-2000:]}")
    return json.loads(run.stdout.splitlines()[-1])


def contestants(workload: str, sample_factory: str | None) -> Iterator[str]:
    if WORKLOADS[workload].script and importlib.util.find_spec("cleanrl"):
        yield CLEANRL
    if importlib.util.find_spec("stable_baselines3"):
        yield SB3
    if sample_factory and workload in IN_SAMPLE_FACTORY:
        yield SAMPLE_FACTORY
    yield OURS


def measure_loops(results: Results, workload: str, seconds: float, python: str | None) -> None:
    """Every contestant with each of its settings, and the bound."""
    speeds = results.loops.setdefault(workload, {})
    for name in contestants(workload, python):
        for setting in SETTINGS[name]:
            print(f"{workload}: {name}, {setting} …", file=sys.stderr, flush=True)
            options: list[Any] = ["--seconds", seconds, "--threads", setting.threads]
            options += ["--workers", setting.workers]
            if name == SAMPLE_FACTORY:
                assert python
                speed = ask("sample_factory_loop.py", workload, *options, python=python)
            else:
                options += ["--pool"] * setting.pool
                speed = ask("loops.py", name, workload, *options)
            speeds.setdefault(name, {})[str(setting)] = speed
    parts = ask("bounds.py", workload, "--seconds", seconds)
    collecting = (parts["env"] + parts["act"]) / available_cores()
    results.bounds[workload] = 1e6 / (collecting + parts["learn"])


def measure_native(results: Results, seconds: float) -> None:
    """Every kind of network with each number of threads; the best loop counts, and best bound."""
    for kind in native.KINDS:
        found = []
        for threads in range(1, available_cores() + 1):
            print(f"native: {kind}, {threads} torch threads …", file=sys.stderr, flush=True)
            options = ["--kind", kind, "--threads", threads, "--seconds", 2 * seconds]
            found.append(ask("native.py", *options))
        best = max(found, key=lambda case: case["steps_per_second"])
        results.native[kind] = best | {"bound": max(case["bound"] for case in found)}


def measure_agents(results: Results, seconds: float) -> None:
    """The loop of the MLP as agents grow, with the same minibatches."""
    for agents in AGENTS:
        print(f"agents: {agents} …", file=sys.stderr, flush=True)
        options = ["--agents", agents, "--minibatch", 64 * AGENTS[0], "--seconds", seconds]
        results.agents[agents] = ask("native.py", *options)["steps_per_second"]


def judge_loops(results: Results, workload: str) -> Iterator[Judged]:
    speed = results.best(workload, OURS)[1]
    fastest = results.fastest_peer(workload)
    if fastest:
        yield Judged(workload, speed / fastest, TIMES_PEERS[workload], "the fastest peer")
    if workload in SHARE_OF_BOUND:
        share = speed / results.bounds[workload]
        yield Judged(workload, share, SHARE_OF_BOUND[workload], "the bound")


def judge_native(results: Results, kind: str) -> Iterator[Judged]:
    case = results.native[kind]
    speed, row = case["steps_per_second"], f"native {kind}"
    if kind in NATIVE_SHARE:
        yield Judged(row, speed / case["bound"], NATIVE_SHARE[kind], "the network alone")
    if kind in PUFFERLIB_3:
        anchor, wanted = PUFFERLIB_3[kind]
        yield Judged(row, speed / anchor, wanted, f"PufferLib 3.0 ({anchor:,})")
    if kind.startswith("mingru") and "lstm" in results.native:
        lstm = results.native["lstm"]["steps_per_second"]
        yield Judged(row, speed / lstm, MINGRU_TIMES_LSTM, "the LSTM")


def judge_agents(results: Results) -> Iterator[Judged]:
    """No number of agents may be slower than a smaller one; 5 % are the measurement's."""
    for fewer, more in itertools.pairwise(results.agents):
        ratio = results.agents[more] / results.agents[fewer]
        yield Judged(f"{more} agents", ratio, 0.95, f"{fewer} agents")


def judged(results: Results) -> list[Judged]:
    """All goals that could be measured."""
    found = [row for workload in results.loops for row in judge_loops(results, workload)]
    found += [row for kind in results.native for row in judge_native(results, kind)]
    return [*found, *judge_agents(results)]


HEADINGS = ("workload", "contestant", "steps/s", "× fastest peer", "% of bound", "target")


def rows(results: Results) -> Iterator[list[str]]:
    """The table."""
    verdicts: dict[str, list[str]] = {}
    for row in judged(results):
        verdicts.setdefault(row.row, []).append(str(row))
    for workload, speeds in results.loops.items():
        bound, fastest = results.bounds[workload], results.fastest_peer(workload)
        for name in speeds:
            setting, speed = results.best(workload, name)
            times = f"{speed / fastest:.2f}" if fastest else ""
            text = "\n".join(verdicts.get(workload, ())) if name == OURS else ""
            share = f"{speed / bound:.0%}"
            yield [workload, f"{name} ({setting})", f"{speed:,.0f}", times, share, text]
    for kind, case in results.native.items():
        speed, text = case["steps_per_second"], "\n".join(verdicts.get(f"native {kind}", ()))
        name = f"{case['agents']} agents ({case['threads']} torch threads)"
        share = f"{speed / case['bound']:.0%}"
        yield [f"native {kind}", name, f"{speed:,.0f}", "", share, text]
    for agents, speed in results.agents.items():
        text = "\n".join(verdicts.get(f"{agents} agents", ()))
        yield ["agents", f"{agents} agents", f"{speed:,.0f}", "", "", text]


def as_json(results: Results) -> dict[str, Any]:
    return {
        "machine": machine(),
        "loops": results.loops,
        "bounds": results.bounds,
        "native": results.native,
        "agents": results.agents,
        "targets": [vars(row) | {"pass": row.passed} for row in judged(results)],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", nargs="+", choices=ROWS, default=ROWS)
    parser.add_argument("--seconds", type=float, default=3.0, help="per measurement")
    parser.add_argument("--sample-factory", help="the Python interpreter that has it")
    parser.add_argument("--json", type=Path, help="also write the results to this file")
    parser.add_argument("--markdown", type=Path, help="write the table to this file")
    args = parser.parse_args()
    results = Results()
    for row in args.rows:
        if row == "native":
            measure_native(results, args.seconds)
        elif row == "agents":
            measure_agents(results, args.seconds)
        else:
            measure_loops(results, row, args.seconds, args.sample_factory)
    table = list(rows(results))
    show(f"training loops on {available_cores()} cores", HEADINGS, table)
    if args.markdown:
        args.markdown.write_text(as_markdown(HEADINGS, table))
    if args.json:
        args.json.write_text(json.dumps(as_json(results), indent=2) + "\n")


if __name__ == "__main__":
    main()
