"""The process that runs a few environments for `Multiprocessing`."""

from __future__ import annotations

import contextlib
import gc
import multiprocessing
import os
import pickle
import random
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing import connection, reduction
from typing import Any

import cloudpickle
import numpy as np

from pufferlib.buffers import Layout
from pufferlib.exceptions import APIUsageError, WorkerError
from pufferlib.vector.group import Description, EnvGroup
from pufferlib.vector.shared import Command, SharedBlock, Signals, Status, Waiter

# Native libraries would start a thread per core in every worker.
THREAD_VARIABLES = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "NUMEXPR_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
)
# What the driver alone obeys: a Ctrl-C or a termination of the whole group must not cut a step
# short.
STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM)
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
                f"the environment creator cannot be pickled for another process: {error}; define "
                "it at module level, or use context='fork'"
            ) from error


def _load_plan(data: bytes) -> Plan:
    return Plan(*cloudpickle.loads(data))


class OrphanedError(Exception):
    """The driver has gone."""


def work(plan: Plan, pipe: connection.Connection, signals: Signals) -> None:
    """Make environments, describe them, then obey the driver until it says or is no more."""
    _become_worker()
    seed_globals(plan.seed, plan.worker)
    try:
        group = EnvGroup(plan.creators, plan.first_index)
    except Exception as error:
        pipe.send(_error_message(error))
        return
    try:
        _Session(plan, group, pipe, signals).run()
    except (OrphanedError, EOFError, BrokenPipeError, ConnectionResetError):
        pass
    finally:
        group.close()


def _become_worker() -> None:
    # A handler, unlike SIG_IGN, is not inherited by programs that environments start.
    for number in STOP_SIGNALS:
        signal.signal(number, lambda *_: None)
    if hasattr(signal, "pthread_sigmask"):  # held back until here
        signal.pthread_sigmask(signal.SIG_UNBLOCK, STOP_SIGNALS)
    for variable in THREAD_VARIABLES:
        os.environ.setdefault(variable, "1")
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(1)
    # What a forked worker got from the driver stays: to look through it at every collection would
    # take long and copy the pages that both share.
    gc.freeze()
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


def _error_message(error: BaseException) -> tuple[Any, ...]:
    """What the driver raises: kind, text; the traceback is in the text already or is added."""
    if isinstance(error, WorkerError | APIUsageError):
        return "error", type(error).__name__, str(error)
    text = "".join(traceback.format_exception(error))
    return "error", "WorkerError", f"{type(error).__name__}: {error}\n{text}"


def _raised(error: Exception) -> tuple[Any, ...]:
    """The exception itself, with this traceback as a note, if it can be pickled; else its text."""
    error.add_note("in the worker process:\n" + "".join(traceback.format_exception(error)))
    try:
        pickle.loads(_dumps(error))
    except Exception:
        return _error_message(error)
    return "raised", error


def _dumps(message: Any) -> bytes:
    """Plain pickle where that is enough: it is many times faster than cloudpickle."""
    try:
        return pickle.dumps(message, protocol=pickle.HIGHEST_PROTOCOL)
    except Exception:
        return cloudpickle.dumps(message)


class _Session:
    """One worker after its environments were made."""

    def __init__(
        self, plan: Plan, group: EnvGroup, pipe: connection.Connection, signals: Signals
    ) -> None:
        self.plan, self.group, self.pipe, self.signals = plan, group, pipe, signals

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
        block = SharedBlock(
            fd, block_layout(description, self.plan.num_envs), self.plan.num_workers
        )
        os.close(fd)
        rows = len(self.group.envs) * description.num_agents
        start = self.plan.worker * rows
        self.group.bind(block.buffers.view(start, start + rows))
        self._obey(block)

    def _obey(self, block: SharedBlock) -> None:
        worker, signals = self.plan.worker, self.signals
        commands, statuses, check_driver = block.commands, block.statuses, self._check_driver
        team, ready = worker // signals.team_size, signals.ready
        wait = Waiter(signals.go).wait
        while True:
            wait(check_driver)
            command = commands[worker]
            if command == Command.CLOSE:
                self._close()
                return
            if command == Command.CALL:
                self._answer()
                continue
            status, message = self._simulate(command)
            statuses[worker] = status
            if signals.is_last_of_team():
                block.finished[team] = True
                ready.release()
            if message is not None:
                # After the release: the driver reads while we write, however long the message.
                self._send(message)

    def _simulate(self, command: int) -> tuple[int, Any]:
        """Step or reset; a status and what there is to tell, or None."""
        try:
            infos = self.group.step() if command == Command.STEP else self._reset()
        except (EOFError, ConnectionResetError):
            raise
        except Exception as error:
            return Status.FAILED, _error_message(error)
        return (Status.HAS_MESSAGE, ("infos", infos)) if infos else (Status.DONE, None)

    def _reset(self) -> list[dict[str, Any]]:
        seeds, base, options = cloudpickle.loads(self.pipe.recv_bytes())
        if base is not None:
            seed_globals(base, self.plan.worker)
        return self.group.reset(seeds, options)

    def _answer(self) -> None:
        try:
            i, verb, args, kwargs = cloudpickle.loads(self.pipe.recv_bytes())
            message = ("result", getattr(self.group, verb)(i, *args, **kwargs))
        except Exception as error:
            message = _raised(error)
        self._send(message)

    def _send(self, message: tuple[Any, ...]) -> None:
        try:
            data = _dumps(message)
        except Exception as error:
            text = (
                f"{message[0]} of environments {self.group.first_index} to "
                f"{self.group.first_index + len(self.group.envs) - 1} cannot be pickled for the "
                f"driver: {type(error).__name__}: {error}; return plain data, or use "
                "backend=Serial"
            )
            data = _dumps(("error", "WorkerError", text))
        self.pipe.send_bytes(data)

    def _close(self) -> None:
        try:
            self.group.close(self._announce)
        except WorkerError as error:
            self._send(("closing failed", str(error)))

    def _announce(self, index: int) -> None:
        """Tell the driver whose close begins, in case that it never ends."""
        with contextlib.suppress(OSError):  # a driver that has died meanwhile
            self._send(("closing", index))

    def _check_driver(self) -> None:
        if _is_orphan():
            raise OrphanedError


def block_layout(description: Description, num_envs: int) -> Layout:
    """Where the rows of `num_envs` environments lie."""
    return Layout(
        description.observation_space,
        description.action_space,
        num_envs * description.num_agents,
        final=description.autoreset_mode.value == "SameStep",
    )
