"""What an environment shows becomes rows: keys, dtypes, bounds, ranks and lifetimes.

Tests named `test_oNN_…` answer public reports about other libraries, by their number there.
"""

import warnings

import numpy as np
import pytest
import torch
from emulation_tools import refused, shown
from gymnasium.spaces import Box, Dict, Discrete
from toys import Echo, Scripted, emulate, vectorize

from pufferlib.exceptions import APIUsageError, SpaceError
from pufferlib.pytorch import nativize_dtype, nativize_tensor

BACKENDS = ["serial", "multiprocessing"]
F32 = Box(-1, 1, (2,), np.float32)
U8 = Box(0, 255, (2,), np.uint8)
ZERO = np.zeros(2, np.float32)


# -- O08: order and presence of keys --------------------------------------------------------------


@pytest.mark.parametrize("backend", BACKENDS)
def test_o08_dict_entries_are_paired_by_name(backend):
    space = Dict({"b": Discrete(5), "a": Discrete(5)})
    orders = [{"a": 2, "b": 1}, {"b": 1, "a": 2}]
    with vectorize(lambda: Scripted(space, orders), backend=backend, copy=True) as vecenv:
        rows = [vecenv.reset()[0], vecenv.step([0])[0]]
        names = vecenv.emulated.observation_dtype.names
    assert [dict(zip(names, row[0].tolist(), strict=True)) for row in rows] == [
        {"a": 2, "b": 1}
    ] * 2


def test_o08_the_layout_is_the_spaces():
    for keys in (["b", "a"], ["a", "b"]):
        space = Dict([(key, Discrete(5)) for key in keys])
        assert emulate(Scripted(space, [])).emulated.observation_dtype.names == tuple(space.spaces)


def test_o08_keys_may_be_numbers_and_text():
    space = Dict([("x", Discrete(5)), (7, Discrete(5))])
    env, (row,) = shown(space, {7: 3, "x": 4})
    assert env.emulated.observation_dtype.names == ("x", "7")
    assert row.tolist() == [4, 3]


@pytest.mark.parametrize(
    ("later", "message"),
    [
        ({"a": 1}, r"Scripted: observation: expected keys \['a', 'b'\], got missing \['b'\]"),
        ({"a": 1, "b": 2, "c": 3}, r"got missing \[\] and extra \['c'\]"),
        ({"a": 1, "d": 2}, r"got missing \['b'\] and extra \['d'\]"),
    ],
)
def test_o08_a_missing_or_extra_key_is_an_error_at_any_step(later, message):
    space = Dict(a=Discrete(5), b=Discrete(5))
    good = {"a": 1, "b": 1}
    refused(space, [later], message)
    refused(space, [good, good, good, later], message, steps=3)


# -- O09: dtype and range -------------------------------------------------------------------------


def test_o09_float64_for_float32_is_rounded_with_one_warning():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        env = emulate(Scripted(F32, [np.array([0.1, 0.2])]))
        rows = [env.reset()[0], env.step(0)[0], env.step(0)[0]]
    assert [str(w.message) for w in caught] == [
        "Scripted: observation: the space says float32, the environment gives float64; "
        "values are rounded to the space's dtype"
    ]
    for row in rows:
        assert row.dtype == np.float32
        np.testing.assert_array_equal(row, np.float32([0.1, 0.2]))


def test_o09_integers_never_wrap_round():
    good = np.uint8([1, 2])
    for bad in ([300, -1], np.array([300, -1]), np.array([256.0, 0])):
        refused(
            U8, [good, good, good, bad], "Scripted: observation: .*uint8.* to (300|256)", steps=3
        )


def test_o09_lists_are_fine():
    _, rows = shown(U8, [1, 2], (3, 4))
    assert [(row.tolist(), row.dtype) for row in rows] == [([1, 2], np.uint8), ([3, 4], np.uint8)]


def test_o09_a_wrong_shape_names_both_at_any_step():
    refused(F32, [ZERO, ZERO, ZERO, np.zeros(3, np.float32)], r"shape \(2,\), got shape \(3,\)", 3)


OUT = np.array([0, 2], np.float32)


@pytest.mark.parametrize(
    ("check", "observations", "raises_at"),
    [
        ("first", [OUT], 0),
        ("first", [ZERO, OUT], 1),
        ("first", [ZERO, ZERO, OUT], None),
        ("always", [ZERO, ZERO, OUT], 2),
        ("always", [OUT], 0),
        ("never", [OUT, OUT], None),
    ],
)
def test_o09_bounds_are_checked_when_asked(check, observations, raises_at):
    env = emulate(Scripted(F32, observations), check=check)
    calls = [env.reset] + [lambda: env.step(0)] * 4
    for call in calls[:raises_at]:
        call()
    if raises_at is not None:
        with pytest.raises(SpaceError, match=r"observation: expected values within Box.* to 2.0"):
            calls[raises_at]()


def test_o09_always_includes_resets_and_actions():
    env = emulate(Scripted(F32, [ZERO, ZERO, ZERO], Discrete(2)), check="always")
    env.reset()
    env.step(0)
    with pytest.raises(SpaceError, match="Scripted: action: expected a value from 0 to 1, got 2"):
        env.step(2)
    env.env.observations = [OUT]
    with pytest.raises(SpaceError, match="expected values within"):
        env.reset()


def test_o09_an_unknown_check_is_refused():
    with pytest.raises(APIUsageError, match="expected 'first', 'always' or 'never', got 'often'"):
        emulate(Echo(), check="often")


# -- O10: scalars ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("space", "values", "row_type"),
    [
        (Discrete(7), [3, np.int64(4), np.array(5), np.array([6]), np.int8(1)], np.int64),
        (Box(-1, 1, (), np.float32), [np.float32(0.5), 0.25, np.array([-1.0]), 1], np.float32),
        (Box(0, 9, (1,), np.int32), [3, [4], np.int32(5)], np.int32),
    ],
)
def test_o10_scalar_observations(space, values, row_type):
    env, rows = shown(space, *values)
    assert env.single_observation_space is space
    for row, value in zip(rows, values, strict=True):
        assert row.dtype == row_type
        assert row.shape == space.shape
        assert float(np.ravel(row)[0]) == float(np.ravel(value)[0])


# -- O13: live views ------------------------------------------------------------------------------

MIXTURE = Dict(a=F32, b=Discrete(100))


def moving():
    return Scripted(MIXTURE, [{"a": np.float32([i / 8] * 2), "b": i} for i in range(4)])


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("copied", [False, True])
def test_o13_results_are_live_views_unless_copied(backend, copied):
    with vectorize(moving, n=2, backend=backend, copy=copied) as vecenv:
        observations = vecenv.reset()[0]
        dtype = nativize_dtype(vecenv.emulated)
        unpacked = nativize_tensor(torch.from_numpy(observations), dtype)
        kept = observations.copy()
        assert unpacked["b"].tolist() == [0, 0]
        vecenv.step([0, 0])
        assert np.array_equal(observations, kept) == copied
        assert unpacked["b"].tolist() == ([0, 0] if copied else [1, 1])
        assert nativize_tensor(torch.from_numpy(kept), dtype)["b"].tolist() == [0, 0]


def test_o13_an_environment_alone_returns_copies():
    env = emulate(moving())
    first = env.reset()[0]
    kept = first.copy()
    env.step(0)
    np.testing.assert_array_equal(first, kept)
