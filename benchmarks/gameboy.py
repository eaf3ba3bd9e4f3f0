"""A Game Boy game of our own, for PyBoy: what an emulated game costs without one that is not free.

PufferLib's own documents speak of Pokemon Red, whose cartridge nobody may hand on. This program has
its rhythm and none of its content: it sleeps until a frame is drawn, reads the keys and scrolls. A
game that computes more between two frames is slower, so its speed is a bound for such games.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np

KEYS = ("right", "left", "up", "down")
FRAMES = 24  # of a step, as Pokemon Red is played

_PROGRAM = bytes.fromhex(
    "f3"  # di: frames only wake it up
    "3e01e0ff"  # enable the interrupt of a drawn frame
    # Again and again:
    "7600"  # sleep
    "afe00f"  # acknowledge the frame
    "3e20e000f0002fe60f"  # which of the four directions are pressed
    "6ff04385e043"  # scroll by as much
    "18ea"
)
_ENTRY, _START, _TITLE = 0x100, 0x150, 0x134


def cartridge() -> bytes:
    """The program as a cartridge of 32 KiB."""
    image = bytearray(0x8000)
    image[_ENTRY : _ENTRY + 4] = bytes.fromhex("00c35001")  # jump to the start
    image[_START : _START + len(_PROGRAM)] = _PROGRAM
    image[_TITLE : _TITLE + 8] = b"SCROLLER"
    header = image[_TITLE:0x14D]
    image[0x14D] = -(sum(header) + len(header)) & 0xFF
    return bytes(image)


class GameBoy(gymnasium.Env):
    """Holds a key for 24 frames; every second pixel of the screen, in grey."""

    observation_space = gymnasium.spaces.Box(0, 255, (72, 80), np.uint8)
    action_space = gymnasium.spaces.Discrete(len(KEYS))

    def __init__(self) -> None:
        from pyboy import PyBoy

        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "scroller.gb"
            path.write_bytes(cartridge())
            self.machine = PyBoy(str(path), window="null", sound_emulated=False, log_level="ERROR")

    def observe(self) -> np.ndarray:
        """A view of the screen."""
        screen: np.ndarray = self.machine.screen.ndarray
        return screen[::2, ::2, 0]

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        """Go on; the game has no beginning."""
        self.machine.tick(1, True)
        return self.observe(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Press the key, draw the last frame, let it go."""
        key = KEYS[int(action)]
        self.machine.button_press(key)
        self.machine.tick(FRAMES, True)
        self.machine.button_release(key)
        return self.observe(), 0.0, False, False, {}

    def close(self) -> None:
        """Switch it off."""
        self.machine.stop(save=False)
