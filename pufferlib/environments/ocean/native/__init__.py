"""Environments in C that step thousands of agents per call, straight into the bound rows."""

from pufferlib.environments.ocean.native.breakout import NativeBreakout
from pufferlib.environments.ocean.native.connect_four import NativeConnectFour
from pufferlib.environments.ocean.native.maze import NativeMaze
from pufferlib.environments.ocean.native.pong import NativePong
from pufferlib.environments.ocean.native.snake import NativeSnake
from pufferlib.environments.ocean.native.squared import NativeSquared
from pufferlib.environments.ocean.native.worlds import NativeEnv

__all__ = [
    "NativeBreakout",
    "NativeConnectFour",
    "NativeEnv",
    "NativeMaze",
    "NativePong",
    "NativeSnake",
    "NativeSquared",
]
