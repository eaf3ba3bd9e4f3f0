"""Games of turns: who moves, who waits, and how a game ends."""

import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary
from pettingzoo.test import parallel_api_test
from pettingzoo.utils import AgentSelector
from pettingzoo.utils.env import AECEnv

from pufferlib.emulation import PettingZooPufferEnv
from pufferlib.exceptions import APIUsageError
from pufferlib.testing import check_env
from pufferlib.wrappers import TurnsToParallel


class LastOneStays(AECEnv):
    """Three agents take turns; who says 2 leaves with reward -1, and the last one wins 5.

    Nobody may say 1 in the first round.
    """

    metadata = {"name": "last_one_stays"}
    render_mode = None

    def __init__(self):
        super().__init__()
        self.possible_agents = ["a", "b", "c"]
        space = Dict({"observation": Box(0, 100, (1,), np.int8), "action_mask": MultiBinary(3)})
        self.observation_spaces = dict.fromkeys(self.possible_agents, space)
        self.action_spaces = dict.fromkeys(self.possible_agents, Discrete(3))

    def observation_space(self, agent):
        return self.observation_spaces[agent]

    def action_space(self, agent):
        return self.action_spaces[agent]

    def reset(self, seed=None, options=None):
        self.agents = list(self.possible_agents)
        self.rewards = dict.fromkeys(self.agents, 0)
        self._cumulative_rewards = dict.fromkeys(self.agents, 0)
        self.terminations = dict.fromkeys(self.agents, False)
        self.truncations = dict.fromkeys(self.agents, False)
        self.infos = {agent: {} for agent in self.agents}
        self.turns = 0
        self.selector = AgentSelector(self.agents)
        self.agent_selection = self.selector.next()

    def observe(self, agent):
        mask = np.array([1, self.turns >= 3, 1], np.int8)
        if agent != self.agent_selection:
            mask[:] = 0
        return {"observation": np.array([self.turns], np.int8), "action_mask": mask}

    def step(self, action):
        agent = self.agent_selection
        if self.terminations[agent] or self.truncations[agent]:
            self._was_dead_step(action)
            return
        self.turns += 1
        self._clear_rewards()
        order = [other for other in self.agents if not self.terminations[other]]
        following = order[(order.index(agent) + 1) % len(order)]
        if action == 2:
            self.rewards[agent] = -1
            self.terminations[agent] = True
            order.remove(agent)
            if len(order) == 1:
                self.rewards[order[0]] = 5
                self.terminations[order[0]] = True
        if self.turns == 20:
            self.truncations = dict.fromkeys(self.agents, True)
        self._accumulate_rewards()
        self.agent_selection = following
        self._deads_step_first()

    def close(self):
        pass


@pytest.fixture
def game():
    env = TurnsToParallel(LastOneStays())
    env.reset(seed=1)
    return env


def say(env, word, otherwise=0):
    """Whose turn it is says `word`; what the others do is no matter."""
    speaker = env.env.agent_selection
    return env.step({agent: word if agent == speaker else otherwise for agent in env.agents})


def masks(observations):
    return {agent: seen["action_mask"].tolist() for agent, seen in observations.items()}


def test_only_the_agent_whose_turn_it_is_has_a_choice(game):
    observations, _ = game.reset(seed=1)
    wait = [1, 0, 0]
    assert masks(observations) == {"a": [1, 0, 1], "b": wait, "c": wait}
    observations, *_ = say(game, 0, otherwise=2)
    assert masks(observations) == {"a": wait, "b": [1, 0, 1], "c": wait}
    assert game.agents == ["a", "b", "c"], "who waits does not leave"


def test_who_leaves_has_a_last_observation_and_the_others_go_on(game):
    observations, rewards, terminals, truncations, _ = say(game, 2)
    assert rewards == {"a": -1.0, "b": 0.0, "c": 0.0}
    assert terminals == {"a": True, "b": False, "c": False}
    assert not any(truncations.values())
    assert {agent: seen["observation"].tolist() for agent, seen in observations.items()} == {
        "a": [1],
        "b": [1],
        "c": [1],
    }
    assert game.agents == ["b", "c"]
    assert masks(observations)["b"] == [1, 0, 1]
    _, rewards, terminals, _, _ = say(game, 2)
    assert rewards == {"b": -1.0, "c": 5.0}
    assert terminals == {"b": True, "c": True}
    assert game.agents == []


def test_a_limit_truncates_everyone(game):
    for _ in range(19):
        say(game, 0)
    *_, truncations, _ = say(game, 0)
    assert truncations == {"a": True, "b": True, "c": True}
    assert game.agents == []


def test_it_keeps_the_contracts():
    parallel_api_test(TurnsToParallel(LastOneStays()), num_cycles=60)
    check_env(PettingZooPufferEnv(TurnsToParallel(LastOneStays())))


def test_a_game_without_masks_is_refused():
    class Blind(LastOneStays):
        def observation_space(self, agent):
            return Box(0, 1, (1,))

    with pytest.raises(APIUsageError, match="expected observations with the key 'action_mask'"):
        TurnsToParallel(Blind())


def test_tic_tac_toe_is_won_by_three_in_a_row():
    pytest.importorskip("pygame")
    from pettingzoo.classic.tictactoe import tictactoe

    env = PettingZooPufferEnv(TurnsToParallel(tictactoe.env()), check="always")
    env.reset(seed=1)
    for square in (0, 3, 1, 4):
        *_, terminals, _, _ = env.step({"player_1": square, "player_2": square})
        assert not any(terminals.values())
    _, rewards, terminals, _, _ = env.step({"player_1": 2, "player_2": 0})
    assert rewards == {"player_1": 1.0, "player_2": -1.0}
    assert terminals == {"player_1": True, "player_2": True}
    env.close()
