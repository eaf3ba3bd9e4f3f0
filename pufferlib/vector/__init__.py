"""Many environments stepped as one, over one set of flat buffers."""

import importlib
from typing import TYPE_CHECKING, Any

from pufferlib.vector.autotune import autotune
from pufferlib.vector.base import VecEnv
from pufferlib.vector.factory import load_backend, make
from pufferlib.vector.multiprocessing import Multiprocessing
from pufferlib.vector.same_step import SameStep
from pufferlib.vector.serial import Serial

if TYPE_CHECKING:
    from pufferlib.vector.ray import Ray as Ray
    from pufferlib.vector.tuning.result import Tuning as Tuning

__all__ = ["Multiprocessing", "SameStep", "Serial", "Tuning", "VecEnv", "autotune", "make"]


def __getattr__(name: str) -> Any:
    if name == "Ray":  # loaded by who uses it; others need not have Ray
        return load_backend("ray")
    if name == "Tuning":  # workers that are spawned need not load it
        return importlib.import_module("pufferlib.vector.tuning.result").Tuning
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
