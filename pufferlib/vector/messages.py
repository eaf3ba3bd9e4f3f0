"""What workers tell the driver: tuples of a kind and its content, pickled."""

from __future__ import annotations

import pickle
import traceback
from typing import Any

import cloudpickle

from pufferlib import exceptions
from pufferlib.exceptions import APIUsageError, WorkerError


def describe_late(who: str, index: int | None, seconds: float) -> str:
    """What to say of a worker that was killed as it closed, at environment `index` or before."""
    what = "was still busy" if index is None else f"hung in the close of environment {index}"
    return (
        f"{who} {what} after {seconds:g} s and was killed; give it longer with close(timeout=...)"
    )


def to_message(error: BaseException) -> tuple[Any, ...]:
    """What the driver raises: kind, text; the traceback is in the text already or is added."""
    if isinstance(error, WorkerError | APIUsageError):
        return "error", type(error).__name__, str(error)
    text = "".join(traceback.format_exception(error))
    return "error", "WorkerError", f"{type(error).__name__}: {error}\n{text}"


def to_error(name: str, text: str) -> Exception:
    """The exception of `pufferlib.exceptions` that a worker reported."""
    return getattr(exceptions, name)(text)


def to_raised(error: Exception) -> tuple[Any, ...]:
    """The exception itself, with this traceback as a note, if it can be pickled; else its text."""
    error.add_note("in the worker process:\n" + "".join(traceback.format_exception(error)))
    try:
        pickle.loads(dumps(error))
    except Exception:
        return to_message(error)
    return "raised", error


def dumps(message: Any) -> bytes:
    """Plain pickle where that is enough: it is many times faster than cloudpickle."""
    try:
        return pickle.dumps(message, protocol=pickle.HIGHEST_PROTOCOL)
    except Exception:
        return cloudpickle.dumps(message)
