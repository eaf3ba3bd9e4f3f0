"""The Ray actors as such: how they start, what they answer, and that they died."""

from __future__ import annotations

import pickle
import time
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import ray
from ray.exceptions import RayActorError, RayError

from pufferlib.exceptions import APIUsageError, WorkerError
from pufferlib.vector.group import Description, require_equal
from pufferlib.vector.messages import to_error
from pufferlib.vector.ray_actor import Actor
from pufferlib.vector.ray_session import Session, wait
from pufferlib.vector.service import Job
from pufferlib.vector.shared import PATIENCE

# Seconds after which the user is told that Ray has perhaps no room for the actors.
PLACING_SECONDS = 30.0


@dataclass(frozen=True)
class ActorJob(Job):
    """A job for actors with Ray's `options`; `timeout` as in `make`."""

    options: Mapping[str, Any]
    timeout: float | None

    def actor_class(self) -> Any:
        """What makes actors that may be placed as the options say.

        Raises:
            APIUsageError: Ray does not know an option.
        """
        try:
            return ray.remote(Actor).options(**self.options)
        except (TypeError, ValueError) as error:
            raise APIUsageError(f"context: no options for Ray actors: {error}") from error


class Handles:
    """A handle per actor.

    Attributes:
        actors: by worker, as far as they have started.
    """

    def __init__(self, job: ActorJob, session: Session) -> None:
        self._job, self._session = job, session
        self.actors: list[Any] = []

    def start_all(self) -> Description:
        """Start all and let them make their environments; the first one's description.

        Raises:
            WorkerError: an environment's constructor raised, or an actor died.
            APIUsageError: environments differ, do not speak the contract, or cannot be pickled.
        """
        begun = {self._start(worker): worker for worker in range(self._job.sizes.num_workers)}
        descriptions = self._describe(begun)
        for worker in range(len(self.actors)):
            self._require_equal(descriptions[0], descriptions[worker], worker)
        return descriptions[0]

    def replace(self, worker: int, expected: Description) -> None:
        """Start a new actor in the place of one that has died or hangs; raises as `start_all`."""
        ray.kill(self.actors[worker])
        begun = {self._start(worker): worker}
        self._require_equal(expected, self._describe(begun)[worker], worker)

    def _start(self, worker: int) -> ray.ObjectRef:
        plan = pickle.dumps(self._job.plan(worker))
        # Known before it has begun, so that it ends whatever comes in between.
        self.actors[worker : worker + 1] = [self._job.actor_class().remote()]
        return self.actors[worker].begin.remote(plan)

    def _require_equal(self, first: Description, other: Description, worker: int) -> None:
        require_equal(first, other, worker * self._job.sizes.envs_per_worker)

    def _describe(self, begun: dict[ray.ObjectRef, int]) -> dict[int, Description]:
        """What the actors' environments are, by worker, when all have been made."""
        descriptions: dict[int, Description] = {}
        late = time.monotonic() + PLACING_SECONDS
        while begun:
            for ref in self.await_first(begun, len(begun)):
                worker = begun.pop(ref)
                kind, *content = pickle.loads(self.get(worker, ref, "while it began"))
                if kind == "error":
                    raise to_error(*content)
                descriptions[worker] = content[0]
            if begun and time.monotonic() > late:
                late = float("inf")
                self._warn_of_waiting(len(begun))
        return descriptions

    def _warn_of_waiting(self, count: int) -> None:
        free = {k: v for k, v in ray.available_resources().items() if not k.startswith("node:")}
        warnings.warn(
            f"{count} of {self._job.sizes.num_workers} workers have not begun after "
            f"{PLACING_SECONDS:g} s: their environments take long to make, or Ray has no room for "
            f"actors with {self._job.options} (free in the cluster: {free}); still waiting",
            RuntimeWarning,
            stacklevel=7,
        )

    def await_first(self, refs: Mapping[ray.ObjectRef, int], count: int) -> list[ray.ObjectRef]:
        """The first `count` of `refs`, or fewer after a while: one may have failed.

        Raises:
            WorkerError: the session has ended.
        """
        self.require_session()
        return wait(refs, count, PATIENCE)

    def get(self, worker: int, ref: ray.ObjectRef, when: str) -> Any:
        """What has arrived from `worker`.

        Raises:
            WorkerError: the actor died, `when` it did what is got.
        """
        try:
            return ray.get(ref)
        except RayError as error:
            what = "died" if isinstance(error, RayActorError) else "failed"
            who = self._job.sizes.name_worker(worker)
            raise WorkerError(f"{who} {what} {when}: {error}") from error

    def require_session(self) -> None:
        """Raise WorkerError if the session has ended."""
        if not self._session.is_alive:
            raise WorkerError(
                "the Ray session has ended, and the actors with it: close the vectorized "
                "environment before ray.shutdown()"
            )
