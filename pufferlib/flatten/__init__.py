"""Structured spaces to flat rows and back, by plans that are compiled once per space.

`ObservationPlan` lays the leaves of a space out as the fields of an aligned struct and writes
samples into rows; `ActionPlan` turns rows of numbers into the actions an environment expects.
Neither looks at the space again while stepping.
"""

from pufferlib.flatten.action import ActionPlan
from pufferlib.flatten.observation import ObservationPlan

__all__ = ["ActionPlan", "ObservationPlan"]
