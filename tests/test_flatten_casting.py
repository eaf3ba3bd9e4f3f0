"""Numbers from one dtype to another: every pair of dtypes, at their limits and beyond."""

import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Tuple
from hypothesis import given
from hypothesis import strategies as st
from strategies import FLOATS, INTEGERS

from pufferlib.exceptions import SpaceError
from pufferlib.flatten import ActionPlan
from pufferlib.flatten.casting import cast, cast_actions, nearest


def name(dtype):
    return str(np.dtype(dtype))


def limits_of(dtype):
    info = np.iinfo(dtype)
    return int(info.min), int(info.max)


@pytest.mark.parametrize("target", INTEGERS)
@pytest.mark.parametrize("source", INTEGERS)
def test_integers_are_cast_exactly_or_refused(source, target):
    (low, high), (least, most) = limits_of(target), limits_of(source)
    values = {edge + by for edge in (low, high, least, most, 0) for by in (-1, 0, 1)}
    for value in sorted(v for v in values if least <= v <= most):
        array = np.array([0, value], source)
        if low <= value <= high:
            found = cast(array, np.dtype(target), "it")
            assert (found.tolist(), found.dtype) == ([0, value], target)
        else:
            with pytest.raises(SpaceError, match=f"^it: expected values within {name(target)}"):
                cast(array, np.dtype(target), "it")


@pytest.mark.parametrize("target", INTEGERS)
@pytest.mark.parametrize("source", FLOATS)
def test_floats_are_cast_to_integers_exactly_or_refused(source, target):
    low, high = limits_of(target)
    for value in (low, high, 2 * low - 2, 2 * high + 2, 0.5, np.nan, -np.inf):
        with np.errstate(over="ignore"):  # infinite then, and refused as such
            given_value = source(value)
        whole = np.isfinite(given_value) and given_value == np.rint(given_value)
        if whole and low <= int(given_value) <= high:
            assert int(cast(given_value, np.dtype(target), "it")) == int(given_value)
        else:
            with pytest.raises(SpaceError, match="^it: expected"):
                cast(given_value, np.dtype(target), "it")


@pytest.mark.parametrize("dtype", [*INTEGERS, bool])
def test_actions_as_floats_are_refused_for_rows_of_integers(dtype):
    with pytest.raises(SpaceError, match=f"^it: expected dtype {name(dtype)}, got float64"):
        cast_actions([1.0], np.dtype(dtype), "it")


# -- the nearest number ---------------------------------------------------------------------------


@st.composite
def integer_boxes(draw):
    dtype = draw(st.sampled_from(INTEGERS))
    bounds = st.integers(*limits_of(dtype))
    low, high = sorted(draw(st.lists(bounds, min_size=2, max_size=2)))
    return Box(np.array([low], dtype), np.array([high], dtype), dtype=dtype)


@given(integer_boxes(), st.sampled_from(FLOATS), st.data())
def test_the_nearest_integer_within_the_bounds(space, source, data):
    low, high = int(space.low[0]), int(space.high[0])
    width = 8 * np.dtype(source).itemsize
    numbers = st.floats(allow_nan=False, width=width) | st.just(low) | st.just(high)
    with np.errstate(over="ignore"):  # float16 ends before the larger integers do
        value = source(data.draw(numbers))
        below, above = (np.nextafter(value, source(far)) for far in (-np.inf, np.inf))
    for number in (below, value, above):
        found = nearest(np.array([[number]], source), space)
        if np.isinf(number):
            expected = low if number < 0 else high
        else:
            expected = min(max(round(float(number)), low), high)
        assert (found.tolist(), found.dtype) == ([[expected]], space.dtype)


def test_the_nearest_bool():
    found = nearest(np.float32([-9, 0.4, 0.6, 9, np.inf]), Box(0, 1, (5,), bool))
    assert (found.tolist(), found.dtype) == ([False, False, True, True, True], bool)


def test_the_nearest_float_is_only_clipped():
    found = nearest(np.float32([[-9, 0.4]]), Box(-1, 1, (2,), np.float64))
    assert found.dtype == np.float64
    np.testing.assert_array_equal(found, np.float32([[-1, 0.4]]))


def test_a_nan_is_near_to_no_integer():
    with pytest.raises(SpaceError, match="actions: expected numbers to round to int8, got .*nan"):
        nearest(np.float32([0, np.nan]), Box(0, 9, (2,), np.int8))


# -- inside action rows ---------------------------------------------------------------------------


def test_choices_beside_numbers_survive_the_arithmetic_of_floats():
    space = Tuple([Discrete(3), MultiDiscrete([3], dtype=np.int8), MultiBinary(1), Box(0, 1, (1,))])
    almost = np.float32([2, 2, 1, 0.5]) - np.float32([2e-7, 2e-7, 1e-7, 0])
    choice, choices, bits, _ = ActionPlan(space).decode(almost)
    assert (choice, choices.tolist(), bits.tolist()) == (2, [2], [1])


@pytest.mark.parametrize("dtype", INTEGERS)
def test_integer_leaves_are_rounded_and_then_checked(dtype):
    space = Dict(n=Box(0, 3, (2,), dtype), x=Box(-1, 1, (), np.float32))
    plan = ActionPlan(space, "it")
    row = np.array([-0.4, 2.6, 0], plan.row_space.dtype)
    plan.check(row)
    action = plan.decode(row)["n"]
    assert (action.tolist(), action.dtype) == ([0, 3], dtype)
    for bad in (-0.6, 3.6):
        with pytest.raises(SpaceError, match=r"it\['n'\]: expected a value from 0.0 to 3.0, got"):
            plan.check(np.array([0, bad, 0], plan.row_space.dtype))


def test_numbers_that_are_not_finite_are_out_of_any_bounds():
    plan = ActionPlan(Box(-np.inf, np.inf, (1,), np.float32), "it")
    with pytest.raises(SpaceError, match="it: expected a value from -inf to inf, got inf"):
        plan.check(np.float32([np.inf]))
