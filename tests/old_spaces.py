"""Stand-ins for spaces of the `gym` package, which is not installed."""

import numpy as np


def old_space(kind, **attributes):
    """A stand-in for a space of the `gym` package: the same class name and attributes."""
    return type(kind, (), attributes)()


BOX = old_space(
    "Box", low=np.zeros(2, np.float32), high=np.ones(2, np.float32), shape=(2,), dtype=np.float32
)
DISCRETE = old_space("Discrete", n=3)
