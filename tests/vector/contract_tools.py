"""What the suite over every backend shares."""

import numpy as np
import pytest
import vector_toys as toys

POOLS = ("serial_pool", "pool", "gather", "ray_pool", "ray_gather")
ZEROS = np.zeros(4, np.int64)
# Of the pools of actors, which take long, gathering shows all that the other does.
RAY = [
    pytest.param("ray", marks=pytest.mark.slow),
    pytest.param("ray_pool", marks=pytest.mark.bench),
    pytest.param("ray_gather", marks=pytest.mark.slow),
]
on_all = pytest.mark.parametrize("build", [*toys.USUAL, *RAY], indirect=True)


def is_pool(build):
    return build.backend in POOLS


def batches(vecenv, **reset):
    """Reset and step on with zeros; yields every result, and gives up after a while.

    A pool may hand out some environments many times before others that are slow.
    """
    vecenv.async_reset(**reset)
    with toys.time_limit(20):
        while True:
            yield vecenv.recv()
            vecenv.send(np.zeros(vecenv.action_space.shape, vecenv.action_space.dtype))
