"""The driver's side of Ray actors: their commands, results, and failures."""

from __future__ import annotations

import atexit
import math
import pickle
import time
import warnings
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import ray
from ray.exceptions import RayActorError, RayError

from pufferlib.exceptions import APIUsageError, WorkerError
from pufferlib.vector.backend import FAILURE_TIMEOUT, Creator
from pufferlib.vector.group import Description, Infos, require_equal
from pufferlib.vector.messages import to_error
from pufferlib.vector.ray_actor import Actor
from pufferlib.vector.ray_ending import Ending
from pufferlib.vector.ray_session import Session, wait
from pufferlib.vector.service import Plan, block_layout
from pufferlib.vector.shared import PATIENCE
from pufferlib.vector.sizes import Sizes

# Seconds after which the user is told that Ray has perhaps no room for the actors.
PLACING_SECONDS = 30.0


@dataclass(frozen=True)
class Job:
    """What all actors have in common; arguments of `make`."""

    creators: Sequence[Creator]
    sizes: Sizes
    seed: int | None
    options: Mapping[str, Any]
    timeout: float | None
    restart: int

    def plan(self, worker: int) -> bytes:
        """The part of one worker, pickled.

        Raises:
            APIUsageError: a creator cannot be pickled.
        """
        sizes, first = self.sizes, worker * self.sizes.envs_per_worker
        mine = self.creators[first : first + sizes.envs_per_worker]
        return pickle.dumps(
            Plan(mine, worker, first, sizes.num_workers, sizes.num_envs, self.seed, self.restart)
        )

    def actor_class(self) -> Any:
        """What makes actors that may be placed as the options say.

        Raises:
            APIUsageError: Ray does not know an option.
        """
        try:
            return ray.remote(Actor).options(**self.options)
        except (TypeError, ValueError) as error:
            raise APIUsageError(f"context: no options for Ray actors: {error}") from error


@dataclass
class Team:
    """See `parallel.Team`.

    Attributes:
        missing: how many of its workers' results have not arrived.
        deadline: when those are late.
    """

    index: int
    workers: range
    missing: int = 0
    deadline: float = math.inf


class Actors:
    """The driver's side of the actors; see `parallel.Crew`.

    Raises:
        WorkerError: an environment's constructor raised, or an actor died while starting.
        APIUsageError: environments differ, do not speak the contract, or cannot be pickled.
    """

    def __init__(self, job: Job, team_size: int, session: Session) -> None:
        self._job, self._sizes, self._session = job, job.sizes, session
        self._actors: list[Any] = []
        # Teams with a command whose result has not been collected, and the actors' results that
        # have not arrived; oldest command first.
        self._busy: dict[int, Team] = {}
        self._pending: dict[ray.ObjectRef, int] = {}
        self._infos: dict[int, Infos] = {}
        self._ending = Ending(self._actors, session, job.sizes)
        self._finalizer = weakref.finalize(self, self._ending.run)
        # Not by the finalizer itself: that could come after Ray's own end.
        self._finalizer.atexit = False
        atexit.register(self._finalizer)
        try:
            self.description = self._start()
        except BaseException:
            self.close(FAILURE_TIMEOUT)
            raise
        count = job.sizes.num_workers // team_size
        self.teams = [Team(i, range(i * team_size, (i + 1) * team_size)) for i in range(count)]
        self._allocate()

    def _start(self) -> Description:
        actor_class = self._job.actor_class()
        begun = {}
        for worker in range(self._sizes.num_workers):
            plan = self._job.plan(worker)
            self._actors.append(actor_class.remote())
            begun[self._actors[worker].begin.remote(plan)] = worker
        descriptions = self._describe(begun)
        for worker in range(self._sizes.num_workers):
            first = worker * self._sizes.envs_per_worker
            require_equal(descriptions[0], descriptions[worker], first)
        return descriptions[0]

    def _describe(self, begun: dict[ray.ObjectRef, int]) -> dict[int, Description]:
        """What the actors' environments are, by worker, when all have been made."""
        descriptions: dict[int, Description] = {}
        late = time.monotonic() + PLACING_SECONDS
        while begun:
            for ref in self._await(begun, len(begun)):
                worker = begun.pop(ref)
                kind, *content = pickle.loads(self._get(worker, ref, "while it began"))
                if kind == "error":
                    raise to_error(*content)
                descriptions[worker] = content[0]
            if begun and time.monotonic() > late:
                late = float("inf")
                self._warn_of_waiting(sorted(begun.values()))
        return descriptions

    def _warn_of_waiting(self, workers: list[int]) -> None:
        free = {k: v for k, v in ray.available_resources().items() if not k.startswith("node:")}
        warnings.warn(
            f"{len(workers)} of {self._sizes.num_workers} workers have not begun after "
            f"{PLACING_SECONDS:g} s: their environments take long to make, or Ray has no room for "
            f"actors with {self._job.options} (free in the cluster: {free}); still waiting",
            RuntimeWarning,
            stacklevel=7,
        )

    def _allocate(self) -> None:
        """The driver's rows, and how those of one worker are laid out when they travel."""
        sizes, agents = self._sizes, self.description.num_agents
        whole = block_layout(self.description, sizes.num_envs)
        self.buffers = whole.map(np.zeros(whole.nbytes, np.uint8))
        self._layout = block_layout(self.description, sizes.envs_per_worker)
        n = sizes.envs_per_worker * agents
        self._rows = [self.buffers.view(i * n, (i + 1) * n) for i in range(sizes.num_workers)]

    # -- commands and results ----------------------------------------------------------------

    def step(self, team: Team) -> None:
        """Let `team` step; its result must be collected before its next command."""
        self._begin(team)
        for worker in team.workers:
            self._expect(worker, self._actors[worker].step.remote(self._rows[worker].actions))

    def reset(self, team: Team, payloads: Sequence[bytes]) -> None:
        """Let `team` reset, with a pickled payload for each of its workers."""
        self._begin(team)
        for worker, payload in zip(team.workers, payloads, strict=True):
            self._expect(worker, self._actors[worker].reset.remote(payload))

    def deliver_again(self, team: Team) -> None:
        """Let the rows of an idle `team`, as they are, be a result without infos."""
        self._begin(team)
        for worker in team.workers:
            block = np.empty(self._layout.nbytes, np.uint8)
            self._layout.map(block).write(self._rows[worker])
            self._expect(worker, self._actors[worker].restore.remote(block))

    def _begin(self, team: Team) -> None:
        self._require_session()
        self._busy[team.index] = team
        team.missing = len(team.workers)
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
            for ref in self._await(self._pending, needed):
                self._accept(self._pending.pop(ref), ref)
            self._check_deadlines()

    def _await(self, refs: Mapping[ray.ObjectRef, int], count: int) -> list[ray.ObjectRef]:
        """The first `count` of `refs`, or fewer after a while: one may have failed."""
        self._require_session()
        return wait(refs, count, PATIENCE)

    def _accept(self, worker: int, ref: ray.ObjectRef) -> None:
        block, data = self._get(worker, ref, "while it was busy")
        self._rows[worker].write(self._layout.map(block))
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
        self._require_session()
        ref = self._actors[worker].answer.remote(payload)
        while not self._await({ref: worker}, 1):
            pass
        return pickle.loads(self._get(worker, ref, "during a call"))

    # -- life and death ----------------------------------------------------------------------

    def _get(self, worker: int, ref: ray.ObjectRef, when: str) -> Any:
        try:
            return ray.get(ref)
        except RayError as error:
            what = "died" if isinstance(error, RayActorError) else "failed"
            who = self._sizes.name_worker(worker)
            raise WorkerError(f"{who} {what} {when}: {error}") from error

    def _check_deadlines(self) -> None:
        now = time.monotonic()
        pending = self._pending.items()
        late = {ref: worker for ref, worker in pending if self._team(worker).deadline < now}
        for ref in wait(late, len(late), 0) if late else ():
            del late[ref]  # has arrived; nobody has needed it yet
        if late:
            names = ", ".join(map(self._sizes.name_worker, sorted(late.values())))
            raise WorkerError(f"{names} still busy after timeout={self._job.timeout:g} s")

    def _team(self, worker: int) -> Team:
        return self.teams[worker // len(self.teams[0].workers)]

    def _require_session(self) -> None:
        if not self._session.is_alive:
            raise WorkerError(
                "the Ray session has ended, and the actors with it: close the vectorized "
                "environment before ray.shutdown()"
            )

    def close(self, timeout: float) -> list[str]:
        """End all actors; messages of environments whose `close` raised or hung."""
        atexit.unregister(self._finalizer)
        self._ending.timeout, self._ending.is_asked = timeout, True
        return self._finalizer() or []
