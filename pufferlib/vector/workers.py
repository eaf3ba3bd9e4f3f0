"""The driver's side of the worker processes: their commands, results, and life and death."""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from multiprocessing import connection, reduction, util
from multiprocessing.context import BaseContext
from multiprocessing.synchronize import Semaphore
from typing import Any

from pufferlib.exceptions import WorkerError
from pufferlib.vector.backend import FAILURE_TIMEOUT, Creator
from pufferlib.vector.ending import Ending
from pufferlib.vector.group import Description, Infos, require_equal
from pufferlib.vector.messages import to_error
from pufferlib.vector.service import Plan, block_layout
from pufferlib.vector.shared import (
    PATIENCE,
    Command,
    SharedBlock,
    Signals,
    Status,
    Waiter,
    create_block,
)
from pufferlib.vector.sizes import Sizes
from pufferlib.vector.worker import STOP_SIGNALS, work

# Seconds between looks at whether workers live that nobody waits for.
CHECK_SECONDS = 0.5


class Team:
    """Neighbouring workers that are commanded together and whose rows make one unit of a batch."""

    def __init__(self, index: int, size: int, block: SharedBlock, signals: list[Signals]) -> None:
        self.index = index
        self.workers = range(index * size, (index + 1) * size)
        part = slice(self.workers.start, self.workers.stop)
        self.commands, self.statuses = block.commands[part], block.statuses[part]
        self.releases: list[Callable[[], None]] = [s.go.release for s in signals[part]]
        self.all_step = bytes([Command.STEP] * size)
        self.all_busy = bytes([Status.BUSY] * size)
        self.all_done = bytes([Status.DONE] * size)


class Workers:
    """The processes, in teams of `team_size` neighbours, and which teams are busy.

    Raises:
        WorkerError: an environment's constructor raised, or a process died while starting.
        APIUsageError: environments differ, or do not speak the contract.
    """

    def __init__(
        self,
        creators: Sequence[Creator],
        sizes: Sizes,
        team_size: int,
        seed: int | None,
        context: BaseContext,
    ) -> None:
        self.sizes = sizes
        self._signals = Signals.create(context, sizes.num_workers, team_size)
        self._ready: Semaphore = self._signals[0].ready
        self._waiter = Waiter(self._ready)
        self._pipes: list[connection.Connection] = []
        self._processes: list[Any] = []
        # Teams with a command whose result has not been collected, oldest command first.
        self._busy: dict[int, Team] = {}
        # Infos that had to be read before their batch was due.
        self._early: dict[int, Any] = {}
        self._next_check = 0.0
        # Runs at interpreter exit before multiprocessing joins its children, or when we are freed.
        go = [signals.go for signals in self._signals]
        self._ending = Ending(self._processes, self._pipes, go, sizes.name_worker)
        self._finalizer = util.Finalize(self, self._ending.run, exitpriority=100)
        try:
            self._start(creators, seed, context)
            self.description = self._describe()
            self._share_memory(team_size)
        except BaseException:
            self.close(FAILURE_TIMEOUT)
            raise

    def _start(self, creators: Sequence[Creator], seed: int | None, context: BaseContext) -> None:
        sizes, size = self.sizes, self.sizes.envs_per_worker
        for worker in range(sizes.num_workers):
            first = worker * size
            mine = creators[first : first + size]
            plan = Plan(mine, worker, first, sizes.num_workers, sizes.num_envs, seed)
            pipe, theirs = context.Pipe()
            process = context.Process(  # type: ignore[attr-defined]
                target=work,
                args=(plan, theirs, self._signals[worker]),
                name=f"pufferlib-worker-{worker}",
                daemon=True,
            )
            self._pipes.append(pipe)
            try:
                with _held_signals(context):
                    process.start()
                    self._processes.append(process)
            finally:
                theirs.close()  # so that the pipe ends with the worker

    def _describe(self) -> Description:
        descriptions = []
        for worker in range(self.sizes.num_workers):
            message = self._read(worker, "while making its environments")
            if message[0] == "error":
                raise to_error(*message[1:])
            descriptions.append(message[1])
            require_equal(descriptions[0], message[1], worker * self.sizes.envs_per_worker)
        return descriptions[0]

    def _share_memory(self, team_size: int) -> None:
        layout = block_layout(self.description, self.sizes.num_envs)
        fd = create_block(SharedBlock.nbytes(layout, self.sizes.num_workers))
        block = SharedBlock(fd, layout, self.sizes.num_workers)
        self.buffers = block.buffers
        self._commands = self._ending.commands = block.commands
        self._statuses, self._finished = block.statuses, block.finished
        count = self.sizes.num_workers // team_size
        self.teams = [Team(i, team_size, block, self._signals) for i in range(count)]
        try:
            for worker, pipe in enumerate(self._pipes):
                with self._naming_the_dead(worker, "before it was given its memory"):
                    pipe.send("memory")
                    reduction.send_handle(pipe, fd, self._processes[worker].pid)
        finally:
            os.close(fd)

    # -- commands and results ----------------------------------------------------------------

    def step(self, team: Team) -> None:
        """Let `team` step; its result must be collected before its next command."""
        self._mark_busy(team)
        team.commands[:] = team.all_step
        for release in team.releases:
            release()

    def reset(self, team: Team, payloads: Sequence[bytes]) -> None:
        """Let `team` reset, with a pickled payload for each of its workers."""
        self._mark_busy(team)
        for worker, payload in zip(team.workers, payloads, strict=True):
            self._post(worker, Command.RESET, payload)

    def _mark_busy(self, team: Team) -> None:
        self._busy[team.index] = team
        self._finished[team.index] = False
        team.statuses[:] = team.all_busy

    def _post(self, worker: int, command: int, payload: bytes) -> None:
        self._commands[worker] = command
        self._signals[worker].go.release()
        with self._naming_the_dead(worker, "before its next command"):
            self._pipes[worker].send_bytes(payload)

    def wait(self, count: int) -> list[Team]:
        """The first `count` teams that have finished.

        Raises:
            WorkerError: a busy worker died or failed.
        """
        finished, busy = self._finished, self._busy
        if len(busy) > count:
            self._check_now_and_then()
        while True:
            teams = [team for team in busy.values() if finished[team.index]]
            if len(teams) >= count:
                return teams[:count]
            self._waiter.wait(self._check_alive)

    def collect(self, teams: Sequence[Team]) -> Infos:
        """The infos of finished `teams`, which may be commanded again afterwards.

        Raises:
            WorkerError: one of their workers failed.
        """
        infos: Infos = []
        for team in teams:
            # The token of its end, if `wait` did not need it. A flag is set before its token, so
            # taking another team's is as good: `wait` looks at the flags first.
            self._ready.acquire(False)
            if team.statuses != team.all_done:
                for worker in team.workers:
                    infos += self._infos(worker)
            del self._busy[team.index]
        return infos

    def deliver_again(self, team: Team) -> None:
        """Let the rows of an idle `team`, as they are, be a result without infos."""
        self._mark_busy(team)
        team.statuses[:] = team.all_done
        self._finished[team.index] = True

    def drain(self) -> None:
        """Wait for all that is in flight and drop it."""
        while self._busy:
            self.collect(self.wait(1))

    def _infos(self, worker: int) -> Infos:
        if self._statuses[worker] == Status.DONE:
            return []
        kind, *content = self._early.pop(worker, None) or self._read(worker, "while it sent infos")
        self._statuses[worker] = Status.DONE
        if kind == "error":
            raise to_error(*content)
        return content[0]

    def ask(self, worker: int, payload: bytes) -> Any:
        """The answer to a pickled call on one of `worker`'s environments, once it is not busy.

        Raises:
            WorkerError: the worker died.
        """
        self._await_idle(worker)
        if self._has_unread(worker) and worker not in self._early:
            self._early[worker] = self._read(worker, "while it sent infos")
        self._post(worker, Command.CALL, payload)
        return self._read(worker, "during a call")

    def _await_idle(self, worker: int) -> None:
        """Calls are rare, so this only looks now and then and leaves the semaphore to `wait`."""
        team_busy = any(worker in team.workers for team in self._busy.values())
        while team_busy and self._statuses[worker] == Status.BUSY:
            self._check_alive()
            time.sleep(0.0005)

    def _has_unread(self, worker: int) -> bool:
        return self._statuses[worker] in (Status.HAS_MESSAGE, Status.FAILED)

    # -- life and death ----------------------------------------------------------------------

    def _check_now_and_then(self) -> None:
        """A pool goes on without a dead worker, so look even if nobody waits for it."""
        now = time.monotonic()
        if now > self._next_check:
            self._next_check = now + CHECK_SECONDS
            self._check_alive()

    def _check_alive(self) -> None:
        """Raise for a worker that died or failed, without waiting for the rest of its team."""
        for team in self._busy.values():
            for worker in team.workers:
                if self._statuses[worker] == Status.FAILED:
                    self._infos(worker)  # raises what it reports
                alive = self._processes[worker].is_alive()
                # In this order: the last worker of a team may finish it and then be killed.
                if not alive and not self._finished[team.index]:
                    raise self._death(worker, "while it was busy")

    def _death(self, worker: int, when: str) -> WorkerError:
        process = self._processes[worker]
        process.join(1)
        who = self.sizes.name_worker(worker)
        return WorkerError(f"{who} died {when}: {_describe_exit(process.exitcode)}")

    @contextlib.contextmanager
    def _naming_the_dead(self, worker: int, when: str) -> Iterator[None]:
        try:
            yield
        except (EOFError, ConnectionResetError, BrokenPipeError):
            raise self._death(worker, when) from None

    def _read(self, worker: int, when: str) -> Any:
        pipe = self._pipes[worker]
        with self._naming_the_dead(worker, when):
            while not pipe.poll(PATIENCE):
                if not self._processes[worker].is_alive() and not pipe.poll(0):
                    raise EOFError
            return pickle.loads(pipe.recv_bytes())

    def close(self, timeout: float) -> list[str]:
        """End all workers; messages of environments whose `close` raised or hung."""
        self._busy.clear()
        self._ending.timeout, self._ending.is_asked = timeout, True
        return self._finalizer() or []


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


def _describe_exit(code: int | None) -> str:
    if code is None:
        return "its pipe closed"
    if code >= 0:
        return f"exit code {code}"
    name = signal.Signals(-code).name
    return f"signal {name}" + (" (out of memory?)" if name == "SIGKILL" else "")
