"""Many snakes on one map, in C."""

from __future__ import annotations

import gymnasium
import numpy as np

from pufferlib.environments.ocean.native.worlds import NativeEnv
from pufferlib.exceptions import ConfigError

START = 2
MAX_CELLS = 2**16


class NativeSnake(NativeEnv):
    """Snakes that grow by what they eat and die of what they bite, `num_snakes` on each map.

    Rules. A map has `rows` x `columns` cells within walls. A snake is born at a random place, two
    cells long and with an empty cell ahead. All move at once, each a cell ahead after its turn:
    action 0 turns left, 1 goes straight on, 2 turns right. On food the snake grows by one cell,
    else its tail follows, which makes room before anyone moves in. Who moves into a wall or a
    body, its own included, dies, and so do all who move into the same cell. A dead snake turns
    into as much food as it has eaten. New food grows at random places whenever there are fewer
    than `food` cells of it, so all there is, on the map and eaten, grows by nothing else.

    Episodes. Each snake's own, with a birth in the same step: terminal when it dies, and when it
    has `max_length` cells and has won; truncated when it has lived `max_steps` steps. Then the
    body becomes food as well.

    Reward. 1 for each food, -1 for dying.

    Score. The share that was eaten of the `max_length` - 2 cells of food that win. The best is 1.
    What a person scores was not measured. A player of a few lines that takes the shortest way to
    the nearest food and bites nothing at once scores 0.33, the policy of `puffer train
    snake_native`, of 16,132 parameters, 0.69 (`benchmarks/snake.py`).

    Observation: int8 `(2 * vision + 1, 2 * vision + 1)`, the cells around the head, turned so that
    the snake looks up; 0 empty, 1 food, -1 wall or body, -2 head (the own one is in the centre).
    Actions: `Discrete(3)`.

    The agents of a map follow each other in the rows.

    Args:
        num_agents: snakes on all maps together, a multiple of `num_snakes`.
        num_snakes: snakes on each map, hundreds if the map is large enough.
        rows, columns: of a map. More than a third of it is always empty.
        food: cells of food that a map has at least.
        vision: how many cells a snake sees in each direction; 1 to 127.
        max_length: cells of the snake that wins; from 3 on.
        max_steps: steps of the longest life.
        threads: how many share each step; a map is stepped by one of them.

    Raises:
        ConfigError: an argument is out of its range, or the map is too small or too large.
        EnvironmentSetupError: the native core is missing, or older than the game.
    """

    game = "snake"

    def __init__(
        self,
        num_agents: int = 4096,
        num_snakes: int = 16,
        rows: int = 48,
        columns: int = 48,
        food: int = 32,
        vision: int = 5,
        max_length: int = 40,
        max_steps: int = 400,
        threads: int = 1,
        render_mode: str | None = "ansi",
    ) -> None:
        options = {
            "rows": rows,
            "columns": columns,
            "num_snakes": num_snakes,
            "food": food,
            "vision": vision,
            "max_length": max_length,
            "max_steps": max_steps,
        }
        _check(options)
        if num_agents < 1 or num_agents % num_snakes:
            raise ConfigError(
                f"num_agents: expected a multiple of num_snakes={num_snakes}, got {num_agents}"
            )
        side = 2 * vision + 1
        self.single_observation_space = gymnasium.spaces.Box(-2, 1, (side, side), np.int8)
        self.single_action_space = gymnasium.spaces.Discrete(3)
        worlds = num_agents // num_snakes
        super().__init__(list(options.values()), worlds, threads, render_mode)


def _check(options: dict[str, int]) -> None:
    for name, value in options.items():
        least = START + 1 if name == "max_length" else 1
        if not least <= value < 2**31:
            raise ConfigError(f"{name}: expected {least} to 2³¹ - 1, got {value}")
    rows, columns, border = options["rows"], options["columns"], 2 * options["vision"]
    if (cells := (rows + border) * (columns + border)) > MAX_CELLS:
        raise ConfigError(
            f"rows, columns: expected at most {MAX_CELLS} cells, with `vision` cells of wall on "
            f"each side, got {cells}"
        )
    taken = options["food"] + options["num_snakes"] * options["max_length"]
    if (rows - 2) * columns <= 3 * taken:
        raise ConfigError(
            f"rows, columns: expected (rows - 2) * columns above {3 * taken}, which is 3 * (food + "
            f"num_snakes * max_length), so that there is room for births, got "
            f"{(rows - 2) * columns}; make the map larger or max_length smaller"
        )
