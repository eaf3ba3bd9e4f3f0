"""Speaks the documented interface of MineRL 1.0; there is no Minecraft behind it."""

import gym
import numpy as np
from gymnasium.spaces import Box, Dict, Discrete

KEYS = ("ESC", "attack", "back", "forward", "jump", "left", "right", "sneak", "sprint", "use")


class DiamondShovel:
    """Grey views that turn brighter; walking earns 1, and ten steps are an episode."""

    observation_space = Dict({"pov": Box(0, 255, (360, 640, 3), np.uint8)})
    action_space = Dict(
        {key: Discrete(2) for key in KEYS} | {"camera": Box(-180, 180, (2,), np.float32)}
    )

    def __init__(self):
        self.worlds, self.actions = [], []

    def seed(self, seed):
        self.next_world = seed

    def reset(self):
        self.worlds.append(self.next_world)
        self.steps = 0
        return self.view()

    def step(self, action):
        assert self.action_space.contains(action), action
        self.actions.append(action)
        self.steps += 1
        return self.view(), np.float64(action["forward"]), self.steps == 10, {}

    def view(self):
        colour = (self.worlds[-1] + self.steps) % 256
        return {"pov": np.full((360, 640, 3), colour, np.uint8)}

    def close(self):
        pass


gym.register("MineRLObtainDiamondShovel-v0", DiamondShovel)
