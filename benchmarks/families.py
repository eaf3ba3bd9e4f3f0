"""Does every family of environments learn? A short training of each, against random play.

    python benchmarks/families.py [NAME ...] [--seeds 1] [--episodes 50] [--results DIR]
                                  [--markdown FILE] [--plot FILE] [--report]

Each is trained by `puffer train` with its own settings, but for `STEPS` and `OPTIONS`; a
policy learns where the 95 % interval of its mean score lies above that of random actions. Trainings
end by their steps, so that other programs change only their seconds. What has a result is not done
again: the command may be interrupted and goes on. `--report` only shows what is there.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from report import as_markdown, machine, show

from pufferlib import environments
from pufferlib.trainer import checkpoint
from pufferlib.trainer.curves import METRICS_FILE, curve, read_points
from pufferlib.trainer.evaluate import EvalResult, evaluate_policy
from pufferlib.trainer.runs import find_checkpoint, run_dir_of
from pufferlib.trainer.setup import config_of_checkpoint, make_vecenv, policy_of_checkpoint

RESULTS = Path(__file__).parent / "results" / "families"
HEADINGS = ("environment", "seed", "steps", "seconds", "random", "trained", "score", "verdict")

STEPS = {
    "battle": 400_000,
    "box2d": 500_000,
    "breakout": 300_000,
    "cartpole": 300_000,
    "crafter": 200_000,
    "highway": 10_000,
    "knights_archers_zombies": 400_000,
    "minigrid": 100_000,
    "minihack": 50_000,
    "mpe": 500_000,
    "mujoco": 500_000,
    "nethack": 200_000,
    "neural_mmo": 100_000,
    "procgen": 1_000_000,
}
"""Environments that are trained unless others are named, and agent steps of each."""
OTHERS = 200_000
"""Steps of an environment that is not in the list."""
OPTIONS = {
    # Foraging alone, in one world of 64 agents, is learnt within minutes.
    "neural_mmo": ("--env.systems", "Terrain", "Resource", "--vec.num-envs", "1"),
}
"""Settings that are not the environment's own."""

Result = dict[str, Any]


def measure(name: str, seed: int, episodes: int, data_dir: Path) -> Result:
    """Train, and play as many episodes with the policy as with random actions."""
    steps = STEPS.get(name, OTHERS)
    limits = ["--train.total-timesteps", str(steps), "--train.max-seconds", "inf"]
    command = [sys.executable, "-m", "pufferlib", "train", name, *OPTIONS.get(name, ())]
    started = time.monotonic()
    run = subprocess.run(
        [*command, *limits, "--train.seed", str(seed), "--train.data-dir", str(data_dir)],
        capture_output=True,
        text=True,
    )
    if run.returncode:
        sys.exit(f"{name} failed:\n{run.stderr[-2000:]}")
    seconds = time.monotonic() - started
    path = find_checkpoint("latest", name, str(data_dir))
    score_key, trained, random = play(name, path, episodes)
    return {
        "name": name,
        "seed": seed,
        "steps": steps,
        "seconds": seconds,
        "score_key": score_key,
        "trained": [trained.mean, *trained.interval95],
        "random": [random.mean, *random.interval95],
        "curve": points(path, score_key),
        "machine": machine(),
    }


def play(name: str, path: Path, episodes: int) -> tuple[str, EvalResult, EvalResult]:
    """What is scored, and the scores of the policy in a checkpoint and of random actions."""
    content = checkpoint.read(path)
    config = config_of_checkpoint(content, str(path), name)
    sizes = {"num_envs": min(config.vec.num_envs, 8), "num_workers": "auto", "batch_size": "auto"}
    results = []
    for is_trained in (True, False):
        with make_vecenv(config, **sizes) as envs:
            policy = policy_of_checkpoint(content, str(path), config, envs) if is_trained else None
            results.append(
                evaluate_policy(envs, policy, episodes, seed=1, score_key=config.score_key)
            )
    return config.score_key, results[0], results[1]


def points(path: Path, score_key: str) -> list[list[float]]:
    """Steps and scores of the training that a checkpoint is from."""
    run_dir = run_dir_of(path)
    assert run_dir is not None
    xs, ys = curve(read_points(run_dir / METRICS_FILE).points, "step", f"episodes/{score_key}")
    return [xs.tolist(), ys.tolist()]


def measure_missing(
    directory: Path, names: Iterable[str], seeds: Iterable[int], episodes: int
) -> None:
    """Every result whose file is not there; families that are not installed are named."""
    directory.mkdir(parents=True, exist_ok=True)
    for name in names:
        row = environments.resolve(name).row
        if row.remedies:
            print(f"{name} is left out: {'; '.join(row.remedies)}")
            continue
        for seed in seeds:
            file = directory / f"{name}-{seed}.json"
            if not file.exists():
                print(f"{name}, seed {seed} …", flush=True)
                result = measure(name, seed, episodes, directory / f"{name}-{seed}")
                file.write_text(json.dumps(result))


def rows(results: Sequence[Result]) -> list[tuple[str, ...]]:
    """A row per result."""
    made = []
    for result in results:
        learns = result["trained"][1] > result["random"][2]
        made.append(
            (
                result["name"],
                str(result["seed"]),
                f"{result['steps']:,}",
                f"{result['seconds']:.0f}",
                interval(result["random"]),
                interval(result["trained"]),
                result["score_key"],
                "[green]learns[/]" if learns else "[red]NOT SHOWN[/]",
            )
        )
    return made


def interval(values: Sequence[float]) -> str:
    mean, low, high = values
    return f"{mean:.3g} ({low:.3g} to {high:.3g})"


def draw(results: Sequence[Result], path: Path) -> None:
    """A panel per environment: the curve of each seed, and the mean of random play."""
    from matplotlib import pyplot as plt
    from matplotlib.ticker import MaxNLocator

    names = list(dict.fromkeys(result["name"] for result in results))
    columns = min(len(names), 4)
    lines = -(-len(names) // columns)
    figure, panels = plt.subplots(
        lines, columns, figsize=(3.4 * columns, 2.6 * lines), squeeze=False, layout="constrained"
    )
    for axes in panels.flat[len(names) :]:
        axes.remove()
    for axes, name in zip(panels.flat, names, strict=False):
        mine = [result for result in results if result["name"] == name]
        for result in mine:
            axes.plot(*result["curve"], color="tab:orange", linewidth=1.2)
        axes.axhline(mine[0]["random"][0], color="tab:gray", linestyle="--", linewidth=1)
        axes.set_title(name, fontsize=9)
        axes.set_ylabel(mine[0]["score_key"].replace("_", " "), fontsize=7)
        axes.set_xlabel("agent steps", fontsize=7)
        axes.xaxis.set_major_locator(MaxNLocator(5))
        axes.xaxis.set_major_formatter(lambda steps, _: f"{steps / 1000:g}k")
        axes.tick_params(labelsize=7)
    figure.savefig(path, dpi=110)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", default=[*STEPS], metavar="NAME")
    parser.add_argument("--seeds", nargs="+", type=int, default=[1])
    parser.add_argument("--episodes", type=int, default=50, help="of each policy, at least")
    parser.add_argument("--results", type=Path, default=RESULTS, help="where results are kept")
    parser.add_argument("--markdown", type=Path, help="write the table to this file")
    parser.add_argument("--plot", type=Path, help="draw the curves (needs matplotlib)")
    parser.add_argument("--report", action="store_true", help="train nothing")
    args = parser.parse_args()
    directory = args.results.absolute()
    if not args.report:
        measure_missing(directory, args.names, args.seeds, args.episodes)
    results = [json.loads(file.read_text()) for file in sorted(directory.glob("*.json"))]
    show("trained policies against random play", HEADINGS, rows(results))
    if args.markdown:
        args.markdown.write_text(as_markdown(HEADINGS, rows(results)))
    if args.plot and results:
        draw(results, args.plot)


if __name__ == "__main__":
    main()
