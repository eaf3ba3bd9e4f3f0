"""The order in which the calls of a vectorized environment must come."""

from __future__ import annotations

import enum


class State(enum.Enum):
    """What the next call may be."""

    CREATED = "call reset() or async_reset() first"
    WAITING = "a result is pending: call recv() first"
    READY = "the last result has no actions yet: call send() or step() first"
    CLOSED = "the vectorized environment is closed: make a new one"


# Looking a member up in its class takes as long as checking the actions does.
CREATED, WAITING, READY, CLOSED = State
