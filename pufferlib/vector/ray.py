"""Environments in Ray actors, on as many machines as the Ray cluster has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pufferlib.exceptions import APIUsageError
from pufferlib.vector.backend import Creator
from pufferlib.vector.demands import one_per_process
from pufferlib.vector.parallel import Parallel
from pufferlib.vector.ray_actors import Actors
from pufferlib.vector.ray_handles import ActorJob
from pufferlib.vector.ray_session import Session
from pufferlib.vector.sizes import Sizes

# Actors go to all nodes in turn. By Ray's default one is placed where a CPU is free, and then
# reserves none: there may be more actors than CPUs.
OPTIONS = {"scheduling_strategy": "SPREAD"}


class Ray(Parallel):
    """Steps environments in `num_workers` Ray actors; see `make` for the arguments.

    For environments that need many machines: a command to an actor takes a large part of a
    millisecond, `Multiprocessing` a few microseconds. Results are copied into the driver's buffers
    as they arrive; what is returned are views of these, as on every backend.

    Uses the Ray session that the program has begun with `ray.init`, and leaves it alone; without
    one it begins its own, which ends when the last vecenv is closed.

    With `restart`, a new actor takes the place of one that died or hangs, wherever there is room.
    The death of a whole machine is found when Ray finds it, which takes it up to half a minute.

    `context` are options of the actors, such as `{"num_cpus": 1, "resources": {"simulator": 1}}`;
    `num_workers='auto'` is one per CPU of the cluster.
    """

    def __init__(
        self,
        creators: Sequence[Creator],
        *,
        num_workers: int | str | None = None,
        batch_size: int | None = None,
        zero_copy: bool = True,
        seed: int | None = 0,
        context: Mapping[str, Any] | None = None,
        copy: bool = False,
        timeout: float | None = None,
        restart: int = 0,
    ) -> None:
        if not isinstance(context, Mapping | None):
            raise APIUsageError(
                "context: expected None or a dict of options for Ray actors, such as "
                f"{{'num_cpus': 1}}, got {context!r}"
            )
        session = Session()
        try:
            sizes = Sizes.parallel(
                len(creators),
                num_workers,
                batch_size,
                zero_copy,
                cores=session.cores,
                one_each=one_per_process(creators),
            )
        except BaseException:
            session.leave()
            raise
        team_size = sizes.team_size(zero_copy)
        job = ActorJob(creators, sizes, seed, restart, OPTIONS | dict(context or {}), timeout)
        super().__init__(Actors(job, team_size, session), sizes, team_size, seed, copy)
        self._restart = restart
