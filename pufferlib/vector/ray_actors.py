"""The driver's side of Ray actors: their commands, results, and what comes after a failure."""

from __future__ import annotations

import atexit
import math
import pickle
import time
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import ray
from numpy.typing import NDArray

from pufferlib.exceptions import WorkerError
from pufferlib.vector.backend import FAILURE_TIMEOUT
from pufferlib.vector.group import Infos
from pufferlib.vector.messages import to_error
from pufferlib.vector.ray_actor import Block
from pufferlib.vector.ray_ending import Ending
from pufferlib.vector.ray_handles import ActorJob, Handles
from pufferlib.vector.ray_session import Session, wait
from pufferlib.vector.restarting import LastResets, used_up
from pufferlib.vector.service import block_layout


@dataclass
class Team:
    """See `parallel.Team`.

    Attributes:
        missing: how many of its workers' results have not arrived.
        deadline: when those are late.
        resets: its command is a reset.
    """

    index: int
    workers: range
    missing: int = 0
    deadline: float = math.inf
    resets: bool = False


class Actors:
    """The driver's side of the actors; see `parallel.Crew`.

    Raises:
        WorkerError: an environment's constructor raised, or an actor died while starting.
        APIUsageError: environments differ, do not speak the contract, or cannot be pickled.
    """

    def __init__(self, job: ActorJob, team_size: int, session: Session) -> None:
        self._job, self._sizes = job, job.sizes
        self._handles = Handles(job, session)
        self._actors = self._handles.actors
        # Teams with a command whose result has not been collected, and the actors' results that
        # have not arrived; oldest command first.
        self._busy: dict[int, Team] = {}
        self._pending: dict[ray.ObjectRef, int] = {}
        self._infos: dict[int, Infos] = {}
        self._last_resets = LastResets(job.sizes.envs_per_worker)
        self._ending = Ending(self._actors, session, job.sizes)
        self._finalizer = weakref.finalize(self, self._ending.run)
        # Not by the finalizer itself: that could come after Ray's own end.
        self._finalizer.atexit = False
        atexit.register(self._finalizer)
        try:
            self.description = self._handles.start_all()
        except BaseException:
            self.close(FAILURE_TIMEOUT)
            raise
        count = job.sizes.num_workers // team_size
        self.teams = [Team(i, range(i * team_size, (i + 1) * team_size)) for i in range(count)]
        self._allocate()

    def _allocate(self) -> None:
        """The driver's rows, and how those of one worker are laid out when they travel."""
        sizes, agents = self._sizes, self.description.num_agents
        whole = block_layout(self.description, sizes.num_envs)
        self.buffers = whole.map(np.zeros(whole.nbytes, np.uint8))
        self._block = Block(self.description, sizes.envs_per_worker)
        n = sizes.envs_per_worker * agents
        self._rows = [self.buffers.view(i * n, (i + 1) * n) for i in range(sizes.num_workers)]
        self._restarts = np.zeros((sizes.num_workers, sizes.envs_per_worker), np.uint32)

    # -- commands and results ----------------------------------------------------------------

    def step(self, team: Team) -> None:
        """Let `team` step; its result must be collected before its next command."""
        self._begin(team)
        for worker in team.workers:
            self._expect(worker, self._actors[worker].step.remote(self._rows[worker].actions))

    def reset(self, team: Team, payloads: Sequence[bytes]) -> None:
        """Let `team` reset, with a pickled payload for each of its workers."""
        self._begin(team, resets=True)
        for worker, payload in zip(team.workers, payloads, strict=True):
            if self._job.restart:
                self._last_resets.note(worker, payload)
            self._expect(worker, self._actors[worker].reset.remote(payload))

    def deliver_again(self, team: Team) -> None:
        """Let the rows of an idle `team`, as they are, be a result without infos."""
        self._begin(team)
        for worker in team.workers:
            block = self._block_of(worker)
            self._expect(worker, self._actors[worker].restore.remote(block))

    def _block_of(self, worker: int) -> NDArray[np.uint8]:
        """What the driver knows of a worker, as the actor would send it."""
        block = np.empty(self._block.nbytes, np.uint8)
        self._block.rows(block).write(self._rows[worker])
        self._block.restarts(block)[...] = self._restarts[worker]
        return block

    def _begin(self, team: Team, resets: bool = False) -> None:
        self._handles.require_session()
        self._busy[team.index] = team
        team.missing, team.resets = len(team.workers), resets
        self._set_deadline(team)

    def _set_deadline(self, team: Team) -> None:
        if self._job.timeout is not None:
            team.deadline = time.monotonic() + self._job.timeout

    def _expect(self, worker: int, ref: ray.ObjectRef) -> None:
        self._pending[ref] = worker

    def wait(self, count: int) -> list[Team]:
        """The first `count` teams that have finished.

        Raises:
            WorkerError: a busy worker died, failed or hangs.
        """
        while True:
            teams = [team for team in self._busy.values() if not team.missing]
            if len(teams) >= count:
                return teams[:count]
            # No more results than may be needed, so that those who wait longest come first.
            needed = sum(sorted(team.missing for team in self._busy.values())[:count])
            for ref in self._handles.await_first(self._pending, needed):
                self._accept(self._pending.pop(ref), ref)
            self._check_deadlines()

    def _accept(self, worker: int, ref: ray.ObjectRef) -> None:
        try:
            block, data = self._handles.get(worker, ref, "while it was busy")
        except WorkerError as error:
            self._replace({worker: str(error)}, error)
            return
        self._rows[worker].write(self._block.rows(block))
        self._restarts[worker] = self._block.restarts(block)
        if data is not None:
            kind, *content = pickle.loads(data)
            if kind == "error":
                raise to_error(*content)
            self._infos[worker] = content[0]
        self._team(worker).missing -= 1

    def collect(self, teams: Sequence[Team]) -> Infos:
        """The infos of finished `teams`, which may be commanded again afterwards."""
        infos: Infos = []
        for team in teams:
            for worker in team.workers:
                infos += self._infos.pop(worker, ())
            del self._busy[team.index]
        return infos

    def drain(self) -> None:
        """Wait for all that is in flight and drop it."""
        while self._busy:
            self.collect(self.wait(1))

    def ask(self, worker: int, payload: bytes) -> Any:
        """The answer to a pickled call on one of `worker`'s environments, once it is not busy.

        Raises:
            WorkerError: the actor died.
        """
        ref = self._actors[worker].answer.remote(payload)
        while not self._handles.await_first({ref: worker}, 1):
            pass
        return pickle.loads(self._handles.get(worker, ref, "during a call"))

    # -- failures ----------------------------------------------------------------------------

    def _check_deadlines(self) -> None:
        now = time.monotonic()
        pending = self._pending.items()
        late = {ref: worker for ref, worker in pending if self._team(worker).deadline < now}
        for ref in wait(late, len(late), 0) if late else ():
            del late[ref]  # has arrived; nobody has needed it yet
        for ref in late:
            del self._pending[ref]
        if late:
            what = f"was still busy after timeout={self._job.timeout:g} s"
            name = self._sizes.name_worker
            self._replace({worker: f"{name(worker)} {what}" for worker in sorted(late.values())})

    def _replace(self, lost: Mapping[int, str], cause: Exception | None = None) -> None:
        """Put new actors in the place of busy ones that were lost, each for a reason.

        A step becomes a lost row (see `RestartingGroup`), a reset is done again.

        Raises:
            WorkerError: one may not be made anew once more, an environment's constructor raised,
                or a new actor died.
        """
        restart = self._job.restart
        if any(self._restarts[worker].max() >= restart for worker in lost):
            reasons = [*lost.values(), *([used_up(restart)] if restart else [])]
            raise WorkerError("\n".join(reasons)) from cause
        for worker, reason in lost.items():
            self._handles.replace(worker, self.description)
            self._restarts[worker] += 1
            team = self._team(worker)
            payload = self._last_resets.payload(worker) if team.resets else None
            self._expect(
                worker,
                self._actors[worker].take_over.remote(
                    self._block_of(worker), self._last_resets.lost(worker, reason), payload
                ),
            )
            self._set_deadline(team)

    def _team(self, worker: int) -> Team:
        return self.teams[worker // len(self.teams[0].workers)]

    def close(self, timeout: float) -> list[str]:
        """End all actors; messages of environments whose `close` raised or hung."""
        atexit.unregister(self._finalizer)
        self._ending.timeout, self._ending.is_asked = timeout, True
        return self._finalizer() or []
