"""One policy trained by several processes, each with its share of the environments.

`torchrun` starts the processes; every one of them collects its share of a batch, and they learn
together: each optimizer step follows the mean loss over the samples of all, as one process with all
environments would.

Gradients are added up by one plain all-reduce of a single flat tensor, after the backward passes of
an optimizer step. `DistributedDataParallel` was left out on purpose:

- It averages over processes. Here processes have unequal numbers of valid samples, and a mean over
  samples must weigh them: each process scales its loss by its share, and gradients are summed.
- It works through `forward` of a wrapper. Policies here are also called without gradients, a step
  at a time with a recurrent state, by name (`encode_observations`), and are saved and exported.
- Parameters without a gradient need `find_unused_parameters`, accumulation needs `no_sync`, and a
  process that has no sample for a minibatch needs `join`. The flat tensor needs none of the three.

What it would gain, that communication overlaps the backward pass, matters for policies that are
far larger than those that play at a hundred thousand steps per second.

All decisions (how many minibatches, the end, the learning rate) come from numbers that every
process has bit for bit: sums over all, or what the first one says. Nobody therefore waits for a
step that another does not take. A process that fails ends, which closes its connections; the others
then fail with `GroupError`, and `torchrun` ends those that are busy elsewhere.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor, distributed, nn

from pufferlib.exceptions import ConfigError, GroupError

T = TypeVar("T")

TIMEOUT = timedelta(minutes=10)
"""How long a process waits for the slowest: a reset, a compilation, a checkpoint on a slow disk."""
VARIABLES = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
"""What `torchrun` sets for every process."""


@dataclass(frozen=True)
class Group:
    """The processes of a run, and which of them this one is. By default it is the only one.

    Every method that exchanges something must be called by all processes, in the same order; with
    one process it returns at once.

    Attributes:
        rank: number of this process, from 0.
        size: number of processes.
        local_rank, local_size: the same among those of this machine.

    Raises (from every exchange):
        GroupError: another process has ended, or has not come for ten minutes.
    """

    rank: int = 0
    size: int = 1
    local_rank: int = 0
    local_size: int = 1

    @property
    def is_main(self) -> bool:
        """Whether this is the first process, which alone shows, logs and saves."""
        return self.rank == 0

    def own_seed(self, seed: int) -> int:
        """A seed of this process: `seed` itself for the first one, children of it for others."""
        if self.is_main:
            return seed
        child = np.random.SeedSequence(seed, spawn_key=(0, self.rank))
        return int(child.generate_state(1)[0]) & 0x7FFFFFFF

    def share(self, items: Sequence[T]) -> Sequence[T]:
        """This process's part of `items`, whose number is a multiple of `size`."""
        count = len(items) // self.size
        return items[self.rank * count : (self.rank + 1) * count]

    def gather(self, value: T) -> list[T]:
        """What every process has given, in order; pickled on the way."""
        values: list[Any] = [value] * self.size
        if self.size > 1:
            with self._exchange():
                distributed.all_gather_object(values, value)
        return values

    def from_main(self, value: T) -> T:
        """The value of the first process; pickled on the way."""
        values = [value]
        if self.size > 1:
            with self._exchange():
                distributed.broadcast_object_list(values, src=0)
        return values[0]

    def add_up(self, tensor: Tensor) -> Tensor:
        """`tensor`, in place the sum of those of all processes, bit-equal everywhere."""
        if self.size > 1:
            with self._exchange():
                distributed.all_reduce(tensor)
        return tensor

    def add_counts(self, count: int) -> int:
        """The sum of the counts of all processes."""
        return count if self.size == 1 else int(self.add_up(torch.tensor(count)))

    def copy_from_main(self, tensors: Iterable[Tensor]) -> None:
        """Overwrite each tensor by that of the first process."""
        if self.size > 1:
            with self._exchange():
                for tensor in tensors:
                    distributed.broadcast(tensor.detach(), src=0)

    def require_equal(self, what: str, value: Mapping[str, Any]) -> None:
        """Raise `ConfigError` in every process if one of them has another `value`."""
        for rank, other in enumerate(self.gather(dict(value))):
            unequal = [key for key in {**value, **other} if value.get(key) != other.get(key)]
            if unequal:
                raise ConfigError(
                    f"{what}: expected the same in all processes, but {', '.join(unequal)} differ "
                    f"between process {self.rank} and process {rank}; give all the same command"
                )

    @contextmanager
    def _exchange(self) -> Iterator[None]:
        try:
            yield
        except RuntimeError as error:
            raise GroupError(
                f"process {self.rank} of {self.size} cannot go on: another one has ended, or has "
                f"not come for {TIMEOUT}; what it wrote says why ({error})"
            ) from error


ALONE = Group()
"""The group of a process without others."""


def group_of(environ: Mapping[str, str]) -> Group:
    """The group that `torchrun` has described in these environment variables.

    Raises:
        ConfigError: some are set and others are missing or no numbers.
    """
    if environ.get("WORLD_SIZE", "1") == "1":
        return ALONE
    missing = [name for name in VARIABLES if name not in environ]
    if missing:
        raise ConfigError(
            f"WORLD_SIZE={environ['WORLD_SIZE']} says that there are several processes, but "
            f"{', '.join(missing)} are not set; start them with "
            "torchrun --nproc-per-node N -m pufferlib train ENV, or unset WORLD_SIZE"
        )
    try:
        rank, size, local_rank, local_size = (int(environ[name]) for name in VARIABLES[:4])
    except ValueError as error:
        raise ConfigError(f"{', '.join(VARIABLES[:4])}: expected numbers ({error})") from error
    return Group(rank, size, local_rank, local_size)


@contextmanager
def connected(group: Group, device: str) -> Iterator[None]:
    """While this is open, the processes of `group` can exchange.

    Numbers travel by gloo, and gradients on GPUs by NCCL. Each process has the GPU of its local
    rank. A process that leaves by an exception does not wait for the others.

    Args:
        group: from `group_of`.
        device: `train.device`; 'auto' and 'cuda' are the GPU of this process, where there are any.

    Raises:
        ConfigError: there are fewer GPUs than processes, or one was named for all.
        GroupError: the others did not come.
    """
    if group.size == 1:
        yield
        return
    on_gpu = _take_gpu(group, device)
    backend = "cpu:gloo,cuda:nccl" if on_gpu else "gloo"
    # Optimizers import this. Whoever does while there is a group keeps that for ever in default
    # arguments, and a thread of it that lets go of a tensor while Python ends aborts the process.
    importlib.import_module("torch.distributed.nn.functional")
    with group._exchange():
        distributed.init_process_group(
            backend, rank=group.rank, world_size=group.size, timeout=TIMEOUT
        )
    yield
    distributed.destroy_process_group()


def _take_gpu(group: Group, device: str) -> bool:
    """Make the GPU of this process the current one; False where the run is on the CPU."""
    if device == "cpu" or (device == "auto" and not torch.cuda.is_available()):
        return False
    if device not in ("auto", "cuda"):
        raise ConfigError(
            f"train.device: expected 'auto', 'cpu' or 'cuda' with several processes, of which each "
            f"has a GPU of its own, got {device!r}"
        )
    gpus = torch.cuda.device_count()
    if gpus < group.local_size:
        raise ConfigError(
            f"expected a GPU for each of the {group.local_size} processes of this machine, got "
            f"{gpus}; start as many with --nproc-per-node, or set train.device cpu"
        )
    torch.cuda.set_device(group.local_rank)
    return True


def add_gradients(group: Group, parameters: Iterable[nn.Parameter], numbers: Tensor) -> Tensor:
    """Let every gradient be the sum of those of all processes; returns that of `numbers` `(n,)`.

    A parameter has a gradient afterwards if it has one in any process: optimizers leave alone those
    that have none.
    """
    trained = [parameter for parameter in parameters if parameter.requires_grad]
    has = torch.tensor([float(p.grad is not None) for p in trained], device=numbers.device)
    pieces = [torch.zeros_like(p) if p.grad is None else p.grad for p in trained]
    flat = torch.cat([numbers, has, *(piece.reshape(-1) for piece in pieces)])
    group.add_up(flat)
    numbers, has, summed = flat.split([len(numbers), len(trained), sum(p.numel() for p in trained)])
    parts = summed.split([p.numel() for p in trained])
    for parameter, part, count in zip(trained, parts, has.tolist(), strict=True):
        parameter.grad = part.view_as(parameter).to(parameter.dtype) if count else None
    return numbers
