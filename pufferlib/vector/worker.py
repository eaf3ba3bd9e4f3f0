"""The process that runs a few environments for `Multiprocessing`."""

from __future__ import annotations

import multiprocessing
import os
import random
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing import connection, reduction
from multiprocessing.synchronize import Semaphore
from typing import Any

import cloudpickle
import numpy as np

from pufferlib.buffers import Layout
from pufferlib.exceptions import APIUsageError, WorkerError
from pufferlib.vector.group import Description, EnvGroup
from pufferlib.vector.shared import Command, SharedBlock, Status, acquire

# Native libraries would start a thread per core in every worker.
THREAD_VARIABLES = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "NUMEXPR_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
)
# Seconds that environments get to close after the driver has gone.
GRACE = 2.0


@dataclass
class Plan:
    """What a worker needs to know to begin; pickled with cloudpickle unless it is forked."""

    creators: Sequence[Callable[[], Any]]
    worker: int
    first_index: int
    num_workers: int
    num_envs: int
    seed: int | None

    def __reduce__(self) -> tuple[Any, ...]:
        try:
            return _load_plan, (cloudpickle.dumps(tuple(self.__dict__.values())),)
        except Exception as error:
            raise APIUsageError(
                f"the environment creator cannot be pickled for another process: {error}; define it "
                "at module level, or use context='fork'"
            ) from error


def _load_plan(data: bytes) -> Plan:
    return Plan(*cloudpickle.loads(data))


class Orphaned(Exception):
    """The driver has gone."""


def work(plan: Plan, pipe: connection.Connection, go: Semaphore, ready: Semaphore) -> None:
    """Make environments, describe them, then obey the driver until it says or is no more."""
    _become_worker()
    seed_globals(plan.seed, plan.worker)
    try:
        group = EnvGroup(plan.creators, plan.first_index)
    except Exception as error:
        pipe.send(_error_message(error))
        return
    try:
        _Session(plan, group, pipe, go, ready).run()
    except (Orphaned, EOFError, BrokenPipeError, ConnectionResetError):
        group.close()


def _become_worker() -> None:
    # The driver decides when to stop: a Ctrl-C or a termination signal to the whole group must not
    # cut a step short. A handler, unlike SIG_IGN, is not inherited by programs that envs start.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: None)
    for variable in THREAD_VARIABLES:
        os.environ.setdefault(variable, "1")
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(1)
    threading.Thread(target=_watch_driver, daemon=True).start()


def _watch_driver() -> None:
    """End this process soon after the driver, even if an environment hangs."""
    while not _is_orphan():
        parent = multiprocessing.parent_process()
        connection.wait([parent.sentinel], timeout=1.0)  # type: ignore[union-attr]
    time.sleep(GRACE)
    os._exit(1)


def _is_orphan() -> bool:
    parent = multiprocessing.parent_process()
    assert parent is not None
    if not parent.is_alive():
        return True
    # Siblings that were forked later hold the sentinel's other end open; the process table tells.
    ours = multiprocessing.current_process()
    is_child = getattr(ours, "_start_method", None) != "forkserver"
    return is_child and os.getppid() != parent.pid


def seed_globals(seed: int | Sequence[int] | None, worker: int) -> None:
    """Give this process's global generators a stream of their own."""
    sequence = np.random.SeedSequence(seed, spawn_key=(worker, 1))
    words = [int(word) for word in sequence.generate_state(3)]
    random.seed(words[0])
    np.random.seed(words[1])  # noqa: NPY002 - environments that use the global generator exist
    if "torch" in sys.modules:
        sys.modules["torch"].manual_seed(words[2])


def _error_message(error: BaseException) -> tuple[str, str, str]:
    """What the driver raises: kind, text; the traceback is in the text already or is added."""
    if isinstance(error, WorkerError | APIUsageError):
        return "error", type(error).__name__, str(error)
    text = "".join(traceback.format_exception(error))
    return "error", "WorkerError", f"{type(error).__name__}: {error}\n{text}"


class _Session:
    """One worker after its environments were made."""

    def __init__(
        self,
        plan: Plan,
        group: EnvGroup,
        pipe: connection.Connection,
        go: Semaphore,
        ready: Semaphore,
    ) -> None:
        self.plan, self.group, self.pipe, self.go, self.ready = plan, group, pipe, go, ready

    def run(self) -> None:
        """Describe, map the shared memory, then obey."""
        description = self.group.description
        self.pipe.send(("description", description))
        while not self.pipe.poll(0.5):
            self._check_driver()
        command = self.pipe.recv()
        if command == "close":  # another worker could not begin
            self._close()
            return
        fd = reduction.recv_handle(self.pipe)
        block = SharedBlock(fd, block_layout(description, self.plan.num_envs), self.plan.num_workers)
        os.close(fd)
        rows = len(self.group.envs) * description.num_agents
        start = self.plan.worker * rows
        self.group.bind(block.buffers.view(start, start + rows))
        self._obey(block)

    def _obey(self, block: SharedBlock) -> None:
        worker, go, ready = self.plan.worker, self.go, self.ready
        while True:
            acquire(go, self._check_driver)
            command = block.commands[worker]
            if command == Command.CLOSE:
                self._close()
                return
            if command == Command.CALL:
                self._answer()
                continue
            message = self._simulate(command)
            block.statuses[worker] = Status.DONE if message is None else Status.HAS_MESSAGE
            ready.release()
            if message is not None:
                # After the release: the driver reads while we write, however long the message.
                self._send(message)

    def _simulate(self, command: int) -> Any:
        """Step or reset; what there is to tell, or None."""
        try:
            if command == Command.STEP:
                infos = self.group.step()
            else:
                seeds, base, options = cloudpickle.loads(self.pipe.recv_bytes())
                if base is not None:
                    seed_globals(base, self.plan.worker)
                infos = self.group.reset(seeds, options)
        except (EOFError, ConnectionResetError):
            raise
        except Exception as error:
            return _error_message(error)
        return ("infos", infos) if infos else None

    def _answer(self) -> None:
        try:
            i, verb, args, kwargs = cloudpickle.loads(self.pipe.recv_bytes())
            message = ("result", getattr(self.group, verb)(i, *args, **kwargs))
        except Exception as error:
            message = ("raised", error)  # type: ignore[assignment]
        self._send(message)

    def _send(self, message: Any) -> None:
        try:
            data = cloudpickle.dumps(message)
        except Exception as error:
            data = cloudpickle.dumps(
                ("error", "WorkerError", f"{message[0]} cannot be sent to the driver: {error}")
            )
        self.pipe.send_bytes(data)

    def _close(self) -> None:
        try:
            self.group.close()
        except WorkerError as error:
            self._send(("closing failed", str(error)))

    def _check_driver(self) -> None:
        if _is_orphan():
            raise Orphaned


def block_layout(description: Description, num_envs: int) -> Layout:
    """Where the rows of `num_envs` environments lie."""
    return Layout(
        description.observation_space,
        description.action_space,
        num_envs * description.num_agents,
        final=description.autoreset_mode.value == "SameStep",
    )
