"""Neural MMO's environment as others of today are: masks by name, short infos, pictures."""

from __future__ import annotations

import tempfile
from typing import Any

import numpy as np
from gymnasium.spaces import Dict, Space
from numpy.typing import NDArray
from pettingzoo.utils import BaseParallelWrapper

from pufferlib.ends import flags_of
from pufferlib.wrappers.masks import ACTION_MASK

PIXELS = 4  # of a square's side in a picture

# By the index of a square's material.
COLORS = np.array(
    [
        (0, 0, 0),  # void
        (50, 110, 220),  # water
        (90, 170, 70),  # grass
        (170, 150, 90),  # scrub: foliage that was eaten
        (30, 110, 40),  # foliage
        (110, 110, 110),  # stone
        (80, 70, 70),  # slag: ore that was taken
        (190, 120, 60),  # ore
        (120, 90, 60),  # stump
        (60, 80, 30),  # tree
        (150, 130, 160),  # fragment
        (200, 110, 230),  # crystal
        (130, 160, 90),  # weeds
        (220, 230, 110),  # herb
        (30, 70, 150),  # ocean
        (120, 190, 240),  # fish
    ],
    np.uint8,
)
PLAYER, NPC = (255, 255, 255), (230, 50, 40)

Observation = dict[str, Any]


class World(BaseParallelWrapper[Any, Any, Any]):
    """A Neural MMO environment with a mask of the actions, an info per life and a picture.

    Args:
        config: an instance of `nmmo.config.Config`; its folder of maps is set here.
        make: `nmmo.Env`.
        render_mode: 'rgb_array'.
    """

    metadata = {"render_modes": ["rgb_array"], "name": "neural_mmo"}

    def __init__(self, config: Any, make: Any, render_mode: str) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="nmmo")
        config.set("PATH_CWD", self._folder.name)
        self._has_tasks = config.CURRICULUM_FILE_PATH is not None
        super().__init__(make(config))
        self.render_mode = render_mode
        self.possible_agents = list(self.env.possible_agents)
        space = self.env.observation_space(self.possible_agents[0])
        self._observation_space = Dict(self._renamed(space.spaces))

    def observation_space(self, agent: Any) -> Space[Any]:
        """The space that all agents share."""
        return self._observation_space

    def reset(
        self, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[int, Observation], dict[int, dict[str, Any]]]:
        """A new world; a seed decides it and those that follow."""
        observations, _ = self.env.reset(seed=seed, options=options)
        return self._all_renamed(observations), {agent: {} for agent in observations}

    def step(
        self, actions: dict[int, Any]
    ) -> tuple[
        dict[int, Observation],
        dict[int, float],
        dict[int, bool],
        dict[int, bool],
        dict[int, dict[str, Any]],
    ]:
        """One tick of the world."""
        observations, rewards, terminals, truncations, infos = self.env.step(actions)
        ended = {agent for agent in infos if any(flags_of(agent, terminals, truncations))}
        short = {
            agent: self._life(agent, infos[agent]) if agent in ended else {} for agent in infos
        }
        return self._all_renamed(observations), rewards, terminals, truncations, short

    def render(self) -> NDArray[np.uint8]:
        """The map, `(size * 4, size * 4, 3)`: players white, others red, where they stand."""
        realm = self.env.realm
        materials = [[tile.material.index for tile in row] for row in realm.map.tiles]
        picture = COLORS[np.array(materials)]
        for entities, color in ((realm.npcs, NPC), (realm.players, PLAYER)):
            for entity in entities.values():
                picture[entity.pos] = color
        return picture.repeat(PIXELS, axis=0).repeat(PIXELS, axis=1)

    def close(self) -> None:
        """Remove the folder of maps."""
        self._folder.cleanup()

    def _life(self, agent: int, info: dict[str, Any]) -> dict[str, float]:
        """What is worth knowing of a life that ends."""
        players = self.env.realm.players
        player = self.env.dead_this_tick.get(agent) or players[agent]
        summary = {
            "exploration": player.history.exploration,
            "level": player.level,
            "player_kills": player.history.player_kills,
        }
        if self._has_tasks:
            tasks = info["task"].values()
            summary["task_progress"] = max((task["progress"] for task in tasks), default=0.0)
        return summary

    def _all_renamed(self, observations: dict[int, Observation]) -> dict[int, Observation]:
        return {agent: self._renamed(seen) for agent, seen in observations.items()}

    def _renamed(self, seen: dict[str, Any]) -> dict[str, Any]:
        named = {ACTION_MASK: seen["ActionTargets"]}
        named |= {key: value for key, value in seen.items() if key != "ActionTargets"}
        if not self._has_tasks:
            del named["Task"]
        return named
