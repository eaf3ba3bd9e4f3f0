"""Thin wrappers that let one policy run under several learning libraries."""

import importlib
from typing import Any

from pufferlib.exceptions import EnvironmentSetupError

# What brings the library of each module; the last two fit into no virtual environment with others.
INSTALL = {
    "cleanrl": "pip install pufferlib",
    "gymnasium": "pip install pufferlib",
    "sb3": "pip install 'pufferlib[sb3]'",
    "torchrl": "pip install 'pufferlib[torchrl]'",
    "rllib": "pip install -c constraints/rllib.txt -e '.[rllib]'",
    "tianshou": "pip install -c constraints/tianshou.txt -e '.[tianshou]'",
}


def __getattr__(name: str) -> Any:
    if name not in INSTALL:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        return importlib.import_module(f"{__name__}.{name}")
    except ImportError as error:
        raise EnvironmentSetupError(
            f"{__name__}.{name} cannot be imported: {error}; install it with: {INSTALL[name]}"
        ) from error
