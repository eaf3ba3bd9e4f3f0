"""Multiagent: two agents, each with an action of its own to learn."""

from __future__ import annotations

from typing import Any, ClassVar, Literal, get_args

import gymnasium
import numpy as np
from numpy.typing import NDArray
from pettingzoo.utils.env import ParallelEnv

from pufferlib.environments.ocean.cells import CYAN, GREY, YELLOW, show, verdict
from pufferlib.environments.ocean.splitmix import SplitMix64
from pufferlib.environments.ocean.streams import continue_stream
from pufferlib.exceptions import ConfigError

Observation = NDArray[np.float32]
Roles = Literal["fixed", "drawn"]

_COLOURS = (CYAN, YELLOW)


class Multiagent(ParallelEnv[int, Observation, int]):
    """Two agents in one environment, each of which should play the action of its role.

    Rules. The agents are 1 and 2, and each sees its role: role 0 is to play action 0, role 1 is
    to play action 1. With `roles="fixed"`, agent 1 has role 0 and agent 2 has role 1. With
    `roles="drawn"`, each episode draws either agent's role anew, without regard to the other.
    Every step ends the episode.

    Reward. 1 for each agent that played the action of its role, else 0.

    Score. The info of each agent has `score`, which is its reward. The best is 1 for both. Random
    actions score 0.5.

    What it tests. That agents are not crossed: a reward, an action or an observation that goes to
    the other agent's row. Fixed roles show it for rewards and actions. Drawn roles also show it
    for observations: with fixed ones each agent could as well learn from the other's.

    Observation: float32 `(1,)`, the role. Actions: `Discrete(2)`. Roles come from the
    environment's own SplitMix64 stream, started by `reset(seed)`; episodes without a seed continue
    it.

    Raises:
        ConfigError: `roles` is neither 'fixed' nor 'drawn'.
    """

    metadata: ClassVar[dict[str, Any]] = {
        "name": "ocean_multiagent",
        "render_modes": ["ansi"],
        "render_fps": 2,
    }

    def __init__(self, roles: Roles = "fixed", render_mode: str | None = "ansi") -> None:
        if roles not in get_args(Roles):
            raise ConfigError(f"roles: expected 'fixed' or 'drawn', got {roles!r}")
        self.roles = roles
        self.render_mode = render_mode
        self.possible_agents = [1, 2]
        self.agents: list[int] = []
        self.observation_spaces = dict.fromkeys(
            self.possible_agents, gymnasium.spaces.Box(0, 1, (1,), np.float32)
        )
        self.action_spaces = dict.fromkeys(self.possible_agents, gymnasium.spaces.Discrete(2))
        self._random: SplitMix64 | None = None
        self._roles = {1: 0, 2: 1}
        self._rewards: dict[int, float] = {}

    def observation_space(self, agent: int) -> gymnasium.spaces.Space[Any]:
        """The same object at every call."""
        return self.observation_spaces[agent]

    def action_space(self, agent: int) -> gymnasium.spaces.Space[Any]:
        """The same object at every call."""
        return self.action_spaces[agent]

    def reset(
        self, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[int, Observation], dict[int, dict[str, Any]]]:
        """Start an episode; a seed restarts the stream of roles."""
        del options  # there are none
        self._random = continue_stream(self._random, seed)
        self.agents = list(self.possible_agents)
        if self.roles == "drawn":
            self._roles = {agent: self._random.below(2) for agent in self.agents}
        self._rewards = {}
        return self._observe(), {agent: {} for agent in self.agents}

    def step(
        self, actions: dict[int, int]
    ) -> tuple[
        dict[int, Observation],
        dict[int, float],
        dict[int, bool],
        dict[int, bool],
        dict[int, dict[str, Any]],
    ]:
        """Both act once, which ends the episode."""
        agents, self.agents = self.agents, []
        self._rewards = {agent: float(actions[agent] == self._roles[agent]) for agent in agents}
        infos = {agent: {"score": reward} for agent, reward in self._rewards.items()}
        ends, goes_on = dict.fromkeys(agents, True), dict.fromkeys(agents, False)
        return self._observe(), dict(self._rewards), ends, goes_on, infos

    def _observe(self) -> dict[int, Observation]:
        return {agent: np.array([role], np.float32) for agent, role in self._roles.items()}

    def render(self) -> str:
        """A line for each agent: its role, cyan for 0 and yellow for 1, and whether it was right.

        The verdict is grey until it has acted.
        """
        verdicts = {agent: verdict(reward == 1) for agent, reward in self._rewards.items()}
        return show(
            [_COLOURS[role], verdicts.get(agent, GREY)] for agent, role in self._roles.items()
        )
