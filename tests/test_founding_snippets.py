"""The walk-through that users know from the original documentation, with the edits that the
README's migration table lists: `def init` is `__init__`, `env` and `envs` are one name, an
environment with `nvec` where the policy reads it, Gymnasium's NetHack class, and one number of
agents. NetHack is the real one; a small PettingZoo environment stands where Neural MMO stood."""

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Dict, Discrete, MultiDiscrete
from pettingzoo import ParallelEnv
from torch import nn

import pufferlib.emulation
import pufferlib.frameworks.cleanrl
import pufferlib.pytorch
import pufferlib.vector
import pufferlib.wrappers

BACKENDS = [pufferlib.vector.Serial, pufferlib.vector.Multiprocessing]


class Market(ParallelEnv):
    """Two traders with structured observations and two choices each, for four steps."""

    metadata = {"name": "market"}
    possible_agents = ["buyer", "seller"]

    def observation_space(self, agent):
        return Dict(
            {
                "price": Box(0, 10, (3,), np.float32),
                "open": Discrete(2),
                "stock": Box(0, 9, (2, 2), np.int8),
            }
        )

    def action_space(self, agent):
        return MultiDiscrete([3, 4])

    def _observations(self):
        sample = {
            "price": np.arange(3, dtype=np.float32) + self.tick,
            "open": self.tick % 2,
            "stock": np.full((2, 2), self.tick, np.int8),
        }
        return dict.fromkeys(self.possible_agents, sample)

    def reset(self, seed=None, options=None):
        self.agents, self.tick = list(self.possible_agents), 0
        return self._observations(), {agent: {} for agent in self.agents}

    def step(self, actions):
        assert all(self.action_space(agent).contains(a) for agent, a in actions.items())
        self.tick += 1
        over = self.tick == 4
        result = (
            self._observations(),
            {agent: float(a[0]) for agent, a in actions.items()},
            dict.fromkeys(actions, over),
            dict.fromkeys(actions, False),
            {agent: {} for agent in actions},
        )
        self.agents = [] if over else self.agents
        return result

    def render(self):
        return None


def market_creator():
    env = Market()
    env = pufferlib.wrappers.PettingZooTruncatedWrapper(env)
    return pufferlib.emulation.PettingZooPufferEnv(env=env)


def nethack_creator():
    import nle.env

    return pufferlib.emulation.GymnasiumPufferEnv(
        env_creator=nle.env.NLE, env_kwargs={"save_ttyrec_every": 0}
    )


class Policy(nn.Module):
    """The walk-through's policy."""

    def __init__(self, env):
        super().__init__()
        self.encoder = nn.Linear(np.prod(env.single_observation_space.shape), 128)
        self.decoders = nn.ModuleList([nn.Linear(128, n) for n in env.single_action_space.nvec])
        self.value_head = nn.Linear(128, 1)

    def forward(self, env_outputs):
        env_outputs = env_outputs.reshape(env_outputs.shape[0], -1)
        hidden = self.encoder(env_outputs)
        actions = [dec(hidden) for dec in self.decoders]
        value = self.value_head(hidden)
        return actions, value


@pytest.mark.parametrize("backend", BACKENDS)
def test_vectorization_of_nethack_sync_and_async(backend):
    envs = pufferlib.vector.make(nethack_creator, backend=backend, num_envs=4)
    rows = envs.single_observation_space.shape
    obs, infos = envs.reset()
    assert obs.shape == (4, *rows)
    assert obs.dtype == np.uint8

    envs.async_reset()
    obs, rewards, terminals, truncateds, infos, env_id, mask = envs.recv()
    assert obs.shape == (4, *rows)
    assert rewards.tolist() == [0] * 4
    assert not terminals.any()
    assert not truncateds.any()
    assert env_id.tolist() == [0, 1, 2, 3]
    assert mask.all()
    envs.send(np.zeros(4, int))
    envs.recv()
    envs.close()


@pytest.mark.parametrize("backend", BACKENDS)
def test_policy_of_the_walk_through_on_a_pettingzoo_env(backend):
    envs = pufferlib.vector.make(market_creator, backend=backend, num_envs=4)
    obs, infos = envs.reset()
    assert obs.shape[0] == envs.num_agents == 8

    obs = torch.Tensor(obs)
    policy = Policy(envs.driver_env)
    cleanrl_policy = pufferlib.frameworks.cleanrl.Policy(policy)
    actions = cleanrl_policy.get_action_and_value(obs)[0].numpy()
    assert actions.shape == (8, 2)
    obs, rewards, terminals, truncateds, infos = envs.step(actions)
    assert rewards.tolist() == actions[:, 0].tolist()
    envs.close()


@pytest.mark.parametrize("backend", BACKENDS)
def test_complete_example_with_an_environment_hook(backend):
    import pufferlib.environments.nethack

    make_env = pufferlib.environments.nethack.env_creator()
    envs = pufferlib.vector.make(make_env, backend=backend, num_envs=4)

    policy = pufferlib.environments.nethack.Policy(envs.driver_env)
    cleanrl_policy = pufferlib.frameworks.cleanrl.Policy(policy)

    env_outputs = envs.reset()[0]
    obs = torch.from_numpy(env_outputs)
    actions = cleanrl_policy.get_action_and_value(obs)[0].numpy()
    assert actions.shape == (4,)
    next_obs, rewards, terminals, truncateds, infos = envs.step(actions)
    assert next_obs.shape == env_outputs.shape

    dtype = pufferlib.pytorch.nativize_dtype(envs.driver_env.emulated)
    env_outputs = pufferlib.pytorch.nativize_tensor(obs, dtype)
    assert set(env_outputs) == {"glyphs", "blstats", "message"}
    assert env_outputs["glyphs"].shape == (4, 21, 79)
    assert env_outputs["blstats"].shape == (4, 27)
    hit_points = env_outputs["blstats"][:, 10]
    assert (hit_points > 0).all()  # read at the right bytes: everybody starts alive
    envs.close()


def test_structured_observations_of_a_pettingzoo_env_are_unpacked_exactly():
    envs = pufferlib.vector.make(market_creator, num_envs=2)
    obs = torch.from_numpy(envs.reset()[0])
    dtype = pufferlib.pytorch.nativize_dtype(envs.driver_env.emulated)
    envs.step(np.zeros((4, 2), int))
    unpacked = pufferlib.pytorch.nativize_tensor(obs, dtype)
    assert unpacked["price"].tolist() == [[1, 2, 3]] * 4
    assert unpacked["open"].tolist() == [1] * 4
    assert unpacked["stock"].tolist() == [[[1, 1], [1, 1]]] * 4
    envs.close()


class PolicyInHalves(Policy):
    """The same with its forward pass broken into an encode and a decode step."""

    def encode_observations(self, env_outputs):
        return self.encoder(env_outputs.reshape(env_outputs.shape[0], -1).float())

    def decode_actions(self, hidden, lookup=None):
        return [dec(hidden) for dec in self.decoders], self.value_head(hidden)


def test_the_walk_throughs_policy_is_given_a_memory():
    import pufferlib.models

    envs = pufferlib.vector.make(market_creator, num_envs=2)
    env = envs.driver_env
    policy = pufferlib.models.LSTMWrapper(env, PolicyInHalves(env))
    cleanrl_policy = pufferlib.frameworks.cleanrl.RecurrentPolicy(policy)
    obs = torch.from_numpy(envs.reset()[0])
    actions, *_, state = cleanrl_policy.get_action_and_value(obs)
    assert actions.shape == (4, 2)
    envs.step(actions.numpy())
    fresh, remembering = (cleanrl_policy.get_value(obs, given) for given in (None, state))
    assert fresh.shape == (4, 1)
    assert not torch.equal(fresh, remembering)
    envs.close()


def test_recurrent_policy_for_cleanrl():
    import pufferlib.environments.nethack
    import pufferlib.models

    envs = pufferlib.vector.make(pufferlib.environments.nethack.env_creator(), num_envs=2)
    policy = pufferlib.environments.nethack.Recurrent(
        envs.driver_env, pufferlib.environments.nethack.Policy(envs.driver_env)
    )
    cleanrl_policy = pufferlib.frameworks.cleanrl.RecurrentPolicy(policy)
    obs = torch.from_numpy(envs.reset()[0])
    action, logprob, entropy, value, state = cleanrl_policy.get_action_and_value(obs)
    again = cleanrl_policy.get_action_and_value(obs, state, action)
    assert action.shape == logprob.shape == entropy.shape == (2,)
    assert len(again) == 5
    assert torch.equal(again[0], action)
    assert cleanrl_policy.get_value(obs, state).shape == value.shape
    envs.close()
