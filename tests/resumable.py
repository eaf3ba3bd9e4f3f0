"""Small runs that are resumed in a fresh process: `python resumable.py DIRECTORY NAME…`."""

import random
import sys
from pathlib import Path

import gymnasium
import numpy as np
import torch
from gymnasium.spaces import Box, Discrete
from pettingzoo.utils.env import ParallelEnv

import pufferlib.vector
from pufferlib import clean_pufferl
from pufferlib.emulation import GymnasiumPufferEnv, PettingZooPufferEnv
from pufferlib.environment import PufferEnv
from pufferlib.environments.classic_control import make_env as make_classic
from pufferlib.environments.ocean import make_squared
from pufferlib.models import Default, LSTMWrapper
from pufferlib.postprocess import EpisodeStats, MultiagentEpisodeStats
from pufferlib.trainer.config import TrainConfig


class Walk(PufferEnv):
    """Two random walks in the native contract; an agent that ends at ±3 is away for a step."""

    def __init__(self):
        self.single_observation_space = Box(-9, 9, (2,), np.float32)
        self.single_action_space = Discrete(2)
        self.num_agents = 2
        super().__init__()

    def reset(self, seed=None, options=None):
        self.rng = np.random.default_rng(seed)
        self.position = np.zeros(2)
        self._write(np.zeros(2))
        return []

    def step(self, actions):
        ended = self.terminals.copy()
        self.position += np.where(actions == 1, 1, -1) * self.rng.random(2)
        self.position[ended] = 0
        self._write(np.where(ended, 0, self.position))
        return [{"position": float(self.position[0])}]

    def _write(self, rewards):
        self.observations[:, 0] = self.position
        self.observations[:, 1] = self.rng.normal(size=2)
        self.rewards[:] = rewards
        self.terminals[:] = np.abs(self.position) > 3
        self.masks[:] = self.position > -2.5

    def get_state(self):
        return self.position, self.rng

    def set_state(self, state):
        self.position, self.rng = state


class GlobalDice(gymnasium.Env):
    """Episodes of seven steps over Python's and NumPy's global generators."""

    observation_space = Box(0, 1, (2,), np.float32)
    action_space = Discrete(2)

    def reset(self, seed=None, options=None):
        super().reset(seed=seed)
        self.time = 0
        return self._roll(), {}

    def step(self, action):
        self.time += 1
        return self._roll(), float(action == random.randrange(2)), False, self.time == 7, {}

    def _roll(self):
        return np.array([random.random(), np.random.random()], np.float32)  # noqa: NPY002


class Shift(ParallelEnv):
    """`a` works nine steps; `b` leaves after three, but is listed one step longer; `c` comes."""

    possible_agents = ["a", "b", "c"]
    metadata = {"name": "shift"}
    render_mode = None

    def observation_space(self, agent):
        return Box(-np.inf, np.inf, (2,), np.float32)

    def action_space(self, agent):
        return Discrete(2)

    def reset(self, seed=None, options=None):
        if seed is not None:
            self.rng = np.random.default_rng(seed)
        self.time, self.agents = 0, ["a", "b"]
        return self._observe(), {agent: {} for agent in self.agents}

    def step(self, actions):
        self.time += 1
        self.agents = {5: ["a"], 6: ["a", "c"]}.get(self.time, self.agents)
        over = {"a": self.time == 9, "b": self.time >= 4, "c": self.time == 9}
        results = (
            self._observe(),
            {agent: float(self.rng.normal()) for agent in self.agents},
            {agent: over[agent] for agent in self.agents},
            dict.fromkeys(self.agents, False),
            {agent: {} for agent in self.agents},
        )
        if self.time == 9:
            self.agents = []
        return results

    def _observe(self):
        return {
            agent: np.array([self.time, self.rng.normal()], np.float32) for agent in self.agents
        }


def make_dice():
    return GymnasiumPufferEnv(env=EpisodeStats(GlobalDice()))


def make_shift():
    return PettingZooPufferEnv(env=MultiagentEpisodeStats(Shift()))


def make_pendulum():
    return make_classic("Pendulum-v1", max_episode_steps=11)


PROCESSES = {"backend": "multiprocessing", "num_workers": 2}
RUNS = {
    # name: creator, arguments of `vector.make`, whether the policy has a memory
    "squared": (make_squared, {}, False),
    "squared-processes": (make_squared, PROCESSES, False),
    "squared-memory": (make_squared, {}, True),
    "cartpole-processes-memory": (make_classic, PROCESSES, True),
    "pendulum": (make_pendulum, {}, False),
    "walk": (Walk, {}, True),
    "dice-processes": (make_dice, PROCESSES, False),
    "shift-memory": (make_shift, {}, True),
}


def start(name, directory, **changes):
    """A trainer of the run `name` that writes to `directory / name`."""
    creator, options, has_memory = RUNS[name]
    options = {"num_envs": 4, "seed": 3} | options
    vecenv = pufferlib.vector.make(creator, **options)
    torch.manual_seed(0)
    policy = Default(vecenv.driver_env, 8)
    if has_memory:
        policy = LSTMWrapper(vecenv.driver_env, policy, 8, 8)
    settings = {"device": "cpu", "bptt_horizon": 7, "total_timesteps": 2_000, "update_epochs": 1}
    config = TrainConfig(learning_rate=0.01, **(settings | changes))
    return clean_pufferl.create(config, vecenv, policy, run_dir=Path(directory) / name)


def update(trainer, times):
    """Train; what each update told."""
    results = []
    for _ in range(times):
        stats = clean_pufferl.evaluate(trainer)
        results.append((dict(stats), stats.counts, clean_pufferl.train(trainer)))
    return results


def resume(name, directory, source, updates, **changes):
    """Go on from the checkpoint `source`: why not in mid-episode, the results, a new checkpoint."""
    trainer = start(name, directory, **changes)
    why_new = clean_pufferl.load_checkpoint(trainer, source)
    results = update(trainer, updates)
    path = clean_pufferl.save_checkpoint(trainer)
    clean_pufferl.close(trainer)
    return why_new, results, path


def main(directory, *names):
    for name in names:
        source = Path(directory) / name / "half.pt"
        torch.save(resume(name, Path(directory) / "fresh", source, 2)[:2], source.with_name("told"))


if __name__ == "__main__":
    main(*sys.argv[1:])
