"""The environments of one process over one slice of the rows. Knows nothing of processes."""

from __future__ import annotations

import contextlib
import pickle
import random
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from gymnasium.spaces import Space
from gymnasium.vector import AutoresetMode
from numpy.typing import NDArray

from pufferlib import snapshot
from pufferlib.buffers import Buffers
from pufferlib.exceptions import APIUsageError, SnapshotError, WorkerError

Infos = list[dict[str, Any]]


@dataclass(frozen=True)
class Description:
    """What all environments of a vectorized one must share.

    Attributes:
        num_agents: rows of one environment.
    """

    observation_space: Space[Any]
    action_space: Space[Any]
    num_agents: int
    emulated: Any
    autoreset_mode: AutoresetMode


def describe(env: Any, index: int) -> Description:
    """The description of one environment.

    Raises:
        APIUsageError: it does not speak the native contract.
    """
    if not hasattr(env, "bind"):
        raise APIUsageError(
            f"environment {index}: expected a PufferEnv or an emulated environment, got "
            f"{type(env).__name__}; return pufferlib.emulation.GymnasiumPufferEnv(env) or "
            "PettingZooPufferEnv(env) from the creator"
        )
    return Description(
        env.single_observation_space,
        env.single_action_space,
        env.num_agents,
        env.emulated,
        env.autoreset_mode,
    )


def require_equal(first: Description, other: Description, index: int) -> None:
    """Raise unless environment `index` can share buffers with environment 0.

    Raises:
        APIUsageError: names the first difference.
    """
    for name in ("observation_space", "action_space", "num_agents", "autoreset_mode"):
        expected, got = getattr(first, name), getattr(other, name)
        if expected != got:
            raise APIUsageError(
                f"environment {index}: expected {name} {expected} as in environment 0, got {got}; "
                "environments of one vecenv must be alike"
            )


@dataclass(frozen=True)
class Ledger:
    """What is known of a group even if its process never returns.

    Attributes:
        current: one uint32, the index within the group of the environment at work.
        restarts: uint32, how often each environment has been made anew.
    """

    current: memoryview
    restarts: NDArray[np.uint32]


class EnvGroup:
    """Makes, steps and closes a few environments.

    Args:
        creators: functions without arguments, one per environment.
        first_index: the first environment's index in the whole vecenv, for messages.

    Raises:
        WorkerError: a creator raised; the environments made before it are closed.
        APIUsageError: an environment speaks no contract that we know, or differs from the first.
    """

    def __init__(self, creators: Sequence[Callable[[], Any]], first_index: int) -> None:
        self.first_index = first_index
        self.envs: list[Any] = []
        self._creators = creators
        self._seeds: list[int | None] = [None] * len(creators)
        self._steps = 0
        self._rows: list[Any] = []
        self._stepping: list[tuple[int, Callable[[Any], Infos], Any]] = []
        self._current: memoryview | list[int] = [0]  # where nobody looks
        try:
            self._create()
        except BaseException:
            with contextlib.suppress(WorkerError):  # the first error is the one to see
                self.close()
            raise

    def _create(self) -> None:
        for i, creator in enumerate(self._creators):
            try:
                self.envs.append(creator())
            except Exception as error:
                raise self._failure("its constructor", i, error) from error
            other = describe(self.envs[-1], self.first_index + i)
            if i == 0:
                self.description = other
            require_equal(self.description, other, self.first_index + i)

    def bind(self, buffers: Buffers, ledger: Ledger | None = None) -> None:
        """Write to `buffers` from now on, `num_agents` rows for each environment in turn.

        Args:
            ledger: where to write what others should know; None: where nobody looks.
        """
        if ledger is not None:
            self._current = ledger.current
        views = self._views_of(buffers)
        self._rows = [env.bind(view) for env, view in zip(self.envs, views, strict=True)]
        self._stepping = [
            (i, rows.step, view.actions)
            for i, (rows, view) in enumerate(zip(self._rows, views, strict=True))
        ]

    def _views_of(self, buffers: Buffers) -> list[Buffers]:
        """The rows of each environment."""
        n = self.description.num_agents
        return [buffers.view(i * n, (i + 1) * n) for i in range(len(self.envs))]

    def reset(self, seeds: Sequence[int | None], options: dict[str, Any] | None) -> Infos:
        """Reset all environments and write their first rows."""
        self._steps = 0
        infos: Infos = []
        for i, (rows, seed) in enumerate(zip(self._rows, seeds, strict=True)):
            if seed is not None:
                self._seeds[i] = seed
            self._current[0] = i
            try:
                infos += rows.reset(seed, options)
            except Exception as error:
                infos += self._recover_reset(i, error)
        return infos

    def step(self) -> Infos:
        """Step all environments with the actions in the buffers and write the rows that follow."""
        self._steps += 1
        infos: Infos = []
        current = self._current
        for i, step, actions in self._stepping:
            current[0] = i
            try:
                new = step(actions)
            except Exception as error:
                new = self._recover_step(i, error)
            if new:
                infos += new
        return infos

    def _recover_reset(self, i: int, error: Exception) -> Infos:
        """What to tell after the reset of environment `i` raised and its rows were written."""
        raise self._failure("reset", i, error) from error

    def _recover_step(self, i: int, error: Exception) -> Infos:
        """What to tell after a step of environment `i` raised and its rows were written."""
        raise self._failure(f"step {self._steps}", i, error) from error

    def _failure(self, where: str, i: int, error: Exception) -> WorkerError:
        index, seed = self.first_index + i, self._seeds[i]
        text = "".join(traceback.format_exception(error))
        return WorkerError(
            f"environment {index} (seed {seed}) raised {type(error).__name__} in {where}: {error}\n"
            f"{text}"
        )

    def get_state(self, i: int) -> bytes:
        """The state of environment `i` without its rows; see `pufferlib.snapshot`.

        Raises:
            SnapshotError: it cannot be taken.
        """
        rows = self._rows[i]
        if not snapshot.has_state(rows):
            raise SnapshotError(
                f"{type(rows).__name__} has no get_state() and set_state(state), and pickle would "
                "copy the rows that it is bound to"
            )
        return pickle.dumps((self._seeds[i], self._steps, self._is_lost(i), snapshot.take(rows)))

    def set_state(self, i: int, state: bytes) -> None:
        """Let environment `i` go on from a state that `get_state` gave.

        Raises:
            SnapshotError: it is the state of another environment, or of one that had just been
                made anew, for which this group has no rows.
        """
        self._seeds[i], self._steps, lost, taken = pickle.loads(state)
        snapshot.put_back(self._rows[i], taken)
        self._set_lost(i, lost)

    def _is_lost(self, i: int) -> bool:
        """Whether the last row of environment `i` was a lost one; see `RestartingGroup`."""
        return False

    def _set_lost(self, i: int, lost: bool) -> None:
        if lost:
            raise SnapshotError(
                f"environment {self.first_index + i}: its state was taken where it had failed and "
                "been made anew; go on from there with restart=1 or more"
            )

    def get_generators(self, i: int) -> bytes:
        """The global random generators of the process that environment `i` lives in."""
        torch = sys.modules.get("torch")
        states = random.getstate(), np.random.get_state(), torch and torch.get_rng_state()  # noqa: NPY002
        return pickle.dumps(states)

    def set_generators(self, i: int, state: bytes) -> None:
        """The inverse of `get_generators`."""
        python, numpy, torch_state = pickle.loads(state)
        random.setstate(python)
        np.random.set_state(numpy)  # noqa: NPY002 - environments that use the global one exist
        if torch_state is not None and "torch" in sys.modules:
            sys.modules["torch"].set_rng_state(torch_state)

    def get_attr(self, i: int, name: str) -> Any:
        """Attribute `name` of environment `i`, from the outermost layer that has it."""
        return getattr(self._owner(i, name), name)

    def set_attr(self, i: int, name: str, value: Any) -> None:
        """Set it on the outermost layer that has it, else on the innermost."""
        layers = list(snapshot.layers(self.envs[i]))
        owner = next((layer for layer in layers if _has_itself(layer, name)), layers[-1])
        setattr(owner, name, value)

    def call(self, i: int, name: str, *args: Any, **kwargs: Any) -> Any:
        """Call method `name` of environment `i`."""
        return getattr(self._owner(i, name), name)(*args, **kwargs)

    def is_wrapped(self, i: int, kind: type) -> bool:
        """Whether environment `i` has a layer of this class."""
        return any(isinstance(layer, kind) for layer in snapshot.layers(self.envs[i]))

    def _owner(self, i: int, name: str) -> Any:
        for layer in snapshot.layers(self.envs[i]):
            if hasattr(layer, name):
                return layer
        kinds = " > ".join(type(layer).__name__ for layer in snapshot.layers(self.envs[i]))
        raise AttributeError(f"environment {self.first_index + i} ({kinds}) has no {name!r}")

    def close(self) -> None:
        """Close each environment once.

        Raises:
            WorkerError: some environment's close raised; the others are closed by then.
        """
        for _ in self.closing():
            pass

    def closing(self) -> Iterator[int]:
        """`close`, with each environment's index before it is closed."""
        envs, self.envs = self.envs, []
        failures = []
        for i, env in enumerate(envs):
            yield self.first_index + i
            try:
                env.close()
            except Exception as error:
                failures.append(self._failure("close", i, error))
        if failures:
            raise WorkerError("\n".join(str(failure) for failure in failures))


def _has_itself(layer: Any, name: str) -> bool:
    """Whether `layer` has the attribute without forwarding to what it wraps, as PettingZoo does."""
    return hasattr(type(layer), name) or name in getattr(layer, "__dict__", {})
