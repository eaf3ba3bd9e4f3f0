"""Ctrl-C and SIGTERM during training: time for a checkpoint, but never a hang."""

from __future__ import annotations

import atexit
import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any, NoReturn

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Interrupted(BaseException):
    """Ends the work in progress after a signal; `except Exception` does not catch it."""

    def __init__(self, signum: int) -> None:
        super().__init__(f"stopped by {signal.Signals(signum).name}")
        self.exit_code = 128 + signum


class GracefulExit:
    """While this context manager is open, the first SIGINT or SIGTERM asks for an orderly end.

    `check()` raises `Interrupted` once a signal has come. Inside `interruptible()`, where nothing
    is lost, the signal raises at once; elsewhere it raises by itself after `grace` seconds. If the
    process is still there `limit` seconds after the signal, or gets a second one, it exits on the
    spot; that stays in force after the context has ended, until the interpreter takes itself
    apart. Works in the main thread only.
    """

    def __init__(self, grace: float = 2.0, limit: float = 8.0) -> None:
        self._grace = grace
        self._limit = limit
        self._signum: int | None = None
        self._deadline = 0.0
        self._interruptible = False
        self._raised = False
        self._cleaning = False
        self._previous: dict[int, Any] = {}

    def __enter__(self) -> GracefulExit:
        handlers: dict[int, Any] = dict.fromkeys(SIGNALS, self._on_signal)
        handlers[signal.SIGALRM] = self._on_alarm
        self._previous = {n: signal.signal(n, handler) for n, handler in handlers.items()}
        return self

    def __exit__(self, *_: object) -> None:
        if self._signum is not None:
            return
        for signum, handler in self._previous.items():
            signal.signal(signum, handler)

    @contextmanager
    def interruptible(self) -> Iterator[None]:
        """A stretch of work that may be dropped in the middle."""
        self.check()
        self._interruptible = True
        try:
            yield
        finally:
            self._interruptible = False

    @contextmanager
    def cleanup(self, patience: float = 2.0) -> Iterator[None]:
        """The last stretch: after a signal it is broken off, silently, if it takes longer."""
        if self._signum is None:
            yield
            return
        self._cleaning = True
        signal.setitimer(signal.ITIMER_REAL, patience)
        with suppress(Interrupted):
            yield
        self._cleaning = False
        self._await_deadline()

    def check(self) -> None:
        """Raise `Interrupted` if a signal has come."""
        if self._signum is not None:
            self._raise()

    def _on_signal(self, signum: int, frame: FrameType | None) -> None:
        if self._signum is not None:
            _leave(128 + self._signum)
        self._signum = signum
        self._deadline = time.monotonic() + self._limit
        signal.setitimer(signal.ITIMER_REAL, self._grace)
        if self._interruptible:
            self._raise()

    def _on_alarm(self, signum: int, frame: FrameType | None) -> None:
        assert self._signum is not None
        if self._raised and not self._cleaning:
            _leave(128 + self._signum)
        self._raise()

    def _raise(self) -> None:
        assert self._signum is not None
        self._raised = True
        self._cleaning = False
        self._await_deadline()
        raise Interrupted(self._signum)

    def _await_deadline(self) -> None:
        left = self._deadline - time.monotonic()
        signal.setitimer(signal.ITIMER_REAL, max(left, 0.001))  # zero would switch it off


def _leave(exit_code: int) -> NoReturn:
    """Exit without any cleanup but the cursor that a live display has hidden."""
    if sys.stdout.isatty():
        os.write(sys.stdout.fileno(), b"\x1b[?25h\n")
    os._exit(exit_code)


def _disarm() -> None:
    """Stop the timer: the interpreter, when it ends, gives signals back their default action.

    An alarm would then replace the exit code. Exit handlers run in reverse order: those of modules
    that are imported later (the command line imports this one first) have the timer's guard.
    """
    if isinstance(getattr(signal.getsignal(signal.SIGALRM), "__self__", None), GracefulExit):
        signal.setitimer(signal.ITIMER_REAL, 0)


atexit.register(_disarm)
