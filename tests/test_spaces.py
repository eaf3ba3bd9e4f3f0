"""Predicates, bounds, the joint space of many rows, and rows that mix choices and numbers."""

import copy
import pickle
import re

import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Tuple

from pufferlib.exceptions import SpaceError
from pufferlib.spaces import (
    Mixed,
    dtype_bounds,
    is_box,
    is_composite,
    is_discrete,
    is_multidiscrete,
    joint_space,
    row_layout,
    unsupported_reason,
)

BOX = Box(-1, 1, (3,), np.float32)
MIXED = Mixed([2, 3], low=[-1.0], high=[0.5])


@pytest.mark.parametrize(
    ("space", "predicate"),
    [
        (Discrete(3), is_discrete),
        (MultiDiscrete([2, 3]), is_multidiscrete),
        (BOX, is_box),
        (Dict(a=BOX), is_composite),
        (Tuple([BOX]), is_composite),
        (MIXED, None),
        (MultiBinary(3), None),
    ],
)
def test_at_most_one_predicate_holds(space, predicate):
    predicates = [is_discrete, is_multidiscrete, is_box, is_composite]
    assert [p for p in predicates if p(space)] == ([predicate] if predicate else [])


@pytest.mark.parametrize(
    ("space", "shape", "dtype"),
    [
        (BOX, (3,), np.float32),
        (Box(0, 255, (2, 4), np.uint8), (2, 4), np.uint8),
        (Box(0, 1, (), np.float64), (), np.float64),
        (Discrete(3), (), np.int64),
        (MultiDiscrete([[2, 3], [4, 5]]), (2, 2), np.int64),
        (MultiBinary((2, 3)), (2, 3), np.int8),
        (MIXED, (3,), np.float32),
    ],
)
def test_row_layout(space, shape, dtype):
    assert row_layout(space) == (shape, np.dtype(dtype))


@pytest.mark.smoke
def test_a_composite_has_no_row_layout():
    with pytest.raises(SpaceError, match=r"expected a flat space .* got Dict.*emulation"):
        row_layout(Dict(a=BOX))


@pytest.mark.parametrize(
    ("space", "low", "high"),
    [
        (Box(-1, 2, (2,), np.float32), [-1, -1], [2, 2]),
        (Discrete(3), 0, 2),
        (Discrete(3, start=-4), -4, -2),
        (MultiDiscrete([2, 3]), [0, 0], [1, 2]),
        (MultiDiscrete([2, 3], start=[5, -1]), [5, -1], [6, 1]),
        (MultiBinary(2), [0, 0], [1, 1]),
    ],
)
def test_dtype_bounds(space, low, high):
    found = dtype_bounds(space)
    assert [bound.tolist() for bound in found] == [low, high]
    assert {bound.dtype for bound in found} == {np.dtype(space.dtype)}


@pytest.mark.parametrize(
    ("space", "joint"),
    [
        (BOX, Box(-1, 1, (2, 3), np.float32)),
        (Box(0, 255, (), np.uint8), Box(0, 255, (2,), np.uint8)),
        (Discrete(3), MultiDiscrete([3, 3])),
        (Discrete(3, start=2), Box(2, 4, (2,), np.int64)),
        (MultiDiscrete([2, 3]), MultiDiscrete([[2, 3], [2, 3]])),
        (
            MultiDiscrete([2, 3], start=[1, 0]),
            Box(np.int64([[1, 0]] * 2), np.int64([[2, 2]] * 2), dtype=np.int64),
        ),
        (MultiBinary(3), MultiBinary((2, 3))),
    ],
)
def test_joint_space(space, joint):
    found = joint_space(space, 2)
    assert found == joint
    rows = np.stack([space.sample() for _ in range(2)])
    assert found.contains(rows.astype(found.dtype))


def test_a_mixed_row_has_choices_first():
    assert MIXED.nvec == (2, 3)
    assert MIXED.shape == (3,)
    assert MIXED.dtype == np.float32
    assert MIXED.low.tolist() == [0, 0, -1]
    assert MIXED.high.tolist() == [1, 2, 0.5]


def test_a_mixed_space_contains_whole_choices_only():
    assert MIXED.contains(np.array([1, 2, 0.25], np.float32))
    assert not MIXED.contains(np.array([1, 1.5, 0.25], np.float32))
    assert not MIXED.contains(np.array([1, 3, 0.25], np.float32))
    assert not MIXED.contains(np.array([1, 2, 0.75], np.float32))
    assert not MIXED.contains(np.array([1, 2], np.float32))


def test_mixed_samples_reach_every_choice_and_repeat_with_the_seed():
    space = copy.deepcopy(MIXED)
    space.seed(3)
    rows = np.stack([space.sample() for _ in range(200)])
    assert all(space.contains(row) for row in rows)
    assert {tuple(choice) for choice in rows[:, :2]} == {(a, b) for a in range(2) for b in range(3)}
    assert len(np.unique(rows[:, 2])) > 100
    space.seed(3)
    np.testing.assert_array_equal(rows, np.stack([space.sample() for _ in range(200)]))


def test_mixed_spaces_are_equal_by_value_and_travel():
    assert Mixed([2, 3], [-1.0], [0.5]) == MIXED
    assert Mixed([3, 2], [-1.0], [0.5]) != MIXED
    assert Box(MIXED.low, MIXED.high, dtype=np.float32) != MIXED
    for twin in (pickle.loads(pickle.dumps(MIXED)), copy.deepcopy(MIXED)):
        assert twin == MIXED
        assert twin.nvec == (2, 3)
    assert repr(MIXED) == "Mixed(nvec=[2, 3], low=[-1.], high=[0.5])"


def test_a_mixed_choice_must_be_exact_in_float32():
    assert Mixed([2**24], [0.0], [1.0]).contains(np.array([2**24 - 1, 0.5], np.float32))
    with pytest.raises(SpaceError, match="expected at most 16777216 choices .* got 16777217"):
        Mixed([2**24 + 1], [0.0], [1.0])


def test_bounds_beyond_float32_are_no_bounds_in_a_mixed_row():
    assert Mixed([2], np.array([-1e300]), np.array([1e300])).high.tolist() == [1, np.inf]


@pytest.mark.parametrize(
    ("space", "reason"),
    [
        (BOX, None),
        (Box(0, 1, (2,), bool), None),
        (Discrete(2), None),
        (MultiDiscrete([2]), None),
        (MultiBinary(2), None),
        (spaces.Text(5), "Text is not supported"),
        (spaces.Sequence(BOX), "Sequence is not supported"),
        (spaces.Graph(BOX, None), "Graph is not supported"),
        (spaces.OneOf([BOX]), "OneOf is not supported"),
        (Box(0, 1, (2,), np.longdouble), "Box of dtype float128 is not supported"),
        (int, "expected a Gymnasium space, got builtins.type; .*GymToGymnasium"),
    ],
)
def test_what_is_unsupported_says_why(space, reason):
    found = unsupported_reason(space)
    if reason is None:
        assert found is None
    else:
        assert re.match(reason, found)
