"""What an environment prints: kept off the terminal, and at hand when it fails."""

from __future__ import annotations

import contextlib
import ctypes
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from typing import Any, TextIO

# Bytes of text that are kept, the last ones.
KEPT = 16_384
DESCRIPTORS = (1, 2)


class CapturedOutput:
    """Takes stdout and stderr from the whole process while a function of an environment runs.

    It works on the file descriptors, so what C code and child programs print is caught as well.
    While the function runs, other threads' prints go the same way.
    """

    def __init__(self) -> None:
        self._file: TextIO | None = None

    def call(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """What `function` returns; an exception that it raises gets the text as a note."""
        try:
            with self._redirected():
                return function(*args, **kwargs)
        except Exception as error:
            if text := self.text():
                error.add_note(f"the environment printed (the last of it):\n{text}")
            raise
        finally:
            self._shorten()

    def text(self) -> str:
        """The last `KEPT` bytes that were printed."""
        if self._file is None:
            return ""
        size = os.fstat(self._file.fileno()).st_size
        return os.pread(self._file.fileno(), KEPT, max(0, size - KEPT)).decode(errors="replace")

    @contextlib.contextmanager
    def _redirected(self) -> Iterator[None]:
        if self._file is None:
            self._file = _new_file()
        _flush()
        saved = [os.dup(descriptor) for descriptor in DESCRIPTORS]
        try:
            for descriptor in DESCRIPTORS:
                os.dup2(self._file.fileno(), descriptor)
            # Notebooks and dashboards have replaced these two by objects without a descriptor.
            with contextlib.redirect_stdout(self._file), contextlib.redirect_stderr(self._file):
                yield
        finally:
            self._file.flush()
            _flush()
            for descriptor, copy in zip(DESCRIPTORS, saved, strict=True):
                os.dup2(copy, descriptor)
                os.close(copy)

    def _shorten(self) -> None:
        """Keep the file from growing without end."""
        file = self._file
        if file is not None and os.fstat(file.fileno()).st_size > 4 * KEPT:
            self._file = _new_file(self.text())
            file.close()

    def __reduce__(self) -> tuple[type, tuple[()]]:
        return type(self), ()  # a copy has printed nothing yet


def _new_file(text: str = "") -> TextIO:
    file = tempfile.TemporaryFile("w+", buffering=1, encoding="utf-8", errors="replace")  # noqa: SIM115
    file.write(text)
    file.flush()
    return file


def _flush() -> None:
    """Bring what is still buffered, by Python or by C, to where it was meant for."""
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.flush()
    if os.name == "posix":
        ctypes.CDLL(None).fflush(None)
