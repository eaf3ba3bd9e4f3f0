"""Speaks the documented interface of DeepMind Lab's Python module; there is no game behind it."""

import numpy as np

ACTIONS = (
    ("LOOK_LEFT_RIGHT_PIXELS_PER_FRAME", -512, 512),
    ("LOOK_DOWN_UP_PIXELS_PER_FRAME", -512, 512),
    ("STRAFE_LEFT_RIGHT", -1, 1),
    ("MOVE_BACK_FORWARD", -1, 1),
    ("FIRE", 0, 1),
    ("JUMP", 0, 1),
    ("CROUCH", 0, 1),
)
EPISODE_FRAMES = 40


class Lab:
    """Frames of the colour of the seed; moving forward earns 1 a frame, shooting 10."""

    made = []

    def __init__(self, level, observations, config={}, renderer="software"):  # noqa: B006
        assert all(isinstance(value, str) for value in config.values())
        self.level, self.names, self.renderer = level, observations, renderer
        self.shape = (int(config["height"]), int(config["width"]), 3)
        self.frames, self.running, self.actions = 0, False, []
        Lab.made.append(self)

    def action_spec(self):
        return [{"name": name, "min": low, "max": high} for name, low, high in ACTIONS]

    def reset(self, episode=-1, seed=None):
        assert seed is not None
        self.seed, self.frames, self.running = seed, 0, True

    def is_running(self):
        return self.running

    def observations(self):
        if not self.running:
            raise RuntimeError("Environment in wrong status")
        colour = (self.seed + self.frames) % 256
        return {name: np.full(self.shape, colour, np.uint8) for name in self.names}

    def step(self, action, num_steps=1):
        assert (action.dtype, action.shape) == (np.intc, (len(ACTIONS),))
        self.actions.append(dict(zip([name for name, *_ in ACTIONS], action.tolist(), strict=True)))
        self.frames += num_steps
        self.running = self.frames < EPISODE_FRAMES
        return num_steps * float(max(action[3], 0) + 10 * action[4])

    def close(self):
        self.running = False
