"""How worker processes end: asked first, killed after a while, and never forgotten."""

from __future__ import annotations

import contextlib
import os
import pickle
import time
import warnings
from collections.abc import Callable, Sequence
from multiprocessing import connection
from typing import Any

from pufferlib.vector.backend import CLOSE_TIMEOUT
from pufferlib.vector.messages import describe_late
from pufferlib.vector.processes import Processes, describe_exit
from pufferlib.vector.shared import Command, Signals


class Ending:
    """Ends the workers; holds no reference to the vecenv, so that it can run after it.

    Args:
        processes: of the workers.
        signals: by worker.
        name: a worker's name for messages.

    Attributes:
        commands: a byte per worker, once memory is shared.
        memory: file descriptor of that memory to close, or None.
        timeout: seconds that environments get to close.
        is_asked: somebody called `close` and will be told what failed. A vecenv that was dropped,
            or that the program left open, warns instead.
    """

    def __init__(
        self,
        processes: Processes,
        signals: Sequence[Signals],
        name: Callable[[int], str],
    ) -> None:
        self.processes, self.pipes = processes.running, processes.pipes
        self.signals, self.name = signals, name
        self.memory: int | None = None
        self.commands: memoryview | None = None
        self.timeout = CLOSE_TIMEOUT
        self.is_asked = False
        # The environment that each worker has last begun to close.
        self._closing: dict[int, int] = {}

    def run(self) -> list[str]:
        """Ask every worker to close, wait for it, and kill those that do not; what went wrong."""
        failures: list[str] = []
        try:
            for worker in range(len(self.processes)):
                self._ask_to_close(worker)
            self._wait(failures, time.monotonic() + self.timeout)
        finally:
            failures += self._kill()
        if not self.is_asked:
            for failure in failures:
                warnings.warn(failure, RuntimeWarning, stacklevel=2)
        return failures

    def _ask_to_close(self, worker: int) -> None:
        if self.commands is not None:
            self.commands[worker] = Command.CLOSE
            self.signals[worker].go.release()
            return
        with contextlib.suppress(OSError):  # dead already
            self.pipes[worker].send(("close",))

    def _wait(self, failures: list[str], deadline: float) -> None:
        """Read what workers still send, so that none blocks on a full pipe, until all ended."""
        workers: dict[Any, int] = {self.pipes[i]: i for i in range(len(self.processes))}
        while workers and (left := deadline - time.monotonic()) > 0:
            for pipe in connection.wait(list(workers), timeout=left):
                try:
                    kind, *content = pickle.loads(pipe.recv_bytes())  # type: ignore[union-attr]
                except (EOFError, OSError):
                    del workers[pipe]
                    continue
                if kind == "closing":
                    self._closing[workers[pipe]] = content[0]
                elif kind == "closing failed":
                    failures += content
        for process in self.processes:
            process.join(max(0.0, deadline - time.monotonic()))

    def _kill(self) -> list[str]:
        """Kill those that still run; what to say about them and those that died in a close."""
        late = [i for i, process in enumerate(self.processes) if process.is_alive()]
        for worker in late:
            self.processes[worker].kill()
        failures = [
            describe_late(self.name(worker), self._closing.get(worker), self.timeout)
            for worker in late
        ]
        for worker, process in enumerate(self.processes):
            process.join()
            if worker in self._closing and worker not in late and process.exitcode != 0:
                how = f"{self._closing[worker]}: {describe_exit(process.exitcode)}"
                failures.append(f"{self.name(worker)} died in the close of environment {how}")
            process.close()
        for pipe in self.pipes:
            pipe.close()
        if self.memory is not None:
            os.close(self.memory)
        return failures
