"""What nes-py's console lacks: sums of bytes under NumPy 2, and pictures that stay.

nes-py 8.2.1, the newest for Python 3.11, was written for NumPy 1, where a byte times 256 is a
larger number. NumPy 2 calls that an overflow.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pufferlib.wrappers import GymToGymnasium


class Memory(np.ndarray[Any, Any]):
    """Bytes of which a single one is read as an int."""

    def __getitem__(self, place: Any) -> Any:
        """One byte as an int, several as bytes."""
        found = super().__getitem__(place)
        return int(found) if isinstance(found, np.uint8) else found


def let_bytes_add_up(nes_py: Any) -> None:
    """Change nes-py's classes so that its games run with NumPy 2; may be called again."""
    nes_py._rom.ROM.header = property(lambda rom: rom.raw_data[:16].view(Memory))
    nes_py.NESEnv.ram = property(lambda env: env._memory, _set_memory)


def _set_memory(env: Any, memory: NDArray[np.uint8]) -> None:
    env._memory = memory.view(Memory)


class Console(GymToGymnasium):
    """A game of nes-py, which draws into one picture forever."""

    def render(self) -> NDArray[np.uint8] | None:
        """The screen `(240, 256, 3)` as it is now; None without a `render_mode`."""
        return None if self.render_mode is None else super().render().copy()
