"""Hypothesis strategies for spaces and their samples, and an exact comparison of samples."""

import numpy as np
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Tuple
from hypothesis import strategies as st

from pufferlib.spaces import dtype_bounds

INTEGERS = [np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64]
FLOATS = [np.float16, np.float32, np.float64]

shapes = st.lists(st.integers(0, 3), max_size=3).map(tuple)
full_shapes = st.lists(st.integers(1, 3), min_size=1, max_size=3).map(tuple)


@st.composite
def boxes(draw):
    dtype = draw(st.sampled_from([bool, *INTEGERS, *FLOATS]))
    if dtype is bool:
        return Box(0, 1, draw(shapes), bool)
    if dtype in FLOATS:
        limits = st.floats(-1000, 1000, width=np.dtype(dtype).itemsize * 8)
        low, high = draw(st.just((-np.inf, np.inf)) | st.lists(limits, min_size=2, max_size=2))
    else:
        info = np.iinfo(dtype)
        # Gymnasium's own Box cannot sample up to the ends of the 64-bit integers.
        limits = st.integers(max(info.min, -(2**62)), min(info.max, 2**62))
        low, high = draw(st.lists(limits, min_size=2, max_size=2))
    return Box(min(low, high), max(low, high), draw(shapes), dtype)


discretes = st.builds(
    Discrete, st.integers(1, 1000), start=st.integers(-1000, 1000) | st.integers(2**40, 2**62)
)


@st.composite
def multidiscretes(draw):
    shape = draw(full_shapes)
    size = int(np.prod(shape))
    numbers = st.lists(st.integers(1, 9), min_size=size, max_size=size)
    starts = st.lists(st.integers(-9, 9), min_size=size, max_size=size)
    nvec = np.array(draw(numbers)).reshape(shape)
    start = draw(st.none() | starts.map(lambda values: np.array(values).reshape(shape)))
    dtype = draw(st.sampled_from([np.int8, np.int32, np.int64]))
    return MultiDiscrete(nvec, dtype=dtype, start=start)


multibinaries = st.builds(MultiBinary, st.integers(1, 5) | full_shapes)
leaves = boxes() | discretes | multidiscretes() | multibinaries

keys = st.text("abcxyz_", min_size=1, max_size=3) | st.integers(0, 9)
composites = st.recursive(
    leaves,
    lambda children: (
        st.dictionaries(keys, children, max_size=3).map(Dict)
        | st.lists(children, max_size=3).map(Tuple)
    ),
    max_leaves=6,
)


@st.composite
def samples_of(draw, space):
    """A random sample, or one whose every number is the lowest or the highest possible."""
    corner = draw(st.sampled_from([None, 0, 1]))
    if corner is not None:
        return extreme(space, corner)
    space.seed(draw(st.integers(0, 2**31)))
    return space.sample()


def extreme(space, which):
    if isinstance(space, Dict):
        return {key: extreme(child, which) for key, child in space.spaces.items()}
    if isinstance(space, Tuple):
        return tuple(extreme(child, which) for child in space.spaces)
    return dtype_bounds(space)[which].copy()[()]


@st.composite
def spaces_and_samples(draw, number=1):
    space = draw(composites)
    return space, [draw(samples_of(space)) for _ in range(number)]


def leaves_of_sample(space, sample):
    """Yield (leaf space, value) in the space's order; keys must be the space's."""
    if isinstance(space, Dict):
        assert list(sample) == list(space.spaces)
        for key, child in space.spaces.items():
            yield from leaves_of_sample(child, sample[key])
    elif isinstance(space, Tuple):
        assert isinstance(sample, tuple)
        assert len(sample) == len(space.spaces)
        for child, value in zip(space.spaces, sample, strict=True):
            yield from leaves_of_sample(child, value)
    else:
        yield space, sample


def assert_same(space, found, expected):
    """Equal numbers, shapes, dtypes and nesting."""
    pairs = zip(leaves_of_sample(space, found), leaves_of_sample(space, expected), strict=True)
    for (leaf, value), (_, other) in pairs:
        assert np.shape(value) == np.shape(other) == leaf.shape
        assert np.asarray(value).dtype == leaf.dtype
        np.testing.assert_array_equal(value, other)
