"""Many environments stepped as one, over one set of flat buffers."""

from pufferlib.vector.autotune import autotune
from pufferlib.vector.base import VecEnv
from pufferlib.vector.factory import make
from pufferlib.vector.multiprocessing import Multiprocessing
from pufferlib.vector.serial import Serial
from pufferlib.vector.tuning.result import Tuning

__all__ = ["Multiprocessing", "Serial", "Tuning", "VecEnv", "autotune", "make"]
