"""Whose life ends with a step, in the dicts of flags by agent that games return."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

# RLlib's key for a flag of all agents at once.
ALL = "__all__"


def flags_of(
    agent: Any, terminals: Mapping[Any, Any], truncations: Mapping[Any, Any]
) -> tuple[bool, bool]:
    """Whether the agent terminated and was truncated: by its own flags, else by `__all__`."""
    terminal, truncated = terminals.get(agent, False), truncations.get(agent, False)
    if not (terminal or truncated):
        terminal, truncated = terminals.get(ALL, False), truncations.get(ALL, False)
    return bool(terminal), bool(truncated)
