"""Environments in worker processes that share one set of buffers with the driver."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import pickle
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from multiprocessing import connection, reduction, util
from multiprocessing.context import BaseContext
from multiprocessing.synchronize import Semaphore
from typing import Any

import cloudpickle
import numpy as np
from numpy.typing import NDArray

from pufferlib import exceptions
from pufferlib.buffers import Buffers
from pufferlib.exceptions import APIUsageError, WorkerError
from pufferlib.vector.base import Creator, Infos, State, VecEnv
from pufferlib.vector.group import Description, require_equal
from pufferlib.vector.shared import (
    PATIENCE,
    Command,
    SharedBlock,
    Status,
    acquire,
    create_block,
)
from pufferlib.vector.sizes import Sizes
from pufferlib.vector.worker import Plan, block_layout, work

# Seconds that environments get to close before their process is killed.
CLOSE_TIMEOUT = 5.0


class Multiprocessing(VecEnv):
    """Steps environments in `num_workers` processes; see `make` for the arguments.

    Batches are views of the shared buffers unless `zero_copy=False` lets any workers that finished
    first make a batch, which is then gathered by a copy. Driver and workers wait by spinning a
    bounded number of times, giving the core away at each, and then on a semaphore.
    """

    def __init__(
        self,
        creators: Sequence[Creator],
        *,
        num_workers: int | str | None = None,
        batch_size: int | None = None,
        zero_copy: bool = True,
        seed: int | None = 0,
        context: str | BaseContext | None = None,
        copy: bool = False,
    ) -> None:
        sizes = Sizes.parallel(len(creators), num_workers, batch_size, zero_copy)
        self._workers = Workers(creators, sizes, seed, _resolve_context(context))
        description = self._workers.description
        super().__init__(description, sizes.num_envs, sizes.batch_size, seed, copy)
        self.num_workers = sizes.num_workers
        self._sizes = sizes
        self._agents_per_worker = sizes.envs_per_worker * description.num_agents
        self._env_ids = np.arange(self.num_agents)
        self._env_ids.flags.writeable = False
        self._gather = not zero_copy and sizes.workers_per_batch not in (1, sizes.num_workers)
        self._batch: list[int] = []
        if self._gather:
            self._gathered = Buffers.allocate(
                self.single_observation_space,
                self.single_action_space,
                self.agents_per_batch,
                final=self._workers.buffers.final_observations is not None,
            )
        else:
            self._blocks = self._make_blocks()

    def _make_blocks(self) -> dict[int, tuple[list[int], Buffers, NDArray[np.int64]]]:
        """The fixed batches by their first worker: workers, rows and agent indices."""
        size, blocks = self._sizes.workers_per_batch, {}
        for first in range(0, self.num_workers, size):
            start, stop = (w * self._agents_per_worker for w in (first, first + size))
            rows = self._workers.buffers.view(start, stop)
            blocks[first] = (list(range(first, first + size)), rows, self._env_ids[start:stop])
        return blocks

    # -- the backend's part of the contract --------------------------------------------------

    def _start_reset(
        self, seeds: list[int | None], base: Any, options: dict[str, Any] | None
    ) -> None:
        with self._closing_on_failure():
            self._workers.drain()
            size = self._sizes.envs_per_worker
            for worker in range(self.num_workers):
                part = seeds[worker * size : (worker + 1) * size]
                self._workers.command(worker, Command.RESET, (part, _base_seed(base), options))

    def _start_step(self, actions: NDArray[Any]) -> None:
        n = self._agents_per_worker
        if self._gather:
            for i, worker in enumerate(self._batch):
                self._workers.buffers.actions[worker * n : (worker + 1) * n] = actions[
                    i * n : (i + 1) * n
                ]
        else:
            self._blocks[self._batch[0]][1].actions[...] = actions
        for worker in self._batch:
            self._workers.command(worker, Command.STEP)

    def _receive(self) -> tuple[Buffers, Infos, NDArray[np.int64]]:
        with self._closing_on_failure():
            if self._gather:
                self._batch = self._workers.wait_any(self._sizes.workers_per_batch)
                infos = self._workers.collect(self._batch)
                return (*self._gather_rows(infos),)
            first = self._workers.wait_block(self._sizes.workers_per_batch)
            self._batch, rows, env_ids = self._blocks[first]
            return rows, self._workers.collect(self._batch), env_ids

    def _gather_rows(self, infos: Infos) -> tuple[Buffers, Infos, NDArray[np.int64]]:
        n = self._agents_per_worker
        env_ids = np.empty(self.agents_per_batch, np.int64)
        for i, worker in enumerate(self._batch):
            part, source = slice(i * n, (i + 1) * n), slice(worker * n, (worker + 1) * n)
            env_ids[part] = self._env_ids[source]
            for target, rows in zip(
                self._gathered.arrays(), self._workers.buffers.arrays(), strict=True
            ):
                if target is not None and rows is not None:
                    target[part] = rows[source]
        return self._gathered, infos, env_ids

    def _on_env(self, index: int, verb: str, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        worker, i = divmod(index, self._sizes.envs_per_worker)
        with self._closing_on_failure():
            kind, *content = self._workers.ask(worker, (i, verb, args, kwargs))
        if kind == "raised":
            raise content[0]
        if kind == "error":
            raise _to_error(*content)
        return content[0]

    def _close(self) -> None:
        failures = self._workers.close()
        if failures:
            raise WorkerError("\n".join(failures))

    @contextlib.contextmanager
    def _closing_on_failure(self) -> Iterator[None]:
        """A failed worker ends the whole vecenv: the others are closed before the error leaves."""
        try:
            yield
        except WorkerError:
            self._state = State.CLOSED
            self._workers.close()
            raise


class Workers:
    """The processes, and who of them is busy.

    Raises:
        WorkerError: an environment's constructor raised, or a process died while starting.
        APIUsageError: environments differ, or do not speak the contract.
    """

    def __init__(
        self, creators: Sequence[Creator], sizes: Sizes, seed: int | None, context: BaseContext
    ) -> None:
        self.sizes = sizes
        self._ready: Semaphore = context.Semaphore(0)
        self._go: list[Semaphore] = [context.Semaphore(0) for _ in range(sizes.num_workers)]
        self._pipes: list[connection.Connection] = []
        self._processes: list[Any] = []
        # Workers with a command whose result has not been collected, oldest command first.
        self._busy: dict[int, None] = {}
        # Infos that had to be read before their batch was due.
        self._early: dict[int, Any] = {}
        # Wake-ups that belong to results which were seen before their semaphore was taken.
        self._owed = 0
        self._next_check = 0.0
        # Runs at interpreter exit before multiprocessing joins its children, or when we are freed.
        self._ending = _Ending(self._processes, self._pipes, self._go)
        self._finalizer = util.Finalize(self, self._ending.run, exitpriority=100)
        try:
            self._start(creators, seed, context)
            self.description = self._describe()
            self._share_memory()
        except BaseException:
            self.close()
            raise

    def _start(self, creators: Sequence[Creator], seed: int | None, context: BaseContext) -> None:
        size = self.sizes.envs_per_worker
        for worker in range(self.sizes.num_workers):
            first = worker * size
            plan = Plan(
                creators[first : first + size],
                worker,
                first,
                self.sizes.num_workers,
                self.sizes.num_envs,
                seed,
            )
            pipe, theirs = context.Pipe()
            process = context.Process(  # type: ignore[attr-defined]
                target=work,
                args=(plan, theirs, self._go[worker], self._ready),
                name=f"pufferlib-worker-{worker}",
                daemon=True,
            )
            self._pipes.append(pipe)
            process.start()
            self._processes.append(process)
            theirs.close()  # so that the pipe ends with the worker

    def _describe(self) -> Description:
        descriptions = []
        for worker in range(self.sizes.num_workers):
            message = self._read(worker, "while making its environments")
            if message[0] == "error":
                raise _to_error(*message[1:])
            descriptions.append(message[1])
            require_equal(descriptions[0], message[1], worker * self.sizes.envs_per_worker)
        return descriptions[0]

    def _share_memory(self) -> None:
        layout = block_layout(self.description, self.sizes.num_envs)
        fd = create_block(SharedBlock.nbytes(layout, self.sizes.num_workers))
        block = SharedBlock(fd, layout, self.sizes.num_workers)
        self.buffers = block.buffers
        self._commands = self._ending.commands = block.commands
        self._statuses = block.statuses
        try:
            for worker, pipe in enumerate(self._pipes):
                with self._naming_the_dead(worker, "before it was given its memory"):
                    pipe.send("memory")
                    reduction.send_handle(pipe, fd, self._processes[worker].pid)
        finally:
            os.close(fd)

    # -- commands and results ----------------------------------------------------------------

    def command(self, worker: int, command: int, payload: Any = None) -> None:
        """Let `worker` begin; its result must be collected before the next command."""
        self._busy[worker] = None
        self._post(worker, command, payload)

    def _post(self, worker: int, command: int, payload: Any = None) -> None:
        self._commands[worker] = command
        self._go[worker].release()
        if payload is not None:
            with self._naming_the_dead(worker, "before its next command"):
                self._pipes[worker].send_bytes(cloudpickle.dumps(payload))

    def wait_block(self, size: int) -> int:
        """First worker of the first block of `size` neighbours that have all finished."""
        statuses = self._statuses
        self._check_now_and_then()
        while True:
            for first in self._busy:
                if first % size:
                    continue
                if all(statuses[worker] for worker in range(first, first + size)):
                    return first
            self._wait()

    def wait_any(self, count: int) -> list[int]:
        """The first `count` workers that have finished."""
        self._check_now_and_then()
        while True:
            finished = [worker for worker in self._busy if self._statuses[worker]]
            if len(finished) >= count:
                return finished[:count]
            self._wait()

    def collect(self, workers: Sequence[int]) -> Infos:
        """The infos of finished `workers`, which may be commanded again afterwards.

        Raises:
            WorkerError: one of them failed.
        """
        infos: Infos = []
        for worker in workers:
            status = self._statuses[worker]
            self._statuses[worker] = Status.BUSY
            del self._busy[worker]
            if status == Status.HAS_MESSAGE:
                infos += self._infos(worker)
        self._owed += len(workers)
        while self._owed and self._ready.acquire(False):
            self._owed -= 1
        return infos

    def drain(self) -> None:
        """Wait for all that is in flight and drop it."""
        while self._busy:
            self.collect(self.wait_any(1))

    def _infos(self, worker: int) -> Infos:
        kind, *content = self._early.pop(worker, None) or self._read(worker, "while it sent infos")
        if kind == "error":
            raise _to_error(*content)
        return content[0]  # type: ignore[no-any-return]

    def ask(self, worker: int, request: Any) -> Any:
        """The answer to a call on one of `worker`'s environments, once it is not busy.

        Raises:
            Exception: what the call raised.
        """
        while worker in self._busy and not self._statuses[worker]:
            self._wait()
        has_message = worker in self._busy and self._statuses[worker] == Status.HAS_MESSAGE
        if has_message and worker not in self._early:
            self._early[worker] = self._read(worker, "while it sent infos")
        self._post(worker, Command.CALL, request)
        return self._read(worker, "during a call")

    def _wait(self) -> None:
        """Sleep until some worker has finished, or raise if a busy one has died."""
        acquire(self._ready, self._check_alive)
        self._owed -= 1

    # -- life and death ----------------------------------------------------------------------

    def _check_now_and_then(self) -> None:
        """A pool goes on without a dead worker, so look even if nobody waits for it."""
        now = time.monotonic()
        if now > self._next_check:
            self._next_check = now + 1.0
            self._check_alive()

    def _check_alive(self) -> None:
        for worker in self._busy:
            if not self._processes[worker].is_alive() and not self._statuses[worker]:
                raise self._death(worker, "while it was busy")

    def _death(self, worker: int, when: str) -> WorkerError:
        process = self._processes[worker]
        process.join(1)
        size = self.sizes.envs_per_worker
        first, last = worker * size, (worker + 1) * size - 1
        envs = f"environment {first}" if size == 1 else f"environments {first} to {last}"
        return WorkerError(
            f"worker {worker} ({envs}) died {when}: {_describe_exit(process.exitcode)}"
        )

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
            return pickle.loads(pipe.recv_bytes())  # noqa: S301 - from our own worker

    def close(self) -> list[str]:
        """End all workers; messages of environments whose `close` raised."""
        self._busy.clear()
        return self._finalizer() or []


class _Ending:
    """Ends the workers; holds no reference to the vecenv, so that it can run after it."""

    def __init__(
        self, processes: list[Any], pipes: list[connection.Connection], go: list[Semaphore]
    ) -> None:
        self.processes, self.pipes, self.go = processes, pipes, go
        self.commands: memoryview | None = None

    def run(self) -> list[str]:
        """Ask every worker to close, wait for it, and kill those that do not."""
        failures: list[str] = []
        try:
            for worker in range(len(self.processes)):
                self._ask_to_close(worker)
            self._wait(failures, time.monotonic() + CLOSE_TIMEOUT)
        finally:
            for process in self.processes:
                if process.is_alive():
                    process.kill()
                process.join()
            for pipe in self.pipes:
                pipe.close()
        return failures

    def _ask_to_close(self, worker: int) -> None:
        if self.commands is not None:
            self.commands[worker] = Command.CLOSE
            self.go[worker].release()
            return
        with contextlib.suppress(OSError):  # dead already
            self.pipes[worker].send("close")

    def _wait(self, failures: list[str], deadline: float) -> None:
        """Read what workers still send, so that none blocks on a full pipe, until all ended."""
        pipes = dict(zip(self.pipes, self.processes, strict=False))
        while pipes and (left := deadline - time.monotonic()) > 0:
            for pipe in connection.wait(list(pipes), timeout=left):
                try:
                    message = pickle.loads(pipe.recv_bytes())  # type: ignore[union-attr]  # noqa: S301
                except (EOFError, OSError):
                    del pipes[pipe]  # type: ignore[arg-type]
                else:
                    if message[0] == "closing failed":
                        failures.append(message[1])
        for process in self.processes:
            process.join(max(0.0, deadline - time.monotonic()))


def _to_error(name: str, text: str) -> Exception:
    return getattr(exceptions, name)(text)  # type: ignore[no-any-return]


def _base_seed(seed: Any) -> Any:
    """What the workers' global generators are seeded from, or None to let them go on."""
    if seed is None or isinstance(seed, int):
        return seed
    return int(seed) if isinstance(seed, np.integer) else [int(s) for s in seed]


def _resolve_context(context: str | BaseContext | None) -> BaseContext:
    """The start method: as asked, else as the user's program has set it, else the fastest safe."""
    if getattr(multiprocessing.current_process(), "_inheriting", False):
        raise APIUsageError(
            "vector.make() ran while a worker process was importing the main script: put the "
            "script's code under `if __name__ == '__main__':`"
        )
    if isinstance(context, BaseContext):
        return context
    chosen = context or multiprocessing.get_start_method(allow_none=True)
    return multiprocessing.get_context(chosen or ("fork" if sys.platform == "linux" else "spawn"))


def _describe_exit(code: int | None) -> str:
    if code is None:
        return "its pipe closed"
    if code >= 0:
        return f"exit code {code}"
    name = signal.Signals(-code).name
    return f"signal {name}" + (" (out of memory?)" if name == "SIGKILL" else "")
