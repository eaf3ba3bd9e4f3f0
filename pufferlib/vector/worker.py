"""The process that runs a few environments for `Multiprocessing`."""

from __future__ import annotations

import contextlib
import gc
import multiprocessing
import os
import signal
import threading
import time
from multiprocessing import connection, reduction
from typing import Any

from pufferlib.exceptions import WorkerError
from pufferlib.vector.group import Ledger
from pufferlib.vector.messages import to_message
from pufferlib.vector.service import Plan, Service, block_layout, use_one_thread
from pufferlib.vector.shared import Command, SharedBlock, Signals, Status, Waiter

# What the driver alone obeys: a Ctrl-C or a termination of the whole group must not cut a step
# short.
STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM)
# Seconds that environments get to close after the driver has gone.
GRACE = 2.0


class OrphanedError(Exception):
    """The driver has gone."""


def work(plan: Plan, pipe: connection.Connection, signals: Signals) -> None:
    """Make environments, describe them, then obey the driver until it says or is no more."""
    _become_worker()
    try:
        service = Service(plan)
    except Exception as error:
        pipe.send(to_message(error))
        return
    try:
        _Session(plan, service, pipe, signals).run()
    except (OrphanedError, EOFError, BrokenPipeError, ConnectionResetError):
        pass
    finally:
        service.group.close()


def _become_worker() -> None:
    # A handler, unlike SIG_IGN, is not inherited by programs that environments start.
    for number in STOP_SIGNALS:
        signal.signal(number, lambda *_: None)
    if hasattr(signal, "pthread_sigmask"):  # held back until here
        signal.pthread_sigmask(signal.SIG_UNBLOCK, STOP_SIGNALS)
    use_one_thread()
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


class _Session:
    """One worker after its environments were made."""

    def __init__(
        self, plan: Plan, service: Service, pipe: connection.Connection, signals: Signals
    ) -> None:
        self.plan, self.service, self.pipe, self.signals = plan, service, pipe, signals
        self.group = service.group

    def run(self) -> None:
        """Describe, map the shared memory, then obey."""
        description = self.group.description
        self.pipe.send(("description", description))
        while not self.pipe.poll(0.5):
            self._check_driver()
        command, *content = self.pipe.recv()
        if command == "close":  # another worker could not begin
            self._close()
            return
        fd = reduction.recv_handle(self.pipe)
        plan, layout = self.plan, block_layout(description, self.plan.num_envs)
        block = SharedBlock(fd, layout, plan.num_workers, plan.num_envs)
        os.close(fd)
        n = len(self.group.envs)
        ledger = Ledger(
            block.currents[plan.worker : plan.worker + 1],
            block.restarts[plan.first_index : plan.first_index + n],
        )
        start = plan.first_index * description.num_agents
        rows = block.buffers.view(start, start + n * description.num_agents)
        self.service.bind(rows, ledger, *content)
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
        if command == Command.STEP:
            message = self.service.step()
        elif command == Command.TELL:
            message = self.service.tell()
        else:
            message = self.service.reset(self.pipe.recv_bytes())
        if message is None:
            return Status.DONE, None
        return (Status.FAILED if message[0] == "error" else Status.HAS_MESSAGE), message

    def _answer(self) -> None:
        self._send(self.service.answer(self.pipe.recv_bytes()))

    def _send(self, message: tuple[Any, ...]) -> None:
        self.pipe.send_bytes(self.service.pack(message))

    def _close(self) -> None:
        try:
            for index in self.group.closing():
                self._announce(index)
        except WorkerError as error:
            self._send(("closing failed", str(error)))

    def _announce(self, index: int) -> None:
        """Tell the driver whose close begins, in case that it never ends."""
        with contextlib.suppress(OSError):  # a driver that has died meanwhile
            self._send(("closing", index))

    def _check_driver(self) -> bool:
        if _is_orphan():
            raise OrphanedError
        return False
