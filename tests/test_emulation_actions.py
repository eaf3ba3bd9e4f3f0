"""Numbers of any rank and dtype become the actions of an environment, or are refused by name.

Tests named `test_oNN_…` answer public reports about other libraries, by their number there.
"""

import numpy as np
import pytest
import torch
from emulation_tools import received
from gymnasium.spaces import Box, Dict, Discrete, MultiDiscrete, Tuple
from strategies import INTEGERS
from toys import COMINGS_AND_GOINGS, Lives, acting, emulate, vectorize

import pufferlib.vector
from pufferlib.exceptions import InvalidAgentError, SpaceError
from pufferlib.trainer.collect import as_env_actions

BACKENDS = ["serial", "multiprocessing"]
F32 = Box(-1, 1, (2,), np.float32)


# -- O10: ranks -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "action", [2, [2], (2,), np.int64(2), np.array(2), np.array([[2]]), torch.tensor(2), True + 1]
)
def test_o10_actions_of_any_rank_arrive_as_a_number(action):
    env = emulate(acting(Discrete(3)))
    env.reset()
    env.step(action)
    assert env.env.received == [2]
    assert type(env.env.received[0]) is int


@pytest.mark.parametrize(
    "actions",
    [[1, 2], np.array([1, 2]), np.array([[1], [2]]), torch.tensor([1, 2]), np.int8([1, 2])],
)
def test_o10_batches_of_any_rank_arrive_as_numbers(actions):
    with vectorize(lambda: acting(Discrete(3)), n=2) as vecenv:
        vecenv.reset()
        vecenv.step(actions)
        assert vecenv.get_attr("received") == [[1], [2]]


def test_o10_a_scalar_box_action_arrives_with_its_shape():
    (action,) = received(Box(-1, 1, (), np.float32), np.float32(0.5))
    assert (action.shape, action.dtype, float(action)) == ((), np.float32, 0.5)


@pytest.mark.parametrize(
    ("space", "action", "message"),
    [
        (Discrete(3), [1, 2], r"action: expected shape \(\), got shape \(2,\)"),
        (MultiDiscrete([2, 2]), 1, r"action: expected shape \(2,\), got shape \(\)"),
        (F32, np.zeros(3), r"action: expected shape \(2,\), got shape \(3,\)"),
        (Discrete(3), 1.0, "action: expected dtype int64, got float64"),
        (Box(0, 255, (1,), np.uint8), [300], "action: expected values within uint8"),
        (Discrete(3), 3, "Scripted: action: expected a value from 0 to 2, got 3"),
        (F32, [0, 1.5], "expected a value from -1.0 to 1.0, got 1.5; clip actions"),
    ],
)
def test_o10_actions_that_do_not_fit_are_refused(space, action, message):
    env = emulate(acting(space))
    env.reset()
    with pytest.raises(SpaceError, match=message):
        env.step(action)
    assert env.env.received == []


# -- numbers that do not fit ----------------------------------------------------------------------


def arrays_of(value):
    """`value` in every form that holds it exactly: a list, and arrays of each integer dtype."""
    yield [value]
    for dtype in INTEGERS:
        if np.iinfo(dtype).min <= value <= np.iinfo(dtype).max:
            yield np.array([value], dtype)


@pytest.mark.parametrize("dtype", INTEGERS)
def test_integers_arrive_as_they_are_or_not_at_all(dtype):
    low, high = int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)
    space = Box(low, high, (1,), dtype)
    env = emulate(acting(space), check="always")
    env.reset()
    expected = []
    with vectorize(lambda: acting(space)) as vecenv:
        vecenv.reset()
        for value in {low - 1, low, low + 1, high - 1, high, high + 1, -1, 300}:
            for given in arrays_of(value):
                if low <= value <= high:
                    env.step(given)
                    vecenv.step(np.asarray(given).reshape(1, 1))
                    expected.append(value)
                    continue
                with pytest.raises(SpaceError, match=f"action: expected .*{np.dtype(dtype)}"):
                    env.step(given)
                with pytest.raises(SpaceError, match=f"actions: expected .*{np.dtype(dtype)}"):
                    vecenv.step(np.asarray(given).reshape(1, 1))
        (received,) = vecenv.get_attr("received")
    for actions in (received, env.env.received):
        assert [int(action[0]) for action in actions] == expected
        assert {action.dtype for action in actions} == {np.dtype(dtype)}


@pytest.mark.parametrize("wrapping", [256 + 5, 5 - 256])
def test_a_choice_that_would_wrap_round_to_a_good_one_is_refused(wrapping):
    space = MultiDiscrete([100, 100], dtype=np.int8)
    env = emulate(acting(space))
    env.reset()
    with pytest.raises(SpaceError, match="action: expected values within int8"):
        env.step([1, wrapping])
    with vectorize(lambda: acting(space)) as vecenv:
        vecenv.reset()
        with pytest.raises(SpaceError, match=r"actions: expected values within int8, got int64 of"):
            vecenv.step([[1, wrapping]])
        vecenv.step([[1, 5]])
        assert vecenv.get_attr("received")[0][0].tolist() == [1, 5]


def test_bools_take_0_and_1_only():
    space = Box(0, 1, (3,), bool)
    (action,) = received(space, [1, 0, True])
    assert (action.tolist(), action.dtype) == ([True, False, True], bool)
    env = emulate(acting(space))
    env.reset()
    with pytest.raises(SpaceError, match="action: expected bools, 0 or 1, got int64 of shape .* 2"):
        env.step([0, 1, 2])


NUMBERS = {
    "Box": F32,
    "unbounded": Box(-np.inf, np.inf, (2,), np.float64),
    "composite": Dict(a=F32, b=Box(0, 9, (1,), np.int32)),
    "mixed": Tuple([Discrete(2), F32]),
}


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("kind", NUMBERS)
@pytest.mark.parametrize("check", ["first", "never"])
def test_what_is_not_finite_is_refused_at_any_step(kind, bad, check):
    creator = lambda: emulate(acting(NUMBERS[kind]), check=check)  # noqa: E731
    env = creator()
    good = np.zeros(env.action_space.shape, env.action_space.dtype)
    env.reset()
    with pufferlib.vector.make(creator, num_envs=2) as vecenv:
        vecenv.reset()
        for place in range(good.size):
            row = good.copy()
            row[place] = bad
            with pytest.raises(SpaceError, match=f"action: expected finite numbers, got {bad} in"):
                env.step(row)
            with pytest.raises(SpaceError, match=f"actions: expected finite numbers, got {bad} in"):
                vecenv.step(np.stack([good, row]))
            env.step(good)
            vecenv.step(np.stack([good, good]))
        assert len(env.env.received) == len(vecenv.get_attr("received")[0]) == good.size


def test_what_absent_agents_do_may_be_anything():
    class Moving(Lives):
        def action_space(self, agent):
            return F32

    absent, present = np.zeros((2, 3, 2), np.float32)
    absent[2] = np.nan  # c is not there yet
    present[1] = np.nan
    with vectorize(lambda: Moving(COMINGS_AND_GOINGS)) as vecenv:
        vecenv.reset()
        vecenv.step(absent)
        with pytest.raises(SpaceError, match="actions: expected finite numbers"):
            vecenv.step(present)
    env = emulate(Moving(COMINGS_AND_GOINGS))
    env.reset()
    env.step(absent)
    env.step({"a": [0, 0], "b": [0, 0], "c": "nothing"})
    with pytest.raises(InvalidAgentError, match="unknown agent 'z'"):
        env.step({"a": [0, 0], "z": [0, 0]})
    with pytest.raises(SpaceError, match="action of 'a': expected finite numbers, got nan"):
        env.step({"a": [np.nan, 0]})


def test_a_float_that_the_row_cannot_hold_is_refused():
    with vectorize(lambda: acting(NUMBERS["Box"])) as vecenv:
        vecenv.reset()
        with pytest.raises(
            SpaceError, match="actions: expected values within float32, got float64"
        ):
            vecenv.step([[0, 1e300]])


@pytest.mark.parametrize("actions", [[None], ["1"], [[1], [2, 3]]])
def test_what_is_no_number_is_refused(actions):
    with vectorize(lambda: acting(Discrete(3))) as vecenv:
        vecenv.reset()
        with pytest.raises(SpaceError, match="actions: expected "):
            vecenv.step(actions)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_policys_floats_are_rounded_for_an_environment_of_integers(backend):
    space = Box(-3, 250, (4,), np.int16)
    with vectorize(lambda: acting(space), backend=backend) as vecenv:
        vecenv.reset()
        sampled = np.float32([[-9.9, 2.6, 0.5, 1e9]])
        vecenv.step(as_env_actions(sampled, vecenv.single_action_space))
        assert vecenv.get_attr("received")[0][0].tolist() == [-3, 3, 0, 250]
