"""Actions on every backend: they arrive as they are, or are refused."""

import numpy as np
import pytest
import torch
import vector_toys as toys
from contract_tools import ZEROS, on_all
from gymnasium.spaces import Box, Discrete, MultiDiscrete
from toys import acting, emulate

from pufferlib import vector
from pufferlib.exceptions import SpaceError
from pufferlib.spaces import Mixed


@pytest.mark.parametrize(
    "form",
    [list, tuple, np.array, torch.tensor, lambda a: np.array(a)[:, None], lambda a: np.int8(a)],
    ids=["list", "tuple", "array", "tensor", "column", "int8"],
)
def test_actions_arrive_whatever_their_form(form):
    vecenv = vector.make(lambda: emulate(acting(Discrete(5))), num_envs=4)
    vecenv.reset()
    vecenv.step(form([4, 3, 2, 1]))
    assert vecenv.get_attr("received") == [[4], [3], [2], [1]]


@on_all
def test_each_agent_gets_its_own_actions(build):
    vecenv = build(lambda: emulate(acting(MultiDiscrete([5, 7]))))
    vecenv.async_reset()
    waiting = set(range(4))
    while waiting:
        env_id = vecenv.recv()[5]
        waiting -= set(env_id.tolist())
        vecenv.send(np.stack([env_id, env_id + 2], axis=1))
    for i, received in enumerate(vecenv.get_attr("received")):
        assert received
        assert all(action.tolist() == [i, i + 2] for action in received)


def test_mixed_actions_arrive_exactly():
    from gymnasium.spaces import Dict

    space = Dict({"choice": Discrete(3), "force": Box(-1, 1, (2,), np.float32)})
    vecenv = vector.make(lambda: emulate(acting(space)), num_envs=2)
    assert isinstance(vecenv.single_action_space, Mixed)
    vecenv.reset()
    vecenv.step(np.array([[2, 0.25, -0.5], [1, 1, 0]], np.float32))
    (received,) = vecenv.get_attr("received", [0])
    assert received[0]["choice"] == 2
    assert received[0]["force"].tolist() == [0.25, -0.5]


@pytest.mark.parametrize(
    ("actions", "message"),
    [
        (np.zeros(5, np.int64), r"expected shape \(4,\).*got \(5,\)"),
        (np.zeros((2, 2), np.int64), r"expected shape \(4,\).*got \(2, 2\)"),
        (3, r"expected shape \(4,\).*got \(\)"),
        (np.zeros(4), "expected dtype int64, got float64"),
        (torch.zeros(4), "expected dtype int64, got float32"),
    ],
)
def test_unfit_actions_are_refused_and_nothing_is_lost(actions, message):
    vecenv = vector.make(toys.make_draw, num_envs=4)
    vecenv.reset()
    with pytest.raises(SpaceError, match=message):
        vecenv.step(actions)
    vecenv.step(ZEROS)
    assert vecenv.get_attr("t") == [1] * 4


def test_rows_are_never_mixed_up_by_a_transposed_batch():
    vecenv = vector.make(lambda: emulate(acting(MultiDiscrete([5, 5]))), num_envs=3)
    vecenv.reset()
    with pytest.raises(SpaceError, match=r"expected shape \(3, 2\).*got \(2, 3\)"):
        vecenv.step(np.zeros((2, 3), np.int64))
