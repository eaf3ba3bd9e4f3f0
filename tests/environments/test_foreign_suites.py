"""The API suites of Gymnasium, PettingZoo and Stable-Baselines3 pass on what is wrapped here.

That is said of everything that claims to speak one of these APIs: the wrappers and adapters, and
emulated environments, which are Gymnasium and parallel PettingZoo environments themselves. Native
environments and vectorized ones have other contracts, and checks of their own
(`pufferlib.testing`).
"""

import functools
import importlib
import warnings

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from gymnasium.wrappers import ClipReward, FrameStackObservation
from pettingzoo.test import parallel_api_test, parallel_seed_test

from pufferlib.emulation import GymnasiumPufferEnv, PettingZooPufferEnv
from pufferlib.environments import classic_control, nethack, ocean
from pufferlib.environments.ocean.sanity import Squared
from pufferlib.postprocess import EpisodeStats, MultiagentEpisodeStats
from pufferlib.wrappers import (
    ActionMaskFromInfo,
    GymToGymnasium,
    PadAgentSpaces,
    PerAgent,
    PettingZooTruncatedWrapper,
    ResizeObservation,
    aec_to_parallel,
)

pytestmark = [
    pytest.mark.slow,
    # They advise on style: names of bounds, wrapped environments, the dtype of a reward.
    pytest.mark.filterwarnings("ignore::UserWarning"),
]


class OldGym:
    """A Gymnasium environment in the API of Gym 0.21."""

    def __init__(self, env):
        self.env = env
        self.observation_space, self.action_space = env.observation_space, env.action_space
        self._seed = None

    def seed(self, seed=None):
        self._seed = seed

    def reset(self):
        seed, self._seed = self._seed, None
        return self.env.reset(seed=seed)[0]

    def step(self, action):
        observation, reward, terminal, truncation, info = self.env.step(action)
        info["TimeLimit.truncated"] = truncation
        return observation, reward, terminal or truncation, info


class OldPettingZoo:
    """A parallel environment in the API with `dones`."""

    def __init__(self, env):
        self.env = env
        self.possible_agents = env.possible_agents
        self.observation_space, self.action_space = env.observation_space, env.action_space
        self.close = env.close

    @property
    def agents(self):
        return self.env.agents

    def reset(self, seed=None):
        return self.env.reset(seed=seed)[0]

    def step(self, actions):
        observations, rewards, terminals, truncations, infos = self.env.step(actions)
        dones = {agent: terminals[agent] or truncations[agent] for agent in terminals}
        return observations, rewards, dones, infos


# -- one agent -----------------------------------------------------------------------------------


def make(name, wrap=lambda env: env, **kwargs):
    return EpisodeStats(wrap(gymnasium.make(name, **kwargs)))


def stacked_and_clipped(env):
    return ClipReward(FrameStackObservation(env, 3), -1.0, 1.0)


def of_old_gym(env):
    return GymToGymnasium(OldGym(env))


def in_pixels(env):
    frames = gymnasium.wrappers.AddRenderObservation(env, render_only=True)
    return ResizeObservation(frames, 40, 60)


SINGLE = {
    "CartPole": functools.partial(make, "CartPole-v1"),
    "CartPole of old Gym": functools.partial(make, "CartPole-v1", of_old_gym),
    "CartPole in pixels": functools.partial(
        make, "CartPole-v1", in_pixels, render_mode="rgb_array"
    ),
    "Acrobot": functools.partial(make, "Acrobot-v1", stacked_and_clipped),
    "MountainCar": functools.partial(make, "MountainCar-v0"),
    "MountainCarContinuous": functools.partial(make, "MountainCarContinuous-v0"),
    "Pendulum": functools.partial(make, "Pendulum-v1", stacked_and_clipped),
    "Blackjack": functools.partial(make, "Blackjack-v1"),
    "FrozenLake": functools.partial(make, "FrozenLake-v1"),
    "Taxi": functools.partial(make, "Taxi-v3", ActionMaskFromInfo),
    "Squared": lambda: EpisodeStats(Squared()),
    "NetHackScore": lambda: nethack.make_env("NetHackScore-v0").env,
    "NetHackStaircase": lambda: nethack.make_env("NetHackStaircase-v0", reward_clip=1.0).env,
}


@pytest.fixture(params=SINGLE)
def single(request):
    """A function that makes one of the environments above, wrapped but not emulated."""
    if request.param.startswith("NetHack"):
        pytest.importorskip("nle")
    return SINGLE[request.param]


def check_by_gymnasium(env):
    check_env(env, skip_render_check=True, skip_close_check=True)
    env.close()


def check_by_sb3(env):
    checker = importlib.import_module("stable_baselines3.common.env_checker")
    checker.check_env(env, warn=False, skip_render_check=True)
    env.close()


@pytest.mark.parametrize("emulates", [False, True], ids=["wrapped", "emulated"])
def test_gymnasium_finds_nothing(single, emulates):
    env = single()
    check_by_gymnasium(GymnasiumPufferEnv(env) if emulates else env)


@pytest.mark.parametrize("emulates", [False, True], ids=["wrapped", "emulated"])
def test_stable_baselines3_finds_nothing(single, emulates):
    pytest.importorskip("stable_baselines3")
    env = single()
    check_by_sb3(GymnasiumPufferEnv(env) if emulates else env)


def test_the_included_environments_pass_as_they_are_made():
    pytest.importorskip("stable_baselines3")
    for make_env in (classic_control.env_creator(), ocean.env_creator()):
        check_by_gymnasium(make_env())
        check_by_sb3(make_env())


# -- many agents ---------------------------------------------------------------------------------


def mpe(name, **kwargs):
    return importlib.import_module(f"mpe2.{name}").parallel_env(max_cycles=20, **kwargs)


def mpe_by_turns(name):
    return importlib.import_module(f"mpe2.{name}").env(max_cycles=20)


def butterfly(name, cycles):
    return importlib.import_module(f"pettingzoo.butterfly.{name}").parallel_env(max_cycles=cycles)


def resized(env):
    return PerAgent(env, ResizeObservation, 42, 42)


def clipped(env):
    return PerAgent(MultiagentEpisodeStats(env), ClipReward, max_reward=0.5)


MULTI = {
    "spread": lambda: MultiagentEpisodeStats(mpe("simple_spread_v3")),
    "spread of old PettingZoo": lambda: PettingZooTruncatedWrapper(
        OldPettingZoo(mpe("simple_spread_v3"))
    ),
    "spread by turns": lambda: MultiagentEpisodeStats(
        aec_to_parallel(mpe_by_turns("simple_spread_v3"))
    ),
    "spread, continuous": lambda: clipped(mpe("simple_spread_v3", continuous_actions=True)),
    "tag": lambda: PadAgentSpaces(MultiagentEpisodeStats(mpe("simple_tag_v3"))),
    "reference": lambda: clipped(mpe("simple_reference_v3")),
    "knights, archers, zombies": lambda: MultiagentEpisodeStats(
        butterfly("knights_archers_zombies_v11", 100)
    ),
    "cooperative pong": lambda: resized(butterfly("cooperative_pong_v6", 20)),
    "pistonball": lambda: clipped(resized(butterfly("pistonball_v6", 10))),
}


@pytest.fixture(params=MULTI)
def multi(request):
    """A function that makes one of the games above, wrapped but not emulated."""
    pytest.importorskip("pymunk")
    pytest.importorskip("mpe2")
    return MULTI[request.param]


@pytest.mark.parametrize("emulates", [False, True], ids=["wrapped", "emulated"])
def test_pettingzoo_finds_nothing(multi, emulates):
    env = multi()
    env = PettingZooPufferEnv(env) if emulates else env
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        parallel_api_test(env, num_cycles=120)
    assert [str(w.message) for w in caught if "agent" in str(w.message).lower()] == []
    env.close()


@pytest.mark.parametrize("emulates", [False, True], ids=["wrapped", "emulated"])
def test_a_seed_decides_every_game(multi, emulates):
    parallel_seed_test(lambda: PettingZooPufferEnv(multi()) if emulates else multi(), 20)


# -- the suites do find what is wrong ------------------------------------------------------------


class Lying(gymnasium.Wrapper):
    """Observations that are not of the space."""

    def reset(self, *, seed=None, options=None):
        observation, info = self.env.reset(seed=seed, options=options)
        return observation.astype(np.float64), info


@pytest.mark.parametrize("check", [check_by_gymnasium, check_by_sb3])
def test_a_broken_wrapper_is_found(check):
    pytest.importorskip("stable_baselines3")
    with pytest.raises((AssertionError, TypeError)):
        check(Lying(make("CartPole-v1")))
