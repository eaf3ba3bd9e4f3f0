"""A vectorized environment that plays a script, so that every row is known beforehand."""

from types import SimpleNamespace

import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete
from gymnasium.vector import AutoresetMode

from pufferlib.trainer.config import TrainConfig


class ScriptedVecEnv:
    """Delivers prepared rows and logs the actions it is sent.

    Args:
        rows: one dict per `recv`, with `agents`, `observations`, `rewards`, `terminals`,
            `truncations`, `masks` and, if need be, `final_observations` and `infos`. Arrays are
            overwritten after the next `send`, as those of a real one.
        num_agents: in all.
    """

    def __init__(
        self,
        rows,
        num_agents,
        observation_space=None,
        action_space=None,
        autoreset_mode=AutoresetMode.NEXT_STEP,
    ):
        self.rows = rows
        self.num_agents = num_agents
        self.agents_per_batch = len(rows[0]["agents"])
        self.single_observation_space = observation_space or Box(-9, 9, (3,), np.float32)
        self.single_action_space = action_space or Discrete(4)
        self.emulated = None
        self.autoreset_mode = autoreset_mode
        self.final_observations = None
        self.driver_env = SimpleNamespace(
            single_observation_space=self.single_observation_space,
            single_action_space=self.single_action_space,
            emulated=None,
            num_agents=1,
        )
        self.seeds = []
        self.actions = []
        self.closed = 0
        self._time = 0
        self._live = []

    def async_reset(self, seed=None):
        self.seeds.append(seed)
        self._time = 0

    def recv(self):
        row = {
            key: np.copy(value) for key, value in self.rows[self._time].items() if key != "infos"
        }
        self._time += 1
        self._live = [array for key, array in row.items() if key != "agents"]
        self.final_observations = row.get("final_observations")
        infos = self.rows[self._time - 1].get("infos", [])
        names = ("observations", "rewards", "terminals", "truncations")
        return *(row[name] for name in names), infos, row["agents"], row["masks"]

    def send(self, actions):
        self.actions.append(np.copy(actions))
        for array in self._live:  # what a receiver still holds is overwritten
            array.fill(True) if array.dtype == bool else array.fill(77)

    def close(self):
        self.closed += 1


def rows_from_lives(lives, seed=0, garbage=1e6, observation_size=3):
    """Rows of agents in step, from one string per agent with a letter per row.

    `f` first (after a reset, an auto-reset or a spawn), `n` normal, `t` terminal, `u` truncated,
    `-` absent. Observations are random, rewards too where a transition leads to the row; absent
    rows hold garbage.
    """
    rng = np.random.default_rng(seed)
    count, length = len(lives), len(lives[0])
    rows = []
    for time in range(length):
        kinds = np.array([life[time] for life in lives])
        observations = rng.normal(size=(count, observation_size)).astype(np.float32)
        rewards = np.where(kinds == "f", 0, rng.normal(size=count)).astype(np.float32)
        observations[kinds == "-"] = garbage
        rewards[kinds == "-"] = garbage
        rows.append(
            {
                "agents": np.arange(count),
                "observations": observations,
                "rewards": rewards,
                "terminals": kinds == "t",
                "truncations": kinds == "u",
                "masks": kinds != "-",
            }
        )
    return rows


def small_config(**changes):
    """A deterministic configuration; the horizon is 8 unless changed."""
    defaults = {
        "device": "cpu",
        "bptt_horizon": 8,
        "update_epochs": 1,
        "anneal_lr": False,
        "total_timesteps": 10_000,
    }
    return TrainConfig(**(defaults | changes))


@pytest.fixture
def scripted():
    return SimpleNamespace(
        VecEnv=ScriptedVecEnv, rows_from_lives=rows_from_lives, config=small_config
    )
