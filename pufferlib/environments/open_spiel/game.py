"""A game of OpenSpiel as a parallel PettingZoo environment, whoever's turn it is."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary
from numpy.typing import NDArray
from pettingzoo.utils.env import ParallelEnv

from pufferlib.exceptions import APIUsageError
from pufferlib.wrappers.masks import ACTION_MASK
from pufferlib.wrappers.turns import WAIT

Observation = dict[str, NDArray[Any]]


class SpielGame(ParallelEnv[str, Any, Any]):
    """Every player observes and acts at every step, though only those count whose turn it is.

    A step is one move; where players move at once, it takes the actions of all. An observation has
    the tensor as `observation`, float32, and the legal moves as `action_mask`. Who waits is allowed
    action 0 alone, as in `pufferlib.wrappers.TurnsToParallel`. What chance decides is drawn from
    the generator that `reset` seeds. The reward is the change of `State.returns()`.

    Args:
        game: what `pyspiel.load_game` returned.
        whole_history: observe the information state, all that a player has seen so far, where the
            game has it.
        max_episode_steps: truncate after this many moves.
        render_mode: 'ansi': `render()` returns the state as OpenSpiel prints it.
    """

    metadata = {"render_modes": ["ansi"], "name": "open_spiel", "is_parallelizable": True}

    def __init__(
        self,
        game: Any,
        whole_history: bool = False,
        max_episode_steps: int | None = None,
        render_mode: str | None = None,
    ) -> None:
        self.game = game
        self.render_mode = render_mode
        kind = game.get_type()
        has_history = kind.provides_information_state_tensor
        self._history = has_history and (whole_history or not kind.provides_observation_tensor)
        self._limit = max_episode_steps or game.max_game_length()
        self._random = np.random.default_rng()
        self.possible_agents = [f"player_{number}" for number in range(game.num_players())]
        self.agents: list[str] = []
        shape = (
            game.information_state_tensor_shape()
            if self._history
            else game.observation_tensor_shape()
        )
        self._moves = game.num_distinct_actions()
        tensor = Box(-np.inf, np.inf, tuple(shape), np.float32)
        masked = Dict({"observation": tensor, ACTION_MASK: MultiBinary(self._moves)})
        self._observation_spaces = dict.fromkeys(self.possible_agents, masked)
        self._action_spaces = dict.fromkeys(self.possible_agents, Discrete(self._moves))
        self._shape = tensor.shape

    def observation_space(self, agent: str) -> Dict:
        """The same for every player."""
        return self._observation_spaces[agent]

    def action_space(self, agent: str) -> Discrete:
        """OpenSpiel's numbers of the moves."""
        return self._action_spaces[agent]

    def reset(
        self, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, Observation], dict[str, dict[str, Any]]]:
        """Deal; a seed decides what chance does in this game and those that follow."""
        if seed is not None:
            self._random = np.random.default_rng(seed)
        self.agents = list(self.possible_agents)
        self.state = self.game.new_initial_state()
        self._steps = 0
        self._let_chance_decide()
        self._returns = np.asarray(self.state.returns())
        return self._observations(), {agent: {} for agent in self.agents}

    def step(
        self, actions: dict[str, Any]
    ) -> tuple[
        dict[str, Observation],
        dict[str, float],
        dict[str, bool],
        dict[str, bool],
        dict[str, dict[str, Any]],
    ]:
        """One move, and what chance does after it.

        Raises:
            APIUsageError: a player whose turn it is chose a move that is not legal.
        """
        self._move([int(actions[agent]) for agent in self.agents])
        self._let_chance_decide()
        self._steps += 1
        before, self._returns = self._returns, np.asarray(self.state.returns())
        is_over = self.state.is_terminal()
        is_cut = not is_over and self._steps >= self._limit
        terminals = dict.fromkeys(self.agents, is_over)
        truncations = dict.fromkeys(self.agents, is_cut)
        rewards = dict(zip(self.agents, (self._returns - before).tolist(), strict=True))
        infos: dict[str, dict[str, Any]] = {agent: {} for agent in self.agents}
        result = self._observations(), rewards, terminals, truncations, infos
        if is_over or is_cut:
            self.agents = []
        return result

    def render(self) -> str | None:
        """The state as OpenSpiel prints it."""
        return str(self.state) if self.render_mode == "ansi" else None

    def _move(self, chosen: list[int]) -> None:
        if self.state.is_simultaneous_node():
            for player, move in enumerate(chosen):
                self._require_legal(player, move)
            self.state.apply_actions(chosen)
        else:
            player = self.state.current_player()
            self._require_legal(player, chosen[player])
            self.state.apply_action(chosen[player])

    def _require_legal(self, player: int, move: int) -> None:
        legal = self._legal(player)
        if move not in legal:
            raise APIUsageError(
                f"{self.possible_agents[player]}: expected a legal move, that is, one whose "
                f"action_mask is 1: {legal}, got {move}; a policy has to obey the mask"
            )

    def _legal(self, player: int) -> list[int]:
        """The moves of a player, or `WAIT` for one who has none."""
        return self.state.legal_actions(player) or [WAIT]

    def _let_chance_decide(self) -> None:
        while self.state.is_chance_node():
            outcomes, chances = zip(*self.state.chance_outcomes(), strict=True)
            self.state.apply_action(outcomes[self._random.choice(len(outcomes), p=chances)])

    def _observations(self) -> dict[str, Observation]:
        return {agent: self._seen_by(player) for player, agent in enumerate(self.agents)}

    def _seen_by(self, player: int) -> Observation:
        tensor = (
            self.state.information_state_tensor(player)
            if self._history
            else self.state.observation_tensor(player)
        )
        mask = np.zeros(self._moves, np.int8)
        mask[self._legal(player)] = 1
        return {
            "observation": np.asarray(tensor, np.float32).reshape(self._shape),
            ACTION_MASK: mask,
        }
