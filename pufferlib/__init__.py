"""Make any reinforcement learning environment fast to simulate and simple to learn from.

This module is a list of names. Importing it imports no environment library and no torch and
changes nothing; submodules load when they are first used, so ``import pufferlib`` is enough for
``pufferlib.vector.make(...)``.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from pufferlib.exceptions import (
    APIUsageError,
    CheckpointError,
    ConfigError,
    EnvironmentSetupError,
    ExportError,
    GroupError,
    InvalidAgentError,
    NonFiniteError,
    PufferError,
    SnapshotError,
    SpaceError,
    WorkerError,
)

if TYPE_CHECKING:
    from pufferlib.environment import PufferEnv

__version__ = "0.1.0"

__all__ = [
    "APIUsageError",
    "CheckpointError",
    "ConfigError",
    "EnvironmentSetupError",
    "ExportError",
    "GroupError",
    "InvalidAgentError",
    "NonFiniteError",
    "PufferEnv",
    "PufferError",
    "SnapshotError",
    "SpaceError",
    "WorkerError",
    "__version__",
]

_SUBMODULES = frozenset(
    {
        "buffers",
        "clean_pufferl",
        "emulation",
        "ends",
        "environment",
        "environments",
        "flatten",
        "frameworks",
        "lock",
        "models",
        "native",
        "pictures",
        "postprocess",
        "pytorch",
        "snapshot",
        "spaces",
        "testing",
        "trainer",
        "vector",
        "wrappers",
    }
)


def __getattr__(name: str) -> Any:
    if name == "PufferEnv":
        return importlib.import_module("pufferlib.environment").PufferEnv
    if name in _SUBMODULES:
        return importlib.import_module(f"pufferlib.{name}")
    raise AttributeError(f"module 'pufferlib' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*__all__, *_SUBMODULES})
