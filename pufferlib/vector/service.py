"""What a worker does with its environments, however its commands and results travel."""

from __future__ import annotations

import os
import random
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import cloudpickle
import numpy as np

from pufferlib.buffers import Buffers, Layout
from pufferlib.exceptions import APIUsageError
from pufferlib.vector.backend import Creator
from pufferlib.vector.group import Description, Ledger
from pufferlib.vector.messages import dumps, to_message, to_raised
from pufferlib.vector.restarting import RestartingGroup, make_group
from pufferlib.vector.sizes import Sizes

# Native libraries would start a thread per core in every worker.
THREAD_VARIABLES = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "NUMEXPR_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
)


@dataclass
class Plan:
    """What a worker needs to know to begin; pickled with cloudpickle unless it is forked."""

    creators: Sequence[Creator]
    worker: int
    first_index: int
    num_workers: int
    num_envs: int
    seed: int | None
    restart: int

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


def seed_globals(seed: int | Sequence[int] | None, worker: int) -> None:
    """Give this process's global generators a stream of their own."""
    sequence = np.random.SeedSequence(seed, spawn_key=(worker, 1))
    words = [int(word) for word in sequence.generate_state(3)]
    random.seed(words[0])
    np.random.seed(words[1])  # noqa: NPY002 - environments that use the global generator exist
    if "torch" in sys.modules:
        sys.modules["torch"].manual_seed(words[2])


def use_one_thread() -> None:
    """Keep native libraries, unless the user has set them otherwise, to one thread."""
    for variable in THREAD_VARIABLES:
        os.environ.setdefault(variable, "1")
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(1)


@dataclass(frozen=True)
class Job:
    """What all workers have in common; see `make`."""

    creators: Sequence[Creator]
    sizes: Sizes
    seed: int | None
    restart: int

    def plan(self, worker: int) -> Plan:
        """The part of one worker."""
        sizes, first = self.sizes, worker * self.sizes.envs_per_worker
        mine = self.creators[first : first + sizes.envs_per_worker]
        return Plan(mine, worker, first, sizes.num_workers, sizes.num_envs, self.seed, self.restart)


class Service:
    """The environments of one worker, and the commands that it obeys.

    Raises:
        WorkerError, APIUsageError: as `EnvGroup`.
    """

    def __init__(self, plan: Plan) -> None:
        seed_globals(plan.seed, plan.worker)
        self._plan = plan
        self.group = make_group(plan.creators, plan.first_index, plan.restart)

    def bind(self, rows: Buffers, ledger: Ledger, lost: bytes | None = None) -> None:
        """Write to `rows`; a pickled `Lost` if they are another worker's that died."""
        if lost is None:
            self.group.bind(rows, ledger)
        else:
            assert isinstance(self.group, RestartingGroup)
            self.group.replace(rows, ledger, cloudpickle.loads(lost))

    def tell(self) -> tuple[Any, ...]:
        """What `bind` in place of another worker has to tell."""
        assert isinstance(self.group, RestartingGroup)
        return "infos", self.group.untold()

    def step(self) -> tuple[Any, ...] | None:
        """Step all; what there is to tell: infos, an error, or None."""
        try:
            infos = self.group.step()
        except Exception as error:
            return to_message(error)
        return ("infos", infos) if infos else None

    def reset(self, payload: bytes) -> tuple[Any, ...] | None:
        """Reset all, with pickled seeds, base seed or None, and options; tells as `step` does."""
        try:
            seeds, base, options = cloudpickle.loads(payload)
            if base is not None:
                seed_globals(base, self._plan.worker)
            infos = self.group.reset(seeds, options)
        except Exception as error:
            return to_message(error)
        return ("infos", infos) if infos else None

    def answer(self, payload: bytes) -> tuple[Any, ...]:
        """The result of a pickled call on one environment, or what it raised."""
        try:
            i, verb, args, kwargs = cloudpickle.loads(payload)
            return "result", getattr(self.group, verb)(i, *args, **kwargs)
        except Exception as error:
            return to_raised(error)

    def pack(self, message: tuple[Any, ...]) -> bytes:
        """`message` for the driver; an error instead if it cannot be pickled."""
        try:
            return dumps(message)
        except Exception as error:
            text = (
                f"{message[0]} of environments {self.group.first_index} to "
                f"{self.group.first_index + len(self.group.envs) - 1} cannot be pickled for the "
                f"driver: {type(error).__name__}: {error}; return plain data, or use "
                "backend=Serial"
            )
            return dumps(("error", "WorkerError", text))


def block_layout(description: Description, num_envs: int) -> Layout:
    """Where the rows of `num_envs` environments lie."""
    return Layout(
        description.observation_space,
        description.action_space,
        num_envs * description.num_agents,
        final=description.autoreset_mode.value == "SameStep",
    )
