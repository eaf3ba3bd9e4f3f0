"""The Ray session that this process's vectorized environments share, and how to wait in it."""

from __future__ import annotations

import logging
import signal
import threading
from collections.abc import Iterable
from typing import Any

import ray

_lock = threading.Lock()
# How many vecenvs use the session that was started here, and which it is.
_users = 0
_ours: str | None = None


class Session:
    """The user's Ray session where there is one, else one of our own.

    Ours is what `ray.init()` gives: part of the cluster that RAY_ADDRESS names or that was started
    on this machine by `ray start`, else this machine alone. It ends with the last vecenv that uses
    it; the user's is never ended.
    """

    def __init__(self) -> None:
        global _users, _ours
        with _lock:
            if not ray.is_initialized():
                _start()
                _users, _ours = 0, _current()
            self._name = _current()
            if self._name == _ours:
                _users += 1

    @property
    def is_alive(self) -> bool:
        """Whether nobody has shut it down meanwhile."""
        return ray.is_initialized() and _current() == self._name

    @property
    def cores(self) -> int:
        """What the whole cluster offers."""
        return max(1, int(ray.cluster_resources().get("CPU", 1)))

    def leave(self) -> None:
        """End the session if it is ours and nobody else uses it; to be called once."""
        global _users
        with _lock:
            if self._name != _ours:
                return
            _users -= 1
            if _users == 0 and self.is_alive:
                ray.shutdown()


def wait(refs: Iterable[Any], count: int, timeout: float) -> list[Any]:
    """The first `count` of `refs` to arrive, or those that have arrived after `timeout` seconds."""
    try:
        return ray.wait(list(refs), num_returns=count, timeout=timeout)[0]
    except SystemError as error:  # how Ray passes on what a signal's handler raises
        raise error.__cause__ or error from None


def _start() -> None:
    is_main = threading.current_thread() is threading.main_thread()
    before = signal.getsignal(signal.SIGTERM)
    ray.init(include_dashboard=False, logging_level=logging.WARNING)
    if is_main:  # Ray takes the signal for itself
        signal.signal(signal.SIGTERM, before)


def _current() -> str:
    context = ray.get_runtime_context()
    return f"{context.get_node_id()}/{context.get_job_id()}"
