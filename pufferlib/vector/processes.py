"""The worker processes as such: how they start, what they say, and that they died."""

from __future__ import annotations

import contextlib
import errno
import pickle
import signal
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from multiprocessing import connection, reduction
from multiprocessing.context import BaseContext
from typing import Any

from pufferlib.exceptions import APIUsageError, WorkerError
from pufferlib.vector.group import Description, require_equal
from pufferlib.vector.messages import to_error
from pufferlib.vector.service import Job
from pufferlib.vector.shared import PATIENCE, Signals
from pufferlib.vector.worker import STOP_SIGNALS, work


@dataclass(frozen=True)
class ProcessJob(Job):
    """A job for processes that start as `context` says."""

    context: BaseContext


class Processes:
    """A process and a pipe per worker.

    Attributes:
        running, pipes: by worker, as far as they have started.
    """

    def __init__(self, job: ProcessJob, signals: Sequence[Signals]) -> None:
        self._job, self._signals = job, signals
        self.running: list[Any] = []
        self.pipes: list[connection.Connection] = []
        # Why workers were killed on purpose.
        self._reasons: dict[int, str] = {}

    def start_all(self) -> Description:
        """Start all and let them make their environments; the first one's description.

        Raises:
            WorkerError: an environment's constructor raised, or a process died.
            APIUsageError: environments differ, do not speak the contract, or cannot be pickled;
                too many files are open.
        """
        for worker in range(self._job.sizes.num_workers):
            self._start(worker)
        first = self._describe(0)
        for worker in range(1, len(self.running)):
            index = worker * self._job.sizes.envs_per_worker
            require_equal(first, self._describe(worker), index)
        return first

    def replace(self, worker: int) -> Description:
        """Start a new process in the place of one that has ended; raises as `start_all`."""
        old, pipe = self.running[worker], self.pipes[worker]
        self._start(worker)
        old.close()
        pipe.close()
        return self._describe(worker)

    def _start(self, worker: int) -> None:
        with self._explaining_limits(worker):
            pipe, theirs = self._job.context.Pipe()
        process = self._job.context.Process(  # type: ignore[attr-defined]
            target=work,
            args=(self._job.plan(worker), theirs, self._signals[worker]),
            name=f"pufferlib-worker-{worker}",
            daemon=True,
        )
        # Known before it has started, so that it ends whatever comes in between. The place of a
        # worker that has died is taken; else it is a new one.
        self.pipes[worker : worker + 1] = [pipe]
        try:
            with _held_signals(self._job.context), self._explaining_limits(worker):
                process.start()
                self.running[worker : worker + 1] = [process]
        finally:
            theirs.close()  # so that the pipe ends with the worker

    @contextlib.contextmanager
    def _explaining_limits(self, worker: int) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            what = f"worker {worker} of {self._job.sizes.num_workers} could not start"
            if error.errno in (errno.EMFILE, errno.ENFILE):
                raise APIUsageError(
                    f"{what}: this process may open no more files, and a worker needs about three; "
                    "raise the limit (ulimit -n 4096, docker run --ulimit nofile=4096), or use "
                    "fewer workers"
                ) from error
            if error.errno in (errno.EAGAIN, errno.ENOMEM):
                raise APIUsageError(
                    f"{what}: no more processes or memory ({error.strerror}); raise the limit "
                    "(ulimit -u, docker run --pids-limit), or use fewer workers"
                ) from error
            raise

    def _describe(self, worker: int) -> Description:
        message = self.read(worker, "while making its environments")
        if message[0] == "error":
            raise to_error(*message[1:])
        description: Description = message[1]
        return description

    def give_memory(self, worker: int, fd: int, lost: bytes | None = None) -> None:
        """Let a new worker map the shared memory; with a pickled `Lost` if it replaces one."""
        with self.naming_the_dead(worker, "before it was given its memory"):
            self.pipes[worker].send(("memory", lost))
            reduction.send_handle(self.pipes[worker], fd, self.running[worker].pid)

    def send(self, worker: int, data: bytes) -> None:
        """Write to the worker's pipe.

        Raises:
            WorkerError: it has died.
        """
        with self.naming_the_dead(worker, "before its next command"):
            self.pipes[worker].send_bytes(data)

    def read(self, worker: int, when: str) -> Any:
        """The worker's next message.

        Raises:
            WorkerError: it has died, `when` it did what is read.
        """
        pipe = self.pipes[worker]
        with self.naming_the_dead(worker, when):
            while not pipe.poll(PATIENCE):
                if not self.is_alive(worker) and not pipe.poll(0):
                    raise EOFError
            return pickle.loads(pipe.recv_bytes())

    def is_alive(self, worker: int) -> bool:
        """Whether the process runs."""
        alive: bool = self.running[worker].is_alive()
        return alive

    def kill(self, worker: int, reason: str) -> None:
        """End a worker; `reason` is then what is said of its death."""
        self._reasons[worker] = reason
        self.running[worker].kill()
        self.running[worker].join()

    def death(self, worker: int, when: str) -> WorkerError:
        """What to say about a worker that has died."""
        if worker in self._reasons:
            return WorkerError(self._reasons.pop(worker))
        process = self.running[worker]
        process.join(1)
        who = self._job.sizes.name_worker(worker)
        return WorkerError(f"{who} died {when}: {describe_exit(process.exitcode)}")

    @contextlib.contextmanager
    def naming_the_dead(self, worker: int, when: str) -> Iterator[None]:
        """Turn what a broken pipe raises into the worker's death."""
        try:
            yield
        except (EOFError, OSError):
            raise self.death(worker, when) from None


@contextlib.contextmanager
def _held_signals(context: BaseContext) -> Iterator[None]:
    """Let a Ctrl-C wait until a worker has started and is known.

    The worker inherits that and lets them come once it can ignore them. Not so from a fork server:
    all its children, other than ours too, would inherit it.
    """
    if not hasattr(signal, "pthread_sigmask") or context.get_start_method() == "forkserver":
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def describe_exit(code: int | None) -> str:
    """How a process ended, in words."""
    if code is None:
        return "its pipe closed"
    if code >= 0:
        return f"exit code {code}"
    name = signal.Signals(-code).name
    return f"signal {name}" + (" (out of memory?)" if name == "SIGKILL" else "")
