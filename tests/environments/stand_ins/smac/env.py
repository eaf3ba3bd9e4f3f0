"""Speaks the documented interface of SMAC's `StarCraft2Env`; there is no StarCraft II behind it."""

import numpy as np

UNITS, ACTIONS, SIZE, LIMIT = 3, 9, 4, 8
ATTACK = 6


class StarCraft2Env:
    """The first of three units dies in the third step; four attacks on the first enemy win."""

    made = []

    def __init__(self, map_name, difficulty, step_mul, reward_sparse, seed=None):
        self.seed, self.settings = seed, (map_name, difficulty, step_mul, reward_sparse)
        self.closed = False
        StarCraft2Env.made.append(self)

    def get_env_info(self):
        return {
            "n_agents": UNITS,
            "n_actions": ACTIONS,
            "obs_shape": SIZE,
            "state_shape": 5,
            "episode_limit": LIMIT,
        }

    def reset(self):
        self.steps = self.hits = 0
        return self.get_obs(), np.zeros(5)

    def alive(self):
        return [self.steps < 3, True, True]

    def get_obs(self):
        rows = np.arange(UNITS * SIZE, dtype=np.float64).reshape(UNITS, SIZE) + self.steps
        return [row * alive for row, alive in zip(rows, self.alive(), strict=True)]

    def get_avail_actions(self):
        nothing, anything = [1] + [0] * (ACTIONS - 1), [0] + [1] * (ACTIONS - 1)
        return [anything if alive else nothing for alive in self.alive()]

    def step(self, actions):
        for action, allowed in zip(actions, self.get_avail_actions(), strict=True):
            assert allowed[action], actions
        self.steps += 1
        self.hits += actions.count(ATTACK)
        won = self.hits >= 4
        info = {"battle_won": won, "dead_allies": int(self.steps >= 3), "dead_enemies": int(won)}
        if self.steps == LIMIT and not won:
            info["episode_limit"] = True
        return float(actions.count(ATTACK)), won or self.steps == LIMIT, info

    def close(self):
        self.closed = True
