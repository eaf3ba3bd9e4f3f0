"""New worker processes in the place of those that died."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from multiprocessing.synchronize import Semaphore
from typing import Any

from pufferlib.exceptions import WorkerError
from pufferlib.vector.group import Description, require_equal
from pufferlib.vector.processes import Processes, ProcessJob
from pufferlib.vector.restarting import LastResets, used_up
from pufferlib.vector.shared import Command, SharedBlock, Signals, Status


class Revival:
    """Knows how often workers may still die, and what a new one must be told.

    Args:
        memory: file descriptor of the shared memory; stays open if workers may be replaced.
    """

    def __init__(
        self,
        job: ProcessJob,
        processes: Processes,
        block: SharedBlock,
        signals: Sequence[Signals],
        description: Description,
        memory: int,
    ) -> None:
        self._job, self._processes, self._block = job, processes, block
        self._signals, self._description, self._memory = signals, description, memory
        self._last_resets = LastResets(job.sizes.envs_per_worker)

    def note_reset(self, worker: int, payload: bytes) -> None:
        """Remember what `worker` is reset with."""
        if self._job.restart:
            self._last_resets.note(worker, payload)

    def is_possible(self, worker: int) -> bool:
        """Whether each of the worker's environments may be made anew once more."""
        return int(self._restarts(worker).max()) < self._job.restart

    def _restarts(self, worker: int) -> Any:
        size = self._job.sizes.envs_per_worker
        return self._block.restarts[worker * size : (worker + 1) * size]

    def final_error(self, dead: Sequence[int], at_work: Callable[[int], str]) -> WorkerError:
        """What to raise for workers of which one cannot be replaced."""
        reasons = [self._reason(worker, at_work) for worker in dead]
        if self._job.restart:
            reasons.append(used_up(self._job.restart))
        return WorkerError("\n".join(reasons))

    def _reason(self, worker: int, at_work: Callable[[int], str]) -> str:
        return str(self._processes.death(worker, f"while it was busy with {at_work(worker)}"))

    def revive(self, dead: Sequence[int], at_work: Callable[[int], str], command: int) -> None:
        """Replace those of a team that died; the others have finished their `command`.

        Raises:
            WorkerError: an environment's constructor raised, or a new process died.
        """
        reasons = [self._reason(worker, at_work) for worker in dead]
        # As if the others had taken theirs: the last new one is the last of its team.
        _set(self._signals[dead[0]].others, len(dead) - 1)
        for worker, reason in zip(dead, reasons, strict=True):
            self._replace(worker, reason)
            self._repeat(worker, command)

    def _replace(self, worker: int, reason: str) -> None:
        self._restarts(worker)[...] += 1
        _set(self._signals[worker].go, 0)
        first = worker * self._job.sizes.envs_per_worker
        require_equal(self._description, self._processes.replace(worker), first)
        lost = self._last_resets.lost(worker, reason)
        self._processes.give_memory(worker, self._memory, lost)

    def _repeat(self, worker: int, command: int) -> None:
        """Let a new worker do what the old one did not: a step becomes a lost row."""
        is_reset = command == Command.RESET
        self._block.statuses[worker] = Status.BUSY
        self._block.commands[worker] = Command.RESET if is_reset else Command.TELL
        self._signals[worker].go.release()
        if is_reset:
            self._processes.send(worker, self._last_resets.payload(worker))


def _set(semaphore: Semaphore, tokens: int) -> None:
    """Let `semaphore`, which nobody else uses now, hold so many."""
    while semaphore.acquire(False):
        pass
    for _ in range(tokens):
        semaphore.release()
