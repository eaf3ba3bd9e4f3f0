"""How Ray actors end: asked first, killed after a while, and never forgotten."""

from __future__ import annotations

import time
import warnings
from typing import Any

import ray
from ray.exceptions import RayError

from pufferlib.vector.backend import CLOSE_TIMEOUT
from pufferlib.vector.messages import describe_late
from pufferlib.vector.ray_session import Session, wait
from pufferlib.vector.sizes import Sizes


class Ending:
    """Ends the actors; holds no reference to the vecenv, so that it can run after it.

    Args:
        actors: filled as they start.

    Attributes:
        timeout: seconds that environments get to close.
        is_asked: somebody called `close` and will be told what failed. A vecenv that was dropped,
            or that the program left open, warns instead.
    """

    def __init__(self, actors: list[Any], session: Session, sizes: Sizes) -> None:
        self.actors, self.session, self.sizes = actors, session, sizes
        self.timeout = CLOSE_TIMEOUT
        self.is_asked = False

    def run(self) -> list[str]:
        """Ask every actor to close, wait for it, and kill all; what went wrong."""
        failures: list[str] = []
        try:
            if self.session.is_alive:
                self._close(failures)
        finally:
            self._kill()
            self.session.leave()
        if not self.is_asked:
            for failure in failures:
                warnings.warn(failure, RuntimeWarning, stacklevel=2)
        return failures

    def _close(self, failures: list[str]) -> None:
        deadline = time.monotonic() + self.timeout
        method = {"num_returns": "streaming"}
        told: dict[Any, int] = {
            actor.close.options(**method).remote(): i for i, actor in enumerate(self.actors)
        }
        closing: dict[int, int] = {}
        while told and (left := deadline - time.monotonic()) > 0:
            for stream in wait(told, 1, left):
                try:
                    kind, content = ray.get(next(stream))
                except (StopIteration, RayError):  # done, or dead already
                    del told[stream]
                    continue
                if kind == "closing":
                    closing[told[stream]] = content
                else:
                    failures.append(content)
        name = self.sizes.name_worker
        failures += [describe_late(name(i), closing.get(i), self.timeout) for i in told.values()]

    def _kill(self) -> None:
        if self.session.is_alive:
            for actor in self.actors:
                ray.kill(actor)
        self.actors.clear()
