"""Rows: shapes and dtypes, one block of memory, views, poison."""

import dataclasses

import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete, MultiDiscrete

from pufferlib.buffers import ALIGNMENT, Buffers, Layout
from pufferlib.exceptions import SpaceError

OBSERVATION = Box(0, 255, (2, 3), np.uint8)


def allocate(observation=OBSERVATION, action=None, n=4, **options):
    return Buffers.allocate(observation, action or MultiDiscrete([3, 4, 5]), n, **options)


@pytest.mark.smoke
def test_shapes_and_dtypes():
    buffers = allocate(final=True)
    found = {f.name: getattr(buffers, f.name) for f in dataclasses.fields(buffers)}
    assert {name: (a.shape, a.dtype.name) for name, a in found.items()} == {
        "observations": ((4, 2, 3), "uint8"),
        "actions": ((4, 3), "int64"),
        "rewards": ((4,), "float32"),
        "terminals": ((4,), "bool"),
        "truncations": ((4,), "bool"),
        "masks": ((4,), "bool"),
        "final_observations": ((4, 2, 3), "uint8"),
    }
    assert not any(array.any() for array in found.values())


def test_final_observations_only_on_demand():
    assert allocate().final_observations is None


def test_a_discrete_row_is_a_number():
    buffers = allocate(Discrete(7, start=2), Discrete(3))
    assert buffers.observations.shape == buffers.actions.shape == (4,)


def test_views_share_memory_and_keep_apart():
    buffers = allocate(final=True)
    view = buffers.view(1, 3)
    for array in view.arrays():
        assert len(array) == 2
        array.fill(1)
    for array in buffers.arrays():
        assert array[1:3].all()
        assert not array[0].any()
        assert not array[3].any()


def test_a_view_without_final_observations_has_none():
    assert allocate().view(0, 2).final_observations is None


def test_arrays_over_one_block_do_not_overlap():
    layout = Layout(Box(0, 1, (3,), np.uint8), Discrete(3), num_agents=5, final=True)
    block = np.zeros(layout.nbytes, np.uint8)
    arrays = list(layout.map(block).arrays())
    for value, array in enumerate(arrays, start=1):
        array.view(np.uint8).fill(value)
    for value, array in enumerate(arrays, start=1):
        assert (array.view(np.uint8) == value).all()
    starts = [a.__array_interface__["data"][0] - block.ctypes.data for a in arrays]
    assert [start % ALIGNMENT for start in starts] == [0] * len(arrays)
    assert starts == sorted(starts)


def test_two_mappings_of_one_block_are_the_same_rows():
    layout = Layout(OBSERVATION, Discrete(3), num_agents=2)
    block = bytearray(layout.nbytes)
    one, other = layout.map(block), layout.map(block)
    one.rewards[1] = 2.5
    one.observations[1, 1, 2] = 9
    assert other.rewards.tolist() == [0, 2.5]
    assert other.observations[1, 1, 2] == 9


def test_poison_reaches_every_value():
    buffers = allocate(Box(-1, 1, (2,), np.float32), Discrete(3), final=True)
    buffers.poison()
    assert np.isnan(buffers.rewards).all()
    assert all(flags.all() for flags in (buffers.terminals, buffers.truncations, buffers.masks))
    assert (buffers.observations > 1e15).all()
    assert (buffers.final_observations > 1e15).all()
    assert (buffers.actions > 1e15).all()


def test_poison_of_rows_without_elements():
    buffers = allocate(Box(-1, 1, (0,), np.float32), Box(0, 1, (), np.float32))
    buffers.poison()
    assert buffers.observations.shape == (4, 0)


def test_poison_of_a_view_stays_within_it():
    buffers = allocate()
    buffers.view(1, 2).poison()
    assert buffers.masks.tolist() == [False, True, False, False]
    assert not buffers.observations[[0, 2, 3]].any()


def test_buffers_are_fixed():
    with pytest.raises(dataclasses.FrozenInstanceError):
        allocate().rewards = np.zeros(4)


def test_structured_spaces_have_no_rows():
    with pytest.raises(SpaceError, match="expected a flat space"):
        allocate(Dict(a=OBSERVATION))
