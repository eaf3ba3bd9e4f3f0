"""An environment of one's own, checked, vectorized and trained: python examples/custom_env.py.

The command line trains it too, from this directory: `puffer train custom_env:make_env`.
"""

from typing import Any

import gymnasium
import numpy as np

import pufferlib.vector
from pufferlib import clean_pufferl
from pufferlib.emulation import GymnasiumPufferEnv
from pufferlib.models import Default
from pufferlib.postprocess import EpisodeStats
from pufferlib.testing import check_env
from pufferlib.trainer.config import TrainConfig


class Thermostat(gymnasium.Env[np.ndarray, int]):
    """Keep a room at 20 degrees for 50 steps; the heater is off, low or high."""

    observation_space = gymnasium.spaces.Box(-50.0, 50.0, (1,), np.float32)
    action_space = gymnasium.spaces.Discrete(3)

    def reset(self, *, seed: Any = None, options: Any = None) -> tuple[np.ndarray, dict[str, Any]]:
        """A room at 0 to 15 degrees."""
        super().reset(seed=seed)
        self.off, self.steps = float(self.np_random.uniform(-20, -5)), 0
        return np.array([self.off], np.float32), {}

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """Heat, and lose a tenth of what the room is warmer than 5 degrees."""
        self.off += 2.0 * action - 0.1 * (self.off + 15.0)
        self.steps += 1
        reward = 1.0 if abs(self.off) < 2.0 else 0.0
        return np.array([self.off], np.float32), reward, False, self.steps == 50, {}


def make_env() -> GymnasiumPufferEnv:
    """With the statistics of its episodes."""
    return GymnasiumPufferEnv(EpisodeStats(Thermostat()))


def main(steps: int = 25_000, run_dir: str | None = None) -> float:
    """Check, train, and return the steps of an episode in which it was warm at last."""
    check_env(make_env)
    envs = pufferlib.vector.make(make_env, num_envs=16)
    config = TrainConfig(total_timesteps=steps, learning_rate=3e-3, bptt_horizon=64, device="cpu")
    trainer = clean_pufferl.create(config, envs, Default(envs.driver_env), run_dir)
    while trainer.global_step < steps:
        comfortable = clean_pufferl.evaluate(trainer)["episode_return"]
        clean_pufferl.train(trainer)
    print(f"{comfortable:.1f} of 50 steps at 18 to 22 degrees")
    clean_pufferl.close(trainer)
    return comfortable


if __name__ == "__main__":
    main()
