"""One game of the Java engine: its start, its memory that Python shares, and its chance."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pufferlib.environments.microrts.commands import Commands

REWARDS = (
    *("WinLoss", "ResourceGather", "ProduceWorker"),
    *("ProduceBuilding", "Attack", "ProduceCombatUnit"),
)
"""The engine's reward functions, whose values it reports side by side."""

SHARED_RANDOM = (("rts.GameState", "r"), ("rts.UnitAction", "r"), ("util.Sampler", "generator"))
"""Generators that all games of a process use."""


class Engine:
    """One game of player 0 against a bot; the arrays are the memory that the engine writes.

    Args:
        jpype: the module, which has one Java virtual machine for the process.
        folder: where the engine's archives are.
        map_file: the description of the map.
        bot: the Java class of the opponent.
    """

    def __init__(self, jpype: ModuleType, folder: Path, map_file: Path, bot: str) -> None:
        start_java(jpype, folder)
        self._java = jpype
        units = jpype.JClass("rts.units.UnitTypeTable")()
        game_map = jpype.JClass("rts.PhysicalGameState").load(str(map_file), units)
        self.height, self.width = int(game_map.getHeight()), int(game_map.getWidth())
        self.commands = Commands(units.getUnitTypes().size(), int(units.getMaxAttackRange()))
        planes = int(jpype.JClass("rts.GameState").numFeaturePlanes)
        squares, sizes = (1, self.height, self.width), self.commands.sizes
        self._observation, observation_buffer = self._share(*squares, planes)
        self._mask, mask_buffer = self._share(*squares, sum(sizes))
        self._actions, action_buffer = self._share(1, self.height * self.width, len(sizes))
        player = jpype.JClass(bot)(units)
        self._client = jpype.JClass("tests.JNIGridnetSharedMemClient")(
            self._reward_functions(),
            str(map_file),
            player,
            units,
            False,  # nothing is hidden
            0,  # the number of this game in the buffers
            observation_buffer,
            mask_buffer,
            action_buffer,
        )
        self._bot_random = _random_fields(player)
        self._shared_random = [_field(jpype.JClass(c).class_, name) for c, name in SHARED_RANDOM]
        self.seed(None)

    @property
    def observation(self) -> NDArray[np.int32]:
        """What is on each square, `(height, width, planes)` of 0 and 1."""
        return self._observation[0]

    def seed(self, seed: int | None) -> None:
        """Decide what chance does from now on; None: not to be repeated."""
        random = self._java.JClass("java.util.Random")
        self._random = random() if seed is None else random(self._java.JLong(seed))

    def reset(self) -> None:
        """Begin a game."""
        self._take_chance()
        self._client.reset(0)  # which replaces the bot by a copy
        for field in self._bot_random:
            field.set(self._client.ai2, self._random)

    def step(self, commands: NDArray[Any]) -> tuple[NDArray[np.float64], bool]:
        """Command every square `(height * width,)`; returns all rewards `(6,)`, and the end."""
        self._actions[0] = self.commands.numbers[commands]
        self._take_chance()
        response = self._client.gameStep(0)
        return np.array(response.reward), bool(response.done[0])

    def allowed(self) -> NDArray[np.int8]:
        """The commands that every square allows, flat `(height * width * commands,)`."""
        self._client.getMasks(0)
        mask = self._mask.reshape(self.height * self.width, -1)
        return self.commands.allowed(mask).ravel()

    def _take_chance(self) -> None:
        """Let what all games of the process share be this game's for the next call."""
        for field in self._shared_random:
            field.set(None, self._random)

    def _share(self, *shape: int) -> tuple[NDArray[np.int32], Any]:
        """An array, and the engine's view of it."""
        array = np.zeros(shape, np.int32)
        order = self._java.JClass("java.nio.ByteOrder").nativeOrder()
        bytes_in_java = self._java.nio.convertToDirectBuffer(memoryview(array).cast("B"))
        shape_in_java = self._java.JArray(self._java.JInt)(list(shape))
        buffer = self._java.JClass("util.NDBuffer")
        return array, buffer(bytes_in_java.order(order).asIntBuffer(), shape_in_java)

    def _reward_functions(self) -> Any:
        package = "ai.rewardfunction"
        interface = self._java.JClass(f"{package}.RewardFunctionInterface")
        functions = [self._java.JClass(f"{package}.{name}RewardFunction")() for name in REWARDS]
        return self._java.JArray(interface)(functions)


def start_java(jpype: ModuleType, folder: Path) -> None:
    """Start the process's Java virtual machine, unless it runs; it can be started only once."""
    if jpype.isJVMStarted():
        return
    archives = [folder / "microrts.jar", *sorted((folder / "lib" / "bots").glob("*.jar"))]
    jpype.startJVM(
        "-Xrs",  # signals are Python's
        "-XX:+UseSerialGC",  # threads of its own would take cores from other workers
        "-Djava.awt.headless=true",
        classpath=[str(path) for path in archives],
        interrupt=False,  # Ctrl-C is Python's
    )


def _random_fields(bot: Any) -> list[Any]:
    """The fields of a Java object that hold a generator of random numbers."""
    fields, kind = [], bot.getClass()
    while kind is not None:
        fields += [
            _field(kind, field.getName())
            for field in kind.getDeclaredFields()
            if str(field.getType().getName()) == "java.util.Random"
        ]
        kind = kind.getSuperclass()
    return fields


def _field(kind: Any, name: Any) -> Any:
    """A field of a Java class, private or not."""
    field = kind.getDeclaredField(name)
    field.setAccessible(True)
    return field
