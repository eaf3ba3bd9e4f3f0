"""minGRU: the scan against a loop, segments against single steps, the same face as the LSTM."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Discrete

from pufferlib.exceptions import APIUsageError
from pufferlib.models import Default, MinGRUWrapper, is_recurrent
from pufferlib.models.mingru import scan, scan_by_doubling

ENV = SimpleNamespace(
    single_observation_space=Box(-1, 1, (4,), np.float32),
    single_action_space=Discrete(3),
    emulated=None,
)


def wrapper(num_layers=2):
    torch.manual_seed(0)
    return MinGRUWrapper(ENV, Default(ENV, 8), 8, 8, num_layers)


def loop(keep, add, before):
    states = []
    for k, a in zip(keep, add, strict=True):
        before = k * before + a
        states.append(before)
    return torch.stack(states)


@pytest.mark.parametrize("solution", [scan, scan_by_doubling])
@pytest.mark.parametrize("steps", [1, 2, 3, 7, 8, 33])
def test_the_scan_is_the_recurrence_and_so_is_its_gradient(steps, solution):
    results = []
    for solve in (loop, solution):
        torch.manual_seed(steps)
        inputs = [
            torch.rand(steps, 2, 3, dtype=torch.float64, requires_grad=True),
            torch.randn(steps, 2, 3, dtype=torch.float64, requires_grad=True),
            torch.randn(2, 3, dtype=torch.float64, requires_grad=True),
        ]
        states = solve(*inputs)
        weights = torch.arange(states.numel(), dtype=torch.float64).reshape(states.shape)
        (states * weights).sum().backward()
        results.append([states, *(tensor.grad for tensor in inputs)])
    torch.testing.assert_close(results[0], results[1])


def test_by_hand():
    # h = 1;  0.5 * 1 + 2 = 2.5;  0 * 2.5 + 3 = 3;  1 * 3 + 1 = 4
    keep, add = torch.tensor([0.5, 0.5, 0, 1]), torch.tensor([0, 2.0, 3, 1])
    assert scan(keep, add, torch.tensor(2.0)).tolist() == [1, 2.5, 3, 4]
    assert scan_by_doubling(keep, add, torch.tensor(2.0)).tolist() == [1, 2.5, 3, 4]


@pytest.mark.parametrize("num_layers", [1, 2])
def test_a_segment_is_its_steps_one_by_one_with_resets(num_layers):
    policy = wrapper(num_layers)
    observations = torch.randn(3, 9, 4)
    starts = torch.rand(3, 9) < 0.3
    state = (torch.randn(num_layers, 3, 8),)
    logits, values, after = policy(observations, state, starts)
    step_logits, step_values = [], []
    for t in range(9):
        one, value, state = policy(observations[:, t], state, starts[:, t])
        step_logits.append(one)
        step_values.append(value)
    torch.testing.assert_close(logits.reshape(3, 9, 3), torch.stack(step_logits, 1))
    torch.testing.assert_close(values.reshape(3, 9), torch.cat(step_values, 1))
    torch.testing.assert_close(after, state)


def test_nothing_of_an_ended_life_remains():
    policy = wrapper()
    observations = torch.randn(2, 5, 4)
    observations[1, 2:] = observations[0, 2:]
    starts = torch.zeros(2, 5, dtype=torch.bool)
    starts[:, 2] = True
    logits, _, _ = policy(observations, None, starts)
    logits = logits.reshape(2, 5, 3)
    torch.testing.assert_close(logits[0, 2:], logits[1, 2:])
    assert (logits[0, :2] != logits[1, :2]).any()


def test_gates_begin_with_many_time_scales():
    policy = MinGRUWrapper(ENV, Default(ENV, 8), 8, 1_000, num_layers=2)
    for layer in policy.layers:
        scales = 1 / layer.bias[:1_000].sigmoid()
        assert 2 <= scales.min() < 2.1
        assert 7.9 < scales.max() <= 8.001
        assert (layer.bias[1_000:] == 0).all()


def test_it_has_the_recurrent_interface():
    policy = wrapper()
    assert is_recurrent(policy)
    _, value, state = policy(torch.randn(5, 4))
    assert value.shape == (5, 1)
    assert [part.shape for part in state] == [(2, 5, 8)]
    with pytest.raises(APIUsageError, match=r"state: expected shape \(2, 5, 8\), got \(2, 4, 8\)"):
        policy(torch.randn(5, 4), (torch.zeros(2, 4, 8),))
    with pytest.raises(APIUsageError, match="MinGRUWrapper: expected a policy with encode_obs"):
        MinGRUWrapper(ENV, torch.nn.Linear(4, 3))
