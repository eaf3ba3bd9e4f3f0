"""What the native environments share on the Python side."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from gymnasium.vector import AutoresetMode
from numpy.typing import NDArray

from pufferlib import native
from pufferlib.buffers import Buffers
from pufferlib.environment import Infos, PufferEnv
from pufferlib.exceptions import APIUsageError, ConfigError, SnapshotError, SpaceError
from pufferlib.pictures import Picture, enlarge, half_blocks

# The C struct `Record`: an episode that ended.
FIELDS = {"score": np.float32, "episode_return": np.float32, "episode_length": np.int32}
RECORD = np.dtype(list(FIELDS.items()))

MIN_HEIGHT = 256
"""Rows of a picture that `render` returns as an array."""


class NativeEnv(PufferEnv):
    """`num_worlds` worlds of a game in C, each with one or more agents, as one environment.

    Episodes end and begin in the same step (`SAME_STEP`). A step in which episodes ended returns
    one info, with the arrays `score`, `episode_return` (float32) and `episode_length` (int32) of
    shape `(episodes,)` in the order of the rows.

    World i plays on the SplitMix64 stream whose seed is output i of the stream that `reset(seed)`
    starts, so neither the number of worlds nor of threads changes what happens in it. Observations
    are updated cell by cell: nobody else may write to their rows.

    Args:
        options: the game's, in the order of its C source.
        threads: how many share each step, the caller's own included.
        render_mode: what `render()` returns, one of `metadata["render_modes"]`, or None.

    Raises:
        EnvironmentSetupError: the native core is missing, or older than the game.
        ConfigError: `num_worlds` or `threads` is below 1, or there is no such render mode.
    """

    autoreset_mode = AutoresetMode.SAME_STEP
    game: ClassVar[str]
    """The name of the game in the native core."""

    metadata: ClassVar[dict[str, Any]] = {"render_modes": ["ansi", "rgb_array"], "render_fps": 10}

    def __init__(
        self,
        options: Sequence[int],
        num_worlds: int,
        threads: int = 1,
        render_mode: str | None = "ansi",
    ) -> None:
        for name, value in (("num_worlds", num_worlds), ("threads", threads)):
            if value < 1:
                raise ConfigError(f"{name}: expected at least 1, got {value}")
        modes = self.metadata["render_modes"]
        if render_mode is not None and render_mode not in modes:
            raise ConfigError(
                f"render_mode: expected None or one of {', '.join(modes)}, got {render_mode!r}"
            )
        self.render_mode = render_mode
        self._arguments = (self.game, list(options), num_worlds, threads)
        self._worlds = _make_worlds(self._arguments)
        self.num_agents = self._worlds.num_agents
        self._records = np.zeros(self.num_agents * RECORD.itemsize, np.uint8)
        super().__init__()

    def bind(self, buffers: Buffers) -> NativeEnv:
        """Write to `buffers` from now on; in the middle of episodes, the observations at once."""
        super().bind(buffers)
        self._bind_worlds()
        return self

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> Infos:
        """New episodes in all worlds; a seed starts their streams."""
        if seed is None and not self._worlds.started:
            seed = secrets.randbits(63)
        self._worlds.reset(seed)
        return []

    def step(self, actions: NDArray[np.int64]) -> Infos:
        """All agents act at once.

        Raises:
            SpaceError: not int64 `(num_agents,)`, or an action that the game does not have.
        """
        try:
            episodes = self._worlds.step(actions)
        except (TypeError, ValueError) as error:
            raise self._refuse(actions, error) from error
        if not episodes:
            return []
        # Bytes are copied many times faster than structures.
        records = self._records[: episodes * RECORD.itemsize].copy().view(RECORD)
        return [{name: records[name] for name in FIELDS}]

    def render(self) -> str | Picture | None:
        """The first world, one pixel a cell or as its game draws it.

        Returns:
            Coloured text, two pixels a character, where `render_mode` is `ansi`; an array
            `(height, width, 3)` of uint8, enlarged to at least `MIN_HEIGHT` rows, where it is
            `rgb_array`; None where it is None.

        Raises:
            APIUsageError: nothing was reset yet.
        """
        if self.render_mode is None:
            return None
        if not self._worlds.started:
            raise APIUsageError("render(): expected a reset() before it, got none; call reset()")
        picture = self._worlds.picture(0)
        if self.render_mode == "ansi":
            return half_blocks(picture)
        return enlarge(picture, MIN_HEIGHT)

    def get_state(self) -> dict[str, Any]:
        """Everything that changes between steps but the rows; see `pufferlib.snapshot`."""
        game, options, num_worlds, _ = self._arguments
        state = self._worlds.get_state()
        return {"game": game, "options": options, "num_worlds": num_worlds, "worlds": state}

    def set_state(self, state: dict[str, Any]) -> None:
        """Go on from a state that `get_state` gave; trusts its bytes.

        Raises:
            SnapshotError: it belongs to another game or to other options.
        """
        for name, mine in zip(("game", "options", "num_worlds"), self._arguments, strict=False):
            if state[name] != mine:
                raise SnapshotError(
                    f"{name}: expected the state of an environment with {mine}, got {state[name]}"
                )
        self._worlds.set_state(state["worlds"])

    def __getstate__(self) -> dict[str, Any]:
        state = self.__dict__ | {"_worlds": None}
        return state | {"_worlds": self.get_state() if self._worlds.started else None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._worlds = _make_worlds(self._arguments)
        self._bind_worlds()
        if state["_worlds"] is not None:
            self.set_state(state["_worlds"])

    def _bind_worlds(self) -> None:
        self._worlds.bind(
            self.observations,
            self.final_observations,
            self.rewards,
            self.terminals,
            self.truncations,
            self.masks,
            self._records,
        )

    def _refuse(self, actions: Any, error: Exception) -> SpaceError:
        array = np.asarray(actions)
        if array.dtype == np.int64 and array.shape == (self.num_agents,):
            return SpaceError(str(error))
        return SpaceError(
            f"actions: expected a contiguous array ({self.num_agents},) of int64, one action per "
            f"agent, got {type(actions).__name__} {array.shape} of {array.dtype}"
        )


def _make_worlds(arguments: tuple[str, list[int], int, int]) -> Any:
    return native.require("Worlds", f"Ocean's native {arguments[0]}")(*arguments)
