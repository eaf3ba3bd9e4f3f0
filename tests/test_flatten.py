"""Plans between structured spaces and flat rows: layouts by hand, then any space there is."""

import copy
import pickle

import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Tuple
from hypothesis import given
from hypothesis import strategies as st
from strategies import (
    FLOATS,
    INTEGERS,
    assert_same,
    composites,
    leaves_of_sample,
    samples_of,
    spaces_and_samples,
)

from pufferlib.exceptions import SpaceError
from pufferlib.flatten import ActionPlan, ObservationPlan
from pufferlib.spaces import Mixed

F32 = Box(-1, 1, (2,), np.float32)
U8 = Box(0, 255, (3,), np.uint8)
MIXTURE = Dict(a=F32, b=U8, c=Discrete(4))
NESTED = Dict(inner=Dict(x=F32, y=Tuple([Discrete(3), U8])), z=Box(0, 1, (), np.float64))


# -- layout of observation rows ------------------------------------------------------------------


@pytest.mark.parametrize(
    "space",
    [F32, U8, Discrete(3), Discrete(3, start=5), MultiDiscrete([[2, 3]]), MultiBinary((2, 2))],
    ids=str,
)
def test_a_flat_space_is_its_own_row_space(space):
    plan = ObservationPlan(space)
    assert plan.row_space is space
    assert not plan.is_emulated
    assert plan.dtype.names is None


@pytest.mark.smoke
def test_a_mixture_is_the_bytes_of_an_aligned_struct():
    plan = ObservationPlan(MIXTURE)
    assert plan.is_emulated
    assert plan.dtype.names == ("a", "b", "c")
    # 8 bytes of floats, 3 of bytes, 5 of padding, 8 of an int64.
    assert [plan.dtype.fields[name][1] for name in "abc"] == [0, 8, 16]
    assert plan.dtype.itemsize == 24
    assert plan.row_space == Box(0, 255, (24,), np.uint8)
    row = plan.encode({"a": np.float32([1, -1]), "b": np.uint8([7, 8, 9]), "c": 3})
    assert row[:8].view(np.float32).tolist() == [1, -1]
    assert row[8:16].tolist() == [7, 8, 9, 0, 0, 0, 0, 0]
    assert row[16:].view(np.int64).tolist() == [3]


def test_nesting_is_kept_by_the_struct():
    dtype = ObservationPlan(NESTED).dtype
    assert dtype.names == ("inner", "z")
    assert dtype["inner"].names == ("x", "y")
    assert dtype["inner"]["y"].names == ("f0", "f1")
    assert dtype["inner"]["y"]["f1"].shape == (3,)


def test_leaves_of_one_dtype_keep_it():
    space = Dict(a=Box(-1, 2, (2,), np.float32), b=Tuple([Box(0, 5, (2, 2), np.float32)]))
    plan = ObservationPlan(space)
    assert plan.row_space == Box(
        np.float32([-1, -1, 0, 0, 0, 0]), np.float32([2, 2, 5, 5, 5, 5]), dtype=np.float32
    )
    row = plan.encode({"a": np.float32([1, 2]), "b": (np.float32([[1, 2], [3, 4]]),)})
    assert row.tolist() == [1, 2, 1, 2, 3, 4]


def test_a_tuple_of_discretes_is_a_row_of_integers_with_real_values():
    plan = ObservationPlan(Tuple([Discrete(32), Discrete(11, start=1), Discrete(2)]))
    assert plan.row_space == Box(np.int64([0, 1, 0]), np.int64([31, 11, 1]), dtype=np.int64)
    assert plan.encode((20, 11, 1)).tolist() == [20, 11, 1]


def test_spaces_without_leaves_or_elements():
    space = Dict(a=Dict(), b=Tuple([]), c=Box(0, 1, (0, 2), np.float32), d=Discrete(2))
    plan = ObservationPlan(space)
    sample = {"a": {}, "b": (), "c": np.zeros((0, 2), np.float32), "d": np.int64(1)}
    assert_same(space, plan.decode(plan.encode(sample)), sample)
    assert ObservationPlan(Dict()).row_space.shape == (0,)


# -- what does not fit ---------------------------------------------------------------------------


@pytest.mark.parametrize("plan", [ObservationPlan, ActionPlan])
@pytest.mark.parametrize(
    ("space", "message"),
    [
        (spaces.Text(3), r"it: Text is not supported"),
        (Dict(s=spaces.Sequence(F32)), r"it\['s'\]: Sequence is not supported"),
        (Tuple([F32, Dict(g=spaces.Graph(F32, None))]), r"it\[1\]\['g'\]: Graph is not supported"),
        (Dict(o=spaces.OneOf([F32, U8])), r"it\['o'\]: OneOf is not supported"),
        (Dict(l=Box(0, 1, (2,), np.longdouble)), r"it\['l'\]: Box of dtype float128"),
        (Dict({1: F32, "1": F32}), r"it: expected keys that differ as text, got \['1', '1'\]"),
    ],
)
def test_unsupported_spaces_are_refused_with_their_path(plan, space, message):
    with pytest.raises(SpaceError, match=f"^{message}"):
        plan(space, "it")


GOOD = {"inner": {"x": np.float32([0, 1]), "y": (1, np.uint8([1, 2, 3]))}, "z": 0.5}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda s: s.pop("z"),
            r"it: expected keys \['inner', 'z'\], got missing \['z'\] and extra \[\]",
        ),
        (lambda s: s.update(w=1), r"it: .* got missing \[\] and extra \['w'\]"),
        (
            lambda s: s["inner"].pop("x"),
            r"it\['inner'\]: expected keys \['x', 'y'\], got missing \['x'\]",
        ),
        (lambda s: s["inner"].update(y=(1,)), r"it\['inner'\]\['y'\]: .* missing \[1\]"),
        (lambda s: s["inner"].update(y=(1, 2, 3)), r"it\['inner'\]\['y'\]: .* extra \[2\]"),
        (lambda s: s["inner"].update(y=None), r"it\['inner'\]\['y'\]: .* got NoneType"),
        (
            lambda s: s["inner"].update(x=np.zeros(3)),
            r"\['x'\]: expected shape \(2,\), got shape \(3,\)",
        ),
        (
            lambda s: s["inner"].update(x="no"),
            r"\['x'\]: expected numbers of dtype float32, got str 'no'",
        ),
        (lambda s: s["inner"].update(x=[[1], [1, 2]]), r"\['x'\]: expected numbers .* got list"),
        (lambda s: s.update(z=None), r"it\['z'\]: expected numbers of dtype float64, got NoneType"),
    ],
)
def test_samples_that_do_not_fit_are_refused_with_their_path(change, message):
    plan = ObservationPlan(NESTED, "it")
    sample = copy.deepcopy(GOOD)
    change(sample)
    for use in (plan.encode, plan.check):
        with pytest.raises(SpaceError, match=message):
            use(sample)


def test_a_wrong_sample_of_a_flat_container_is_refused_too():
    for sample in (None, 3, [1, 2, 3], {"a": 1}, {}):
        with pytest.raises(SpaceError, match=r"it: expected keys \['a', 'b', 'c'\], got"):
            ObservationPlan(MIXTURE, "it").encode(sample)


@pytest.mark.parametrize(
    ("dtype", "value", "stored"),
    [
        # Python's numbers and lists
        (np.uint8, 255, 255),
        (np.int8, -128, -128),
        (np.int64, True, 1),
        (bool, 1, True),
        (np.float32, 2, 2.0),
        (np.float32, 0.1, np.float32(0.1)),
        (np.float64, 0.1, 0.1),
        (np.uint64, 2**64 - 1, 2**64 - 1),
        # arrays of another dtype that hold the same numbers
        (np.uint8, np.int64(255), 255),
        (np.uint8, np.float64(7), 7),
        (np.int64, np.uint64(5), 5),
        (np.int8, np.bool_(True), 1),
        (bool, np.float32(1), True),
        (np.float16, np.int64(2048), 2048),
        (np.float32, np.float64(np.inf), np.inf),
    ],
)
def test_numbers_are_converted_when_they_fit(dtype, value, stored):
    for shape in ((), (1,)):
        plan = ObservationPlan(Box(0, 1, shape, dtype))
        for given_value in (value, np.asarray(value), np.full((1, 1), value)):
            row = plan.encode(given_value)
            assert row.dtype == dtype
            np.testing.assert_array_equal(row, np.full(shape, stored, dtype))


@pytest.mark.parametrize("dtype", [*INTEGERS, *FLOATS])
def test_arrays_may_lie_in_memory_in_any_way(dtype):
    values = np.array([1, 2, 3], dtype)
    read_only = values.copy()
    read_only.flags.writeable = False
    spread, swapped = np.zeros(6, dtype)[::2], values.astype(np.dtype(dtype).newbyteorder())
    spread[:] = values
    plan = ObservationPlan(Box(0, 9, (3,), dtype))
    for array in (values, read_only, spread, values[::-1].copy()[::-1], swapped):
        row = plan.encode(array)
        assert (row.tolist(), row.dtype) == ([1, 2, 3], dtype)


@pytest.mark.parametrize("dtype", INTEGERS)
def test_integers_survive_at_the_limits_of_their_dtype(dtype):
    info = np.iinfo(dtype)
    limits = [int(info.min), int(info.max)]
    for space in (Box(info.min, info.max, (2,), dtype), Box(info.min, info.max, (1, 2), dtype)):
        plan = ObservationPlan(Dict(a=space, b=F32))
        sample = {"a": np.array(limits, dtype).reshape(space.shape), "b": np.zeros(2, np.float32)}
        plan.check(sample)
        assert np.ravel(plan.decode(plan.encode(sample))["a"]).tolist() == limits


@pytest.mark.parametrize(
    ("dtype", "value"),
    [
        (np.uint8, 300),
        (np.uint8, -1),
        (np.int8, np.uint8(200)),
        (np.uint32, np.int64(2**32)),
        (np.int64, np.uint64(2**63)),
        (np.int64, 2**70),
        (np.uint64, -1),
        (np.int64, np.float64(2.0**63)),
        (np.uint8, 1.5),
        (np.int32, np.float32(np.nan)),
        (np.int32, np.float32(np.inf)),
        (bool, 2),
        (bool, 0.5),
        (bool, np.nan),
        (np.float16, np.int64(70000)),
        (np.float32, 1e300),
    ],
)
def test_narrowing_never_wraps(dtype, value):
    for shape in ((), (1,)):
        plan = ObservationPlan(Box(0, 1, shape, dtype), "it")
        for given_value in (value, np.asarray(value), [value]):
            with pytest.raises(SpaceError, match="^it: expected"):
                plan.encode(given_value)


def test_float_arrays_are_rounded_and_one_warning_names_both_dtypes(recwarn):
    plan = ObservationPlan(Dict(a=F32, b=F32), "it")
    sample = {"a": np.float64([0.1, 0.2]), "b": np.float32([0, 0])}
    np.testing.assert_array_equal(plan.encode(sample), np.float32([0.1, 0.2, 0, 0]))
    assert not recwarn
    plan.check(sample)
    plan.check(sample)
    assert [str(w.message) for w in recwarn] == [
        "it['a']: the space says float32, the environment gives float64; "
        "values are rounded to the space's dtype"
    ]


@pytest.mark.parametrize(
    ("space", "value", "expected"),
    [
        (F32, np.float32([0, 1.5]), r"values within Box\(-1.0, 1.0.* from 0.0 to 1.5"),
        (F32, np.float32([np.nan, 0]), "from nan to nan"),
        (Discrete(3), 3, r"values within Discrete\(3\), got int64 of shape \(\) from 3 to 3"),
        (Discrete(3, start=2), 1, "values within Discrete"),
        (MultiDiscrete([2, 3]), [1, 3], "values within MultiDiscrete"),
        (MultiBinary(2), [0, 2], "values within MultiBinary"),
    ],
)
def test_check_refuses_what_is_out_of_bounds(space, value, expected):
    plan = ObservationPlan(space, "it")
    plan.encode(value)
    with pytest.raises(SpaceError, match=f"^it: expected .*{expected}"):
        plan.check(value)


def test_nothing_of_an_earlier_sample_shows_through():
    plan = ObservationPlan(MIXTURE)
    row = np.full(plan.row_space.shape, 0x5A, np.uint8)
    write = plan.writer(row)
    write({"a": np.ones(2, np.float32), "b": np.full(3, 9, np.uint8), "c": 2})
    write({"c": 1, "b": np.zeros(3, np.uint8), "a": np.zeros(2, np.float32)})
    assert_same(
        MIXTURE,
        plan.decode(row),
        {"a": np.zeros(2, np.float32), "b": np.zeros(3, np.uint8), "c": np.int64(1)},
    )


# -- actions -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("space", "row_space", "row", "action"),
    [
        (Discrete(5), Discrete(5), 4, 4),
        (Discrete(3, start=3), Discrete(3), 2, 5),
        (MultiDiscrete([2, 3]), MultiDiscrete([2, 3]), [1, 2], np.array([1, 2])),
        (MultiDiscrete([2, 3], start=[5, -1]), MultiDiscrete([2, 3]), [1, 2], np.array([6, 1])),
        (
            MultiDiscrete([[2, 3], [4, 5]]),
            MultiDiscrete([2, 3, 4, 5]),
            [1, 2, 3, 4],
            np.array([[1, 2], [3, 4]]),
        ),
        (MultiBinary((2, 2)), MultiDiscrete([2] * 4), [1, 0, 0, 1], np.int8([[1, 0], [0, 1]])),
        (F32, F32, np.float32([0.5, -1]), np.float32([0.5, -1])),
        (
            Tuple([Discrete(3, start=1), Discrete(2)]),
            MultiDiscrete([3, 2]),
            [0, 1],
            (1, 1),
        ),
        (
            Dict(a=Box(-1, 1, (), np.float32), b=Box(0, 2, (1, 2), np.float64)),
            Box(np.float64([-1, 0, 0]), np.float64([1, 2, 2]), dtype=np.float64),
            np.float64([0.5, 1, 2]),
            {"a": np.float32(0.5), "b": np.float64([[1, 2]])},
        ),
        (
            Dict(m=F32, n=Discrete(4, start=-2), o=MultiDiscrete([[2], [3]])),
            Mixed([4, 2, 3], [-1, -1], [1, 1]),
            np.float32([3, 1, 2, 0.5, -0.5]),
            {"m": np.float32([0.5, -0.5]), "n": 1, "o": np.array([[1], [2]])},
        ),
    ],
    ids=lambda value: str(value) if isinstance(value, spaces.Space) else "",
)
def test_rows_become_real_actions(space, row_space, row, action):
    plan = ActionPlan(space)
    assert plan.row_space == row_space
    assert plan.is_emulated == (space != row_space)
    row = np.asarray(row)
    plan.check(row)
    found = plan.decode(row)
    for (leaf, value), (_, expected) in zip(
        leaves_of_sample(space, found), leaves_of_sample(space, action), strict=True
    ):
        np.testing.assert_array_equal(value, expected)
        if isinstance(leaf, Discrete):
            assert type(value) is int
        else:
            assert (value.dtype, value.shape) == (leaf.dtype, leaf.shape)
    assert space.contains(found)
    np.testing.assert_array_equal(plan.encode(action), row)


def test_actions_are_not_views_of_the_row():
    row = np.zeros(2, np.float32)
    plan = ActionPlan(F32)
    read = plan.reader(row)
    actions = [plan.decode(row), read()]
    row.fill(1)
    assert [action.tolist() for action in (*actions, read())] == [[0, 0], [0, 0], [1, 1]]


def test_numbers_that_floats_cannot_hold_are_brought_within_bounds():
    space = Dict(
        choice=Discrete(2),
        flag=Box(0, 1, (2,), bool),
        wide=Box(-(2**63), 2**63 - 2, (2,), np.int64),
        narrow=Box(-3, 3, (2,), np.int8),
        tenth=Box(0.1, 0.1, (), np.float64),
    )
    plan = ActionPlan(space)
    row = np.zeros(plan.row_space.shape, np.float32)
    for leaf, start, stop in plan._columns:
        row[start:stop] = {"flag": [0.4, 0.6], "wide": [-1e30, 1e30], "narrow": [2.6, 9]}.get(
            leaf.path[0], 0
        )
    action = plan.decode(row)
    assert action["flag"].tolist() == [False, True]
    assert action["wide"].tolist() == [-(2**63), 2**63 - 2]
    assert action["narrow"].tolist() == [3, 3]
    assert action["tenth"] == 0.1
    assert space.contains(action)


@pytest.mark.parametrize(
    ("space", "row", "message"),
    [
        (Discrete(3), 3, "it: expected a value from 0 to 2, got 3"),
        (Discrete(3, start=3), -1, "it: expected a value from 0 to 2, got -1"),
        (
            Tuple([Discrete(2), Discrete(3)]),
            [1, 3],
            r"it\[1\]: expected a value from 0 to 2, got 3",
        ),
        (F32, [0, np.nan], "it: expected a value from -1.0 to 1.0, got nan"),
        (F32, [0, 1.5], "got 1.5; clip actions to the space's bounds"),
        (
            Tuple([Discrete(3), F32]),
            [0.5, 0, 0],
            r"it\[0\]: expected a value from 0.0 to 2.0, got 0.5",
        ),
    ],
)
def test_rows_out_of_bounds_are_refused_with_the_leaf(space, row, message):
    plan = ActionPlan(space, "it")
    with pytest.raises(SpaceError, match=message):
        plan.check(np.asarray(row, plan.row_space.dtype))


# -- travel --------------------------------------------------------------------------------------


@pytest.mark.parametrize("travel", [copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))])
def test_plans_travel(travel):
    plan = travel(ObservationPlan(NESTED, "it"))
    assert (plan.name, plan.dtype) == ("it", ObservationPlan(NESTED).dtype)
    np.testing.assert_array_equal(plan.encode(GOOD), ObservationPlan(NESTED).encode(GOOD))
    actions = travel(ActionPlan(Tuple([Discrete(3, start=1), F32])))
    choice, values = actions.decode(np.float32([2, 0, 1]))
    assert (choice, values.tolist()) == (3, [0, 1])


# -- any space there is --------------------------------------------------------------------------


@given(spaces_and_samples())
def test_any_observation_survives_its_row(case):
    space, (sample,) = case
    plan = ObservationPlan(space)
    plan.check(sample)
    row = plan.encode(sample)
    assert plan.row_space.contains(row)
    assert_same(space, plan.decode(row), sample)


@given(spaces_and_samples())
def test_pairing_is_by_name_and_lists_do(case):
    space, (sample,) = case
    row = ObservationPlan(space).encode(sample)
    np.testing.assert_array_equal(ObservationPlan(space).encode(shuffled(sample)), row)


def shuffled(sample):
    """Dicts in reverse order, tuples and arrays as lists."""
    if isinstance(sample, dict):
        return {key: shuffled(value) for key, value in reversed(sample.items())}
    if isinstance(sample, tuple):
        return [shuffled(value) for value in sample]
    return sample.tolist() if np.size(sample) else sample


@given(spaces_and_samples(number=2))
def test_a_row_shows_the_last_sample_only(case):
    space, (first, second) = case
    plan = ObservationPlan(space)
    row = np.zeros(plan.row_space.shape, plan.row_space.dtype)
    write = plan.writer(row)
    write(first)
    write(second)
    np.testing.assert_array_equal(row, plan.encode(second))


@given(composites, st.integers(0, 2**31))
def test_any_row_becomes_an_action_of_the_space(space, seed):
    plan = ActionPlan(space)
    plan.row_space.seed(seed)
    row = np.asarray(plan.row_space.sample())
    plan.check(row)
    action = plan.decode(row)
    assert space.contains(action)
    assert repr(plan.reader(row)()) == repr(action)
    again = plan.decode(plan.encode(action))
    for (leaf, value), (_, other) in zip(
        leaves_of_sample(space, action), leaves_of_sample(space, again), strict=True
    ):
        assert np.shape(value) == leaf.shape
        np.testing.assert_array_equal(value, other)


@given(st.data())
def test_any_action_survives_its_row(data):
    space = data.draw(composites)
    action = data.draw(samples_of(space))
    plan = ActionPlan(space)
    row = plan.encode(action)
    found = plan.decode(row)
    for (leaf, value), (_, other) in zip(
        leaves_of_sample(space, found), leaves_of_sample(space, action), strict=True
    ):
        # Choices are exact; numbers as exact as the row's dtype.
        exact = not isinstance(leaf, Box)
        precision = leaf.dtype if exact else row.dtype
        np.testing.assert_array_equal(
            np.asarray(value).astype(precision), np.asarray(other).astype(precision)
        )
