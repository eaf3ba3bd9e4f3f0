"""Environments of masked actions that refuse what their masks rule out. All of them pickle."""

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete


class Picky(gymnasium.Env):
    """Pays 1 for an action of which every choice is the one shown at the episode's start.

    Each choice has `options` options, of which `allowed` may be taken at a step; the right one
    always may. An action with another option raises. An episode has `length` steps, and its last
    mask is empty.

    Args:
        choices: how many choices an action has; 0 for a single one in a Discrete space.
        remember: show the right options at the episode's start only.
    """

    def __init__(self, choices=0, options=8, allowed=2, length=8, remember=False):
        self.options, self.allowed, self.length, self.remember = options, allowed, length, remember
        self.count = max(choices, 1)
        self.action_space = MultiDiscrete([options] * choices) if choices else Discrete(options)
        self.observation_space = Dict(
            observation=Box(0, 1, (self.count, options), np.float32),
            action_mask=MultiBinary(self.count * options),
        )

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.clock = 0
        self.right = self.np_random.integers(self.options, size=self.count)
        return self._observe(), {}

    def step(self, action):
        chosen = np.atleast_1d(action)
        illegal = ~self.mask[np.arange(self.count), chosen]
        if illegal.any():
            raise ValueError(f"illegal action {action} with mask {self.mask.tolist()}")
        self.clock += 1
        reward = float((chosen == self.right).all())
        return self._observe(), reward, self.clock == self.length, False, {}

    def _observe(self):
        shown = np.zeros((self.count, self.options), np.float32)
        if self.clock == 0 or not self.remember:
            shown[np.arange(self.count), self.right] = 1
        self.mask = np.zeros((self.count, self.options), bool)
        if self.clock < self.length:
            for choice, right in enumerate(self.right):
                others = np.delete(np.arange(self.options), right)
                self.mask[choice, self.np_random.permutation(others)[: self.allowed - 1]] = True
                self.mask[choice, right] = True
        return {"observation": shown, "action_mask": self.mask.ravel().astype(np.int8)}
