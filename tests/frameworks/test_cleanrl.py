"""CleanRL's method names over unchanged policies."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Discrete, MultiDiscrete
from torch import nn

from pufferlib.exceptions import APIUsageError
from pufferlib.frameworks.cleanrl import Policy, RecurrentPolicy
from pufferlib.models import Default, LSTMWrapper

ENV = SimpleNamespace(
    single_observation_space=Box(-1, 1, (4,), np.float32),
    single_action_space=MultiDiscrete([2, 3]),
    emulated=None,
)


class UserPolicy(nn.Module):
    """A user's own module: a list of decoders, nothing of this library."""

    def __init__(self, env):
        super().__init__()
        self.encoder = nn.Linear(int(np.prod(env.single_observation_space.shape)), 128)
        self.decoders = nn.ModuleList(nn.Linear(128, n) for n in env.single_action_space.nvec)
        self.value_head = nn.Linear(128, 1)

    def forward(self, env_outputs):
        hidden = self.encoder(env_outputs.reshape(env_outputs.shape[0], -1))
        return [decode(hidden) for decode in self.decoders], self.value_head(hidden)


@pytest.mark.parametrize("batch", [1, 5])
def test_an_unedited_policy_acts_and_is_evaluated(batch):
    agent = Policy(UserPolicy(ENV))
    observations = torch.randn(batch, 4)
    action, logprob, entropy, value = agent.get_action_and_value(observations)
    assert action.shape == (batch, 2)
    assert logprob.shape == entropy.shape == (batch,)
    assert value.shape == (batch, 1)
    assert torch.equal(agent.get_value(observations), value)
    again = agent.get_action_and_value(observations, action)
    assert torch.equal(again[0], action)
    torch.testing.assert_close(again[1], logprob)


@pytest.mark.smoke
def test_gradients_reach_the_policy():
    policy = UserPolicy(ENV)
    _, logprob, _, value = Policy(policy).get_action_and_value(torch.randn(3, 4))
    (logprob.sum() + value.sum()).backward()
    assert all(parameter.grad is not None for parameter in policy.parameters())


@pytest.mark.parametrize("batch", [1, 5])
def test_recurrent_five_tuple(batch):
    env = SimpleNamespace(**vars(ENV) | {"single_action_space": Discrete(3)})
    agent = RecurrentPolicy(LSTMWrapper(env, Default(env, 16), 16, 16, num_layers=2))
    observations = torch.randn(batch, 4)
    action, logprob, _, value, state = agent.get_action_and_value(observations)
    assert (action.shape, logprob.shape, value.shape) == ((batch,), (batch,), (batch, 1))
    assert [part.shape for part in state] == [(2, batch, 16)] * 2
    assert agent.lstm.hidden_size == 16
    later = agent.get_action_and_value(observations, state, action)
    assert not torch.equal(later[3], value)
    assert torch.equal(agent.get_value(observations, state), later[3])


def test_the_state_is_emptied_where_an_episode_begins():
    env = SimpleNamespace(**vars(ENV) | {"single_action_space": Discrete(3)})
    agent = RecurrentPolicy(LSTMWrapper(env, Default(env, 16), 16, 16))
    rows = torch.randn(2, 4)
    fresh = agent.get_value(rows)
    state = agent.get_action_and_value(rows)[-1]
    starts = torch.tensor([True, False])
    value = agent.get_action_and_value(rows, state, starts=starts)[3]
    assert torch.equal(agent.get_value(rows, state, starts), value)
    torch.testing.assert_close(value[0], fresh[0])
    assert not torch.allclose(value[1], fresh[1])


def test_a_recurrent_module_of_ones_own_need_not_know_starts():
    class Counting(nn.Module):
        def forward(self, observations, state):
            count = 1 if state is None else state + 1
            return (
                torch.zeros(len(observations), 2),
                torch.full((len(observations), 1), count),
                count,
            )

    agent = RecurrentPolicy(Counting())
    state = agent.get_action_and_value(torch.zeros(3, 4))[-1]
    assert agent.get_value(torch.zeros(3, 4), state).tolist() == [[2]] * 3


def test_a_memory_is_refused_where_it_would_stay_empty():
    env = SimpleNamespace(**vars(ENV) | {"single_action_space": Discrete(3)})
    with pytest.raises(APIUsageError, match=r"got LSTMWrapper.*cleanrl\.RecurrentPolicy"):
        Policy(LSTMWrapper(env, Default(env, 16), 16, 16))


def test_lstm_under_its_other_name_and_missing():
    module = nn.Module()
    module.lstm = nn.LSTM(2, 3)
    assert RecurrentPolicy(module).lstm is module.lstm
    with pytest.raises(APIUsageError, match="`recurrent` or `lstm`"):
        _ = RecurrentPolicy(nn.Linear(2, 2)).lstm
