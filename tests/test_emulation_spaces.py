"""Every kind of space an environment may have, alone and in a vecenv, or the reason it may not.

Tests named `test_oNN_…` answer public reports about other libraries, by their number there.
"""

import numpy as np
import pytest
from emulation_tools import received, shown
from gymnasium import spaces
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Tuple
from toys import Scripted, acting, emulate

from pufferlib.exceptions import SpaceError
from pufferlib.spaces import Mixed

F32 = Box(-1, 1, (2,), np.float32)
U8 = Box(0, 255, (2,), np.uint8)


# -- O07: choices that do not start at 0 ----------------------------------------------------------


def test_o07_discrete_start_is_added_to_actions():
    actions = received(Discrete(3, start=3), 0, 2)
    assert actions == [3, 5]
    assert {type(action) for action in actions} == {int}
    assert emulate(acting(Discrete(3, start=3))).single_action_space == Discrete(3)


def test_o07_discrete_start_inside_other_spaces():
    space = Dict(
        a=Discrete(3, start=3),
        b=Tuple([Discrete(2), Discrete(2, start=-1)]),
        c=MultiDiscrete([2, 3], start=[1, 10]),
    )
    assert emulate(acting(space)).single_action_space == MultiDiscrete([3, 2, 2, 2, 3])
    first, last = received(space, [0, 0, 0, 0, 0], [2, 1, 1, 1, 2])
    assert (first["a"], first["b"], first["c"].tolist()) == (3, (0, -1), [1, 10])
    assert (last["a"], last["b"], last["c"].tolist()) == (5, (1, 0), [2, 12])
    assert [type(value) for value in (last["a"], *last["b"])] == [int] * 3


def test_o07_multidiscrete_start():
    assert [a.tolist() for a in received(MultiDiscrete([2, 3], start=[5, -1]), [0, 0], [1, 2])] == [
        [5, -1],
        [6, 1],
    ]


def test_o07_observations_keep_their_real_values():
    env, rows = shown(Discrete(3, start=3), 3, 5, 4)
    assert rows == [3, 5, 4]
    assert env.emulated is None
    _, rows = shown(Tuple([Discrete(3, start=3), Discrete(2)]), (3, 0), (5, 1))
    assert [row.tolist() for row in rows] == [[3, 0], [5, 1]]


# -- O11: choices in several dimensions -----------------------------------------------------------


def test_o11_two_dimensional_multidiscrete():
    space = MultiDiscrete([[2, 3], [4, 5]])
    assert emulate(acting(space)).single_action_space == MultiDiscrete([2, 3, 4, 5])
    (action,) = received(space, [1, 2, 3, 4])
    assert action.tolist() == [[1, 2], [3, 4]]
    assert action.dtype == space.dtype
    env, (row,) = shown(space, np.array([[1, 2], [3, 4]]))
    assert row.tolist() == [[1, 2], [3, 4]]
    assert env.single_observation_space is space


# -- O12: every space, or a reason ----------------------------------------------------------------


def test_o12_a_tuple_of_discretes():
    env, rows = shown(Tuple([Discrete(32), Discrete(11), Discrete(2)]), (20, 10, 1), (4, 1, 0))
    assert [row.tolist() for row in rows] == [[20, 10, 1], [4, 1, 0]]
    assert env.single_observation_space.dtype == np.int64


def test_o12_multibinary():
    space = MultiBinary((2, 3))
    bits = np.int8([[1, 0, 1], [0, 1, 0]])
    env, (row,) = shown(space, bits)
    assert env.single_observation_space is space
    np.testing.assert_array_equal(row, bits)
    (action,) = received(space, [1, 0, 1, 0, 1, 0])
    np.testing.assert_array_equal(action, bits)
    assert action.dtype == np.int8


def test_o12_choices_and_numbers_together():
    space = Tuple([Box(-1, 1, (2,), np.float32), Discrete(4, start=1)])
    env = emulate(acting(space))
    assert env.single_action_space == Mixed([4], [-1, -1], [1, 1])
    ((values, choice),) = received(space, np.float32([3, 0.5, -0.25]))
    assert (values.tolist(), choice) == ([0.5, -0.25], 4)
    assert type(choice) is int


@pytest.mark.parametrize("role", ["observation", "action"])
@pytest.mark.parametrize(
    ("space", "message"),
    [
        (Dict(h=F32, s=spaces.Sequence(F32)), r"\['s'\]: Sequence is not supported"),
        (Tuple([Discrete(2), Dict(g=spaces.Graph(F32, None))]), r"\[1\]\['g'\]: Graph is not"),
        (spaces.Text(4), ": Text is not supported"),
        (Dict(o=spaces.OneOf([F32, U8])), r"\['o'\]: OneOf is not supported"),
    ],
)
def test_o12_unsupported_spaces_are_refused_at_construction(role, space, message):
    env = Scripted(space, []) if role == "observation" else acting(space)
    with pytest.raises(SpaceError, match=f"Scripted: {role}{message}"):
        emulate(env)
