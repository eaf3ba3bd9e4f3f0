"""Rows of any space, unpacked on the torch side, are the samples that went in."""

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Dict, Discrete, Tuple
from hypothesis import given, settings
from strategies import spaces_and_samples

from pufferlib.emulation import Emulated
from pufferlib.exceptions import APIUsageError
from pufferlib.flatten import ObservationPlan
from pufferlib.pytorch import nativize_dtype, nativize_tensor
from pufferlib.spaces import row_layout


def emulated(plan):
    return Emulated(plan.dtype, row_layout(plan.row_space)[1], np.dtype(np.int64))


def unpack(plan, rows):
    return nativize_tensor(torch.from_numpy(rows), nativize_dtype(emulated(plan)))


def assert_unpacked(space, found, samples):
    """Leaf by leaf: the stacked samples, in shape `(batch, *leaf.shape)` and the leaf's dtype."""
    if isinstance(space, Dict):
        assert set(found) == {str(key) for key in space.spaces}
        for key, child in space.spaces.items():
            assert_unpacked(child, found[str(key)], [sample[key] for sample in samples])
    elif isinstance(space, Tuple):
        assert set(found) == {f"f{i}" for i in range(len(space.spaces))}
        for i, child in enumerate(space.spaces):
            assert_unpacked(child, found[f"f{i}"], [sample[i] for sample in samples])
    else:
        expected = np.array(samples, space.dtype).reshape(len(samples), *space.shape)
        assert found.shape == expected.shape
        np.testing.assert_array_equal(found.numpy(), expected)
        assert found.numpy().dtype == expected.dtype


def rows_of(plan, samples):
    shape, dtype = row_layout(plan.row_space)
    rows = np.zeros((len(samples), *shape), dtype)
    for row, sample in zip(rows, samples, strict=True):
        plan.writer(row[...])(sample)
    return rows


@settings(max_examples=60, deadline=None)
@given(spaces_and_samples(number=5))
def test_batches_of_none_one_and_many(case):
    space, samples = case
    if not isinstance(space, Dict | Tuple):
        space, samples = Tuple([space]), [(sample,) for sample in samples]
    plan = ObservationPlan(space)
    for count in (0, 1, 5):
        assert_unpacked(space, unpack(plan, rows_of(plan, samples[:count])), samples[:count])


def test_time_and_batch_together():
    space = Dict(a=Box(-1, 1, (2,), np.float32), b=Discrete(5))
    plan = ObservationPlan(space)
    samples = [{"a": np.float32([i, -i]), "b": i} for i in range(6)]
    found = unpack(plan, rows_of(plan, samples).reshape(2, 3, -1))
    assert found["a"].shape == (2, 3, 2)
    assert found["b"].tolist() == [[0, 1, 2], [3, 4, 5]]


def test_unpacked_leaves_are_views():
    plan = ObservationPlan(Dict(a=Box(0, 255, (2,), np.uint8), b=Discrete(5)))
    rows = rows_of(plan, [{"a": np.uint8([1, 2]), "b": 3}])
    found = unpack(plan, rows)
    rows[0, 0] = 9
    assert found["a"].tolist() == [[9, 2]]


def test_rows_that_were_cast_before_are_refused():
    plan = ObservationPlan(Dict(a=Box(0, 255, (2,), np.uint8), b=Discrete(5)))
    rows = torch.from_numpy(rows_of(plan, [{"a": np.uint8([1, 2]), "b": 3}])).float()
    with pytest.raises(APIUsageError, match=r"expected rows of torch.uint8, got torch.float32"):
        nativize_tensor(rows, nativize_dtype(emulated(plan)))
