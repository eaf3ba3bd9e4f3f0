"""Batches of none, one and many, flat and back: the identity in NumPy; actions from tensors too.

Observations through tensors are in `test_flatten_torch.py`.
"""

import numpy as np
import torch
from gymnasium.spaces import Box, Dict
from hypothesis import given, settings
from strategies import assert_same, leaves_of_sample, spaces_and_samples

from pufferlib.emulation.common import fill_row
from pufferlib.flatten import ActionPlan, ObservationPlan
from pufferlib.flatten.leaves import children_of
from pufferlib.spaces import is_composite, row_layout

COUNTS = (0, 1, 5)
any_five = spaces_and_samples(number=max(COUNTS))
some = settings(max_examples=30)


def rows_of(plan, values):
    """`(len(values), *row_shape)`, as vectorization has them."""
    shape, dtype = row_layout(plan.row_space)
    rows = np.zeros((len(values), *shape), dtype)
    for i, value in enumerate(values):
        rows[i] = plan.encode(value)
    return rows


def sample_in(space, fields, i):
    """Sample `i` of a batch, nested as `space` nests it, out of the fields of its leaves."""
    if not is_composite(space):
        return np.array(fields[i])
    parts = {key: sample_in(child, fields[name], i) for key, name, child in children_of(space)}
    return parts if isinstance(space, Dict) else tuple(parts.values())


def assert_all_same(space, fields, samples):
    for i, sample in enumerate(samples):
        assert_same(space, sample_in(space, fields, i), sample)


@some
@given(any_five)
def test_observations_in_numpy(case):
    space, samples = case
    plan = ObservationPlan(space)
    for count in COUNTS:
        rows = rows_of(plan, samples[:count])
        for row, sample in zip(rows, samples, strict=False):
            assert_same(space, plan.decode(row), sample)
        if rows.nbytes and plan.is_emulated:  # NumPy views nothing as structs of no bytes
            structs = rows.view(plan.dtype)[:, 0]
            assert_all_same(space, structs, samples[:count])


@some
@given(any_five)
def test_actions_in_numpy_and_through_tensors(case):
    """Choices are exact; other numbers as exact as the row's dtype can hold them."""
    space, actions = case
    plan = ActionPlan(space)
    for count in COUNTS:
        rows = rows_of(plan, actions[:count])
        received = np.zeros_like(rows)
        for i, row in enumerate(torch.from_numpy(rows)):
            if torch.isfinite(row).all():  # a policy's infinities are refused
                fill_row(received[i, ...], row, "action")
                np.testing.assert_array_equal(received[i], rows[i])
        for row, action in zip(rows, actions, strict=False):
            pairs = zip(
                leaves_of_sample(space, plan.decode(row)),
                leaves_of_sample(space, action),
                strict=True,
            )
            for (leaf, value), (_, expected) in pairs:
                dtype = rows.dtype if isinstance(leaf, Box) else leaf.dtype
                assert np.shape(value) == leaf.shape
                np.testing.assert_array_equal(
                    np.asarray(value).astype(dtype), np.asarray(expected).astype(dtype)
                )
