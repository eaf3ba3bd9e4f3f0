"""The driver's side of the worker processes: their commands, results, and failures."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from multiprocessing import util
from multiprocessing.synchronize import Semaphore
from typing import Any

import cloudpickle

from pufferlib.exceptions import WorkerError
from pufferlib.vector.backend import FAILURE_TIMEOUT
from pufferlib.vector.ending import Ending
from pufferlib.vector.group import Infos
from pufferlib.vector.messages import to_error
from pufferlib.vector.processes import Processes, ProcessJob
from pufferlib.vector.revival import Revival
from pufferlib.vector.service import block_layout
from pufferlib.vector.shared import Command, SharedBlock, Signals, Status, Waiter, create_block

# Seconds between looks at whether workers live that nobody waits for.
CHECK_SECONDS = 0.5
# A call that changes nothing.
PING = cloudpickle.dumps((0, "get_attr", ("num_agents",), {}))


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
        # What it works on, and until when.
        self.command = Command.RESET
        self.deadline = 0.0


class Workers:
    """The processes, in teams of `team_size` neighbours, and which teams are busy.

    Raises:
        WorkerError: an environment's constructor raised, or a process died while starting.
        APIUsageError: environments differ, or do not speak the contract; a limit of the system.
    """

    def __init__(self, job: ProcessJob, team_size: int, timeout: float | None) -> None:
        self.sizes = job.sizes
        self._timeout = timeout
        self._signals = Signals.create(job.context, job.sizes.num_workers, team_size)
        self._ready: Semaphore = self._signals[0].ready
        self._waiter = Waiter(self._ready)
        self._processes = Processes(job, self._signals)
        # Teams with a command whose result has not been collected, oldest command first.
        self._busy: dict[int, Team] = {}
        # Infos that had to be read before their batch was due.
        self._early: dict[int, Any] = {}
        self._next_check = 0.0
        # Runs at interpreter exit before multiprocessing joins its children, or when we are freed.
        self._ending = Ending(self._processes, self._signals, job.sizes.name_worker)
        self._finalizer = util.Finalize(self, self._ending.run, exitpriority=100)
        try:
            self.description = self._processes.start_all()
            self._share_memory(job, team_size)
        except BaseException:
            self.close(FAILURE_TIMEOUT)
            raise

    def _share_memory(self, job: ProcessJob, team_size: int) -> None:
        sizes, layout = self.sizes, block_layout(self.description, self.sizes.num_envs)
        fd = create_block(SharedBlock.nbytes(layout, sizes.num_workers, sizes.num_envs))
        self._ending.memory = fd
        self._block = block = SharedBlock(fd, layout, sizes.num_workers, sizes.num_envs)
        self.buffers = block.buffers
        self._commands = self._ending.commands = block.commands
        self._statuses, self._finished = block.statuses, block.finished
        count = sizes.num_workers // team_size
        self.teams = [Team(i, team_size, block, self._signals) for i in range(count)]
        self._revival = Revival(job, self._processes, block, self._signals, self.description, fd)
        for worker in range(sizes.num_workers):
            self._processes.give_memory(worker, fd)
        if not job.restart:
            self._ending.memory = None
            os.close(fd)

    # -- commands and results ----------------------------------------------------------------

    def step(self, team: Team) -> None:
        """Let `team` step; its result must be collected before its next command."""
        self._mark_busy(team, Command.STEP)
        team.commands[:] = team.all_step
        for release in team.releases:
            release()

    def reset(self, team: Team, payloads: Sequence[bytes]) -> None:
        """Let `team` reset, with a pickled payload for each of its workers."""
        self._mark_busy(team, Command.RESET)
        for worker, payload in zip(team.workers, payloads, strict=True):
            self._revival.note_reset(worker, payload)
            try:
                self._post(worker, Command.RESET, payload)
            except WorkerError:
                if not self._revival.is_possible(worker):
                    raise  # else whoever waits for the team finds that it is dead

    def _mark_busy(self, team: Team, command: int) -> None:
        team.command = command
        self._busy[team.index] = team
        self._finished[team.index] = False
        team.statuses[:] = team.all_busy
        self._set_deadline(team)

    def _set_deadline(self, team: Team) -> None:
        if self._timeout is not None:
            team.deadline = time.monotonic() + self._timeout

    def _post(self, worker: int, command: int, payload: bytes) -> None:
        self._commands[worker] = command
        self._signals[worker].go.release()
        self._processes.send(worker, payload)

    def wait(self, count: int) -> list[Team]:
        """The first `count` teams that have finished.

        Raises:
            WorkerError: a busy worker died, failed or hangs.
        """
        finished, busy = self._finished, self._busy
        if len(busy) > count:
            self._check_now_and_then()
        while True:
            teams = [team for team in busy.values() if finished[team.index]]
            if len(teams) >= count:
                return teams[:count]
            self._waiter.wait(self._check_teams)

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
        self._mark_busy(team, Command.STEP)
        team.statuses[:] = team.all_done
        self._finished[team.index] = True

    def drain(self) -> None:
        """Wait for all that is in flight and drop it."""
        while self._busy:
            self.collect(self.wait(1))

    def _infos(self, worker: int) -> Infos:
        if self._statuses[worker] == Status.DONE:
            return []
        try:
            kind, *content = self._early.pop(worker, None) or self._read_infos(worker)
        except WorkerError:
            if not self._revival.is_possible(worker):
                raise
            kind, content = "infos", [[]]  # lost with it; its next command finds it dead
        self._statuses[worker] = Status.DONE
        if kind == "error":
            raise to_error(*content)
        return content[0]

    def _read_infos(self, worker: int) -> Any:
        return self._processes.read(worker, "while it sent infos")

    def ask(self, worker: int, payload: bytes) -> Any:
        """The answer to a pickled call on one of `worker`'s environments, once it is not busy.

        Raises:
            WorkerError: the worker died.
        """
        self._await_idle(worker)
        if self._has_unread(worker) and worker not in self._early:
            self._early[worker] = self._read_infos(worker)
        self._post(worker, Command.CALL, payload)
        return self._processes.read(worker, "during a call")

    def _await_idle(self, worker: int) -> None:
        """Calls are rare, so this only looks now and then and leaves the semaphore to `wait`."""
        team_busy = any(worker in team.workers for team in self._busy.values())
        while team_busy and self._statuses[worker] == Status.BUSY:
            self._check_teams()
            time.sleep(0.0005)

    def _has_unread(self, worker: int) -> bool:
        return self._statuses[worker] in (Status.HAS_MESSAGE, Status.FAILED)

    # -- failures ----------------------------------------------------------------------------

    def _check_now_and_then(self) -> None:
        """A pool goes on without a dead worker, so look even if nobody waits for it."""
        now = time.monotonic()
        if now > self._next_check:
            self._next_check = now + CHECK_SECONDS
            self._check_teams()

    def _check_teams(self) -> bool:
        """See to workers that died, failed or hang, without waiting for the rest of their team.

        Returns:
            Whether a team has finished: one whose last worker was killed has no token for it.
        """
        for team in self._busy.values():
            for worker in team.workers:
                if self._statuses[worker] == Status.FAILED:
                    self._infos(worker)  # raises what it reports
            self._kill_hanging(team)
            dead = [worker for worker in team.workers if not self._processes.is_alive(worker)]
            # In this order: the last worker of a team may finish it and then be killed.
            if dead and not self._finished[team.index]:
                self._bury(team, dead)
        return any(self._finished[index] for index in self._busy)

    def _kill_hanging(self, team: Team) -> None:
        if self._timeout is None or time.monotonic() < team.deadline:
            return
        for worker in team.workers:
            if self._statuses[worker] == Status.BUSY and self._processes.is_alive(worker):
                who, at_work = self.sizes.name_worker(worker), self._at_work(worker)
                reason = f"{who} was still busy with {at_work} after timeout={self._timeout:g} s"
                self._processes.kill(worker, reason)

    def _at_work(self, worker: int) -> str:
        first = worker * self.sizes.envs_per_worker
        return f"environment {first + self._block.currents[worker]}"

    def _bury(self, team: Team, dead: list[int]) -> None:
        """Replace `dead` workers of a busy team, once the others have finished, or raise."""
        if not all(map(self._revival.is_possible, dead)):
            raise self._revival.final_error(dead, self._at_work)
        others = [worker for worker in team.workers if worker not in dead]
        if any(self._statuses[worker] == Status.BUSY for worker in others):
            return
        try:
            for worker in others:
                self.ask(worker, PING)  # past what it does after its status
        except WorkerError:
            return  # has died as well; the next look finds it
        for worker in dead:
            self._early.pop(worker, None)
        self._revival.revive(dead, self._at_work, team.command)
        self._set_deadline(team)

    def close(self, timeout: float) -> list[str]:
        """End all workers; messages of environments whose `close` raised or hung."""
        self._busy.clear()
        self._ending.timeout, self._ending.is_asked = timeout, True
        return self._finalizer() or []
