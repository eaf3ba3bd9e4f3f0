"""How a trained policy plays native Snake, beside a player of a few lines.

    python benchmarks/snake.py CHECKPOINT [--episodes 4] [--agents 1024] [--seed 0]

Both play among their like, and then against each other, every second snake of a map being the
policy's. Counted are the first episodes of every snake, so that long lives weigh no less than short
ones. The policy's actions are sampled, as in training.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from pufferlib import vector
from pufferlib.environments.ocean.native import NativeSnake
from pufferlib.trainer import checkpoint
from pufferlib.trainer.evaluate import bootstrap_interval
from pufferlib.trainer.setup import config_of_checkpoint, policy_of_checkpoint

Windows = NDArray[np.int8]
Actions = NDArray[np.int64]
Player = Callable[[Windows], Actions]

NAME = "snake_native"
FOOD = 1
FAR = 1_000  # more than any distance in a window


def greedy(windows: Windows) -> Actions:
    """Go the shortest way to the nearest food in sight, of the moves that bite nothing at once.

    Distances are counted from the cell that a move leads to, as if nothing were in the way; of
    equal moves, straight on comes first.
    """
    v = windows.shape[1] // 2
    rows, columns = np.indices(windows.shape[1:])
    is_food = windows == FOOD
    costs = []
    for row, column in ((v - 1, v), (v, v - 1), (v, v + 1)):  # ahead, left, right
        away = np.abs(rows - row) + np.abs(columns - column)
        nearest = np.where(is_food, away, FAR).min((1, 2))
        costs.append(nearest + 2 * FAR * (windows[:, row, column] < 0))
    return np.array([1, 0, 2])[np.argmin(costs, axis=0)]


def load(path: str, seed: int) -> Player:
    """The policy of a checkpoint, which has no memory; `seed` is that of its choices."""
    content = checkpoint.read(path)
    config = config_of_checkpoint(content, path, NAME)
    with vector.make(NativeSnake, env_kwargs={"num_agents": 16}) as vecenv:
        policy = policy_of_checkpoint(content, path, config, vecenv).cpu().eval()
    print(f"{sum(p.numel() for p in policy.parameters()):,} parameters")

    generator = torch.Generator().manual_seed(seed)

    @torch.no_grad()
    def play(windows: Windows) -> Actions:
        logits, _ = policy(torch.from_numpy(windows))
        return torch.multinomial(logits.softmax(-1), 1, generator=generator)[:, 0].numpy()

    return play


def scores(even: Player, odd: Player, options: Any) -> tuple[list[float], list[float]]:
    """Of the first episodes of the snakes in even rows and in odd ones."""
    env = NativeSnake(options.agents)
    env.reset(seed=options.seed)
    left = np.full(options.agents, options.episodes)
    found: tuple[list[float], list[float]] = ([], [])
    actions = np.zeros(options.agents, np.int64)
    while left.any():
        actions[0::2], actions[1::2] = even(env.observations[0::2]), odd(env.observations[1::2])
        for info in env.step(actions):
            (rows,) = np.nonzero(env.terminals | env.truncations)
            for row, score in zip(rows, info["score"], strict=True):
                if left[row]:
                    left[row] -= 1
                    found[row % 2].append(float(score))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("checkpoint")
    parser.add_argument("--episodes", type=int, default=4)
    parser.add_argument("--agents", type=int, default=1024)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    policy = load(options.checkpoint, options.seed)
    table = Table("player", "against", "score", "95 % interval", "episodes")
    for name, player, rival, other in (
        ("policy", policy, "itself", policy),
        ("greedy", greedy, "itself", greedy),
        ("policy", policy, "greedy", greedy),
        ("greedy", greedy, "policy", policy),
    ):
        mine = scores(player, other, options)[0]
        low, high = bootstrap_interval(np.array(mine), options.seed)
        interval = f"{low:.3f} to {high:.3f}"
        table.add_row(name, rival, f"{np.mean(mine):.3f}", interval, f"{len(mine):,}")
    Console().print(table)


if __name__ == "__main__":
    main()
