"""OpenAI Gym: today's interface and the old one, limits, modules that register, and names."""

import sys

import numpy as np
import pytest

from pufferlib import environments
from pufferlib.environments import gym
from pufferlib.exceptions import ConfigError

pytestmark = pytest.mark.slow

MODULE = '''
import gym, numpy as np

class Old(gym.Env):
    """The interface of Gym 0.21."""

    observation_space = gym.spaces.Box(0, 1, (2,), np.float32)
    action_space = gym.spaces.Discrete(3)

    def __init__(self, start=0.25):
        self.start = start

    def seed(self, seed):
        self.start = seed / 10

    def reset(self):
        return np.full(2, self.start, np.float32)

    def step(self, action):
        return np.ones(2, np.float32), 1, action == 2, {}

    def render(self, mode="human"):
        return mode

gym.register("Old-v0", entry_point=Old, max_episode_steps=3, kwargs={"start": 0.75})
'''


@pytest.fixture
def old_module(tmp_path, monkeypatch):
    """The name of a module that registers an environment of the old interface."""
    (tmp_path / "old_games.py").write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    yield "old_games"
    sys.modules.pop("old_games", None)
    import gym as package

    package.envs.registry.pop("Old-v0", None)


def test_an_environment_of_the_old_interface(old_module):
    env = gym.make_env(f"{old_module}:Old-v0", render_mode="rgb_array")
    assert env.reset()[0].tolist() == [0.75, 0.75]
    assert env.reset(seed=4)[0].tolist() == np.full(2, 0.4, np.float32).tolist()
    assert env.render() == "rgb_array"
    ends = [env.step(action)[1:4] for action in (0, 1, 0)]
    assert ends == [(1.0, False, False), (1.0, False, False), (1.0, False, True)]
    env.reset()
    assert env.step(2)[2:4] == (True, False)
    env.close()


def test_options_reach_the_environment(old_module):
    env = gym.make_env(f"{old_module}:Old-v0", max_episode_steps=1, start=0.5)
    assert env.reset()[0].tolist() == [0.5, 0.5]
    *_, truncation, info = env.step(0)
    assert (truncation, info["episode_return"], info["episode_length"]) == (True, 1.0, 1)


def test_gyms_cartpole_is_gymnasiums():
    runs = []
    for name in ("gym/CartPole-v1", "cartpole"):
        task = environments.resolve(name)
        env = environments.load(name).env_creator(task.task)()
        rows = [env.reset(seed=3)[0].copy()]
        rows += [env.step(step % 2)[0].copy() for step in range(20)]
        env.close()
        runs.append(np.stack(rows))
    assert np.array_equal(*runs)


def test_a_module_that_is_not_there():
    with pytest.raises(ConfigError, match="expected a module 'no_games' that registers"):
        gym.env_creator("no_games:Old-v0")


def test_the_command_line_takes_a_module_behind_the_family(old_module):
    task = environments.resolve(f"gym/{old_module}:Old-v0")
    assert (task.row.name, task.task) == ("gym", f"{old_module}:Old-v0")
