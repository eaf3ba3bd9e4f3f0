"""Conformance suites: does an environment, or a vectorized one, keep the contract?

`check_env` and `check_vecenv` raise `APIUsageError` with what was expected, what was found and
where. `rollout` records what a vectorized environment does under fixed actions, so that two
backends, or two versions of an environment, can be compared bit by bit with `require_equal`.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from gymnasium.spaces import Space
from gymnasium.vector import AutoresetMode
from numpy.typing import NDArray

from pufferlib.buffers import Buffers
from pufferlib.environment import check_contract
from pufferlib.exceptions import APIUsageError, SpaceError
from pufferlib.spaces import Mixed, dtype_bounds, joint_space, row_layout
from pufferlib.vector.base import VecEnv

__all__ = ["Rollout", "check_env", "check_vecenv", "require_equal", "rollout"]

MODES = (AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP)


@dataclass(frozen=True)
class Rollout:
    """What `T` steps of `N` agents gave; index 0 of the first axis is the reset.

    Attributes:
        observations: `(T + 1, N, *observation_shape)`.
        rewards: float32 `(T + 1, N)`.
        terminals, truncations, masks: bool `(T + 1, N)`.
        final_observations: like `observations`, zero where nothing was truncated; None unless the
            environments reset in the same step.
    """

    observations: NDArray[Any]
    rewards: NDArray[np.float32]
    terminals: NDArray[np.bool_]
    truncations: NDArray[np.bool_]
    masks: NDArray[np.bool_]
    final_observations: NDArray[Any] | None = None

    @classmethod
    def empty(cls, space: Space[Any], steps: int, num_agents: int, final: bool) -> Rollout:
        """Zeros to be filled."""
        shape, dtype = row_layout(space)
        size = (steps + 1, num_agents)
        rows = [np.zeros(size + shape, dtype) for _ in range(2)]
        a, b, c = (np.zeros(size, bool) for _ in range(3))
        return cls(rows[0], np.zeros(size, np.float32), a, b, c, rows[1] if final else None)

    def put(self, at: Any, *columns: NDArray[Any], final: NDArray[Any] | None = None) -> None:
        """Store observations, rewards, terminals, truncations and masks under index `at`."""
        arrays = (self.observations, self.rewards, self.terminals, self.truncations, self.masks)
        for array, column in zip(arrays, columns, strict=True):
            array[at] = column
        if self.final_observations is not None and final is not None:
            truncated = columns[3]
            final_rows = np.zeros_like(final)
            final_rows[truncated] = final[truncated]
            self.final_observations[at] = final_rows


def require_equal(expected: Rollout, got: Rollout, what: str = "rollouts") -> None:
    """Raise unless two rollouts are equal to the last bit.

    Raises:
        APIUsageError: names the first array, step and agent that differ, with both values.
    """
    for field in fields(Rollout):
        a, b = getattr(expected, field.name), getattr(got, field.name)
        if a is None and b is None:
            continue
        _require(
            a is not None and b is not None and a.shape == b.shape and a.dtype == b.dtype,
            f"{what}: {field.name} have unlike shapes or dtypes",
        )
        different = _bytes(a, 2) != _bytes(b, 2)
        if different.any():
            t, agent, *_ = np.argwhere(different)[0]
            raise APIUsageError(
                f"{what}: {field.name} differ first at step {t}, agent {agent}: expected "
                f"{a[t, agent]}, got {b[t, agent]}"
            )


def rollout(vecenv: VecEnv, steps: int, seed: int | None = 0, actions_seed: int = 0) -> Rollout:
    """Reset and let every agent act `steps` times; its actions depend on agent and step only.

    Works for pools too: batches are sorted by agent, whatever their order. The vectorized
    environment is left open.
    """
    n = vecenv.num_agents
    actions = _sample(vecenv.single_action_space, steps + 1, n, actions_seed)
    final = vecenv.autoreset_mode == AutoresetMode.SAME_STEP
    record = Rollout.empty(vecenv.single_observation_space, steps, n, final)
    times = np.zeros(n, np.int64)
    vecenv.async_reset(seed)
    while True:
        *columns, _, ids, mask = vecenv.recv()
        t = times[ids]
        new = t <= steps
        finals = vecenv.final_observations
        record.put(
            (t[new], ids[new]),
            *(column[new] for column in (*columns, mask)),
            final=None if finals is None else finals[new],
        )
        times[ids] += 1
        if times.min() > steps:
            return record
        vecenv.send(actions[np.minimum(t, steps), ids])


def check_env(env_or_creator: Any, steps: int = 200, seed: int = 0, actions_seed: int = 0) -> None:
    """Check one environment: a `PufferEnv`, an emulated one, or a function that makes either.

    It is bound to buffers between guard rows, filled with one pattern and then with another, and
    played three times from the same seed: values that depend on the pattern were never written.
    Checked are the attributes, the spaces, that only its own rows are written, that a seed decides
    everything, the rows after an episode's end, absent agents, and infos.

    Args:
        env_or_creator: closed afterwards only if this function made it.
        steps: how long to play; should be enough for some episodes to end.

    Raises:
        APIUsageError: the contract is broken.
    """
    made = not hasattr(env_or_creator, "bind") or isinstance(env_or_creator, type)
    env = env_or_creator() if made else env_or_creator
    try:
        _check_attributes(env)
        actions = _sample(env.single_action_space, steps + 1, env.num_agents, actions_seed)
        first = _play(env, actions, seed, pattern=0x5A)
        require_equal(
            first,
            _play(env, actions, seed, pattern=0x5A),
            f"{_name(env)}: two runs from seed {seed}, which must decide everything,",
        )
        require_equal(
            first,
            _play(env, actions, seed, pattern=0xA5),
            f"{_name(env)}: values that were never written, as runs over other garbage show:",
        )
        _check_rows(first, env)
        _check_ignored_actions(env, actions, first, seed, actions_seed)
    finally:
        if made:
            env.close()


def check_vecenv(
    vecenv_or_creator: VecEnv | Callable[[], VecEnv], steps: int = 100, seed: int = 0
) -> None:
    """Check a vectorized environment, or a function that makes one; it is closed afterwards.

    Checked are attributes, shapes and dtypes of all that it returns, the rows after an episode's
    end, the order of calls, that bad actions are refused, that a seed decides everything,
    `driver_env`, `get_attr`, and that `close` may be repeated. It must be new: not yet reset.

    Raises:
        APIUsageError: the contract is broken.
    """
    vecenv = vecenv_or_creator if isinstance(vecenv_or_creator, VecEnv) else vecenv_or_creator()
    with vecenv:
        _check_sizes(vecenv)
        _must_raise(APIUsageError, vecenv.recv, "recv() before a reset")
        _must_raise(APIUsageError, lambda: vecenv.send([]), "send() before a reset")
        _check_batch(vecenv, seed)
        first = rollout(vecenv, steps, seed)
        _check_rows(first, vecenv)
        require_equal(first, rollout(vecenv, steps, seed), f"two runs from seed {seed}")
        _check_refused_actions(vecenv)
    vecenv.close()
    for name, call in (
        ("recv", vecenv.recv),
        ("send", lambda: vecenv.send([])),
        ("reset", vecenv.async_reset),
    ):
        _must_raise(APIUsageError, call, f"{name}() after close()")


# -- one environment -------------------------------------------------------------------------


def _check_attributes(env: Any) -> None:
    for name in ("bind", "reset", "step", "close", "emulated", "autoreset_mode"):
        _require(
            hasattr(env, name),
            f"{_name(env)}: expected {name!r} of the native contract; subclass "
            "pufferlib.PufferEnv, or wrap it in pufferlib.emulation",
        )
    check_contract(env)
    _require(
        env.autoreset_mode in MODES,
        f"{_name(env)}.autoreset_mode: expected NEXT_STEP or SAME_STEP, got {env.autoreset_mode}",
    )


def _play(
    env: Any,
    actions: NDArray[Any],
    seed: int,
    pattern: int,
    others: NDArray[Any] | None = None,
) -> Rollout:
    """Record `env` over rows filled with `pattern`, between guards that must stay as they are.

    Args:
        others: taken in place of `actions` where the row before ended an episode.
    """
    n, steps = env.num_agents, len(actions) - 1
    final = env.autoreset_mode == AutoresetMode.SAME_STEP
    space = env.single_observation_space
    whole = Buffers.allocate(space, env.single_action_space, n + 2, final)
    for array in whole.arrays():
        if array is not None:
            array.view(np.uint8).fill(pattern & 1 if array.dtype == np.bool_ else pattern)
    guards = _guards(whole)
    rows = whole.view(1, n + 1)
    stepper = env.bind(rows)
    record = Rollout.empty(space, steps, n, final)
    for t in range(steps + 1):
        where = f"{_name(env)}.{'reset' if t == 0 else 'step'}(), step {t}"
        if t == 0:
            infos = stepper.reset(seed, None)
        else:
            rows.actions[...] = actions[t - 1]
            if others is not None:
                ended = record.terminals[t - 1] | record.truncations[t - 1]
                rows.actions[ended] = others[t - 1][ended]
            rows.rewards.fill(np.nan)
            infos = stepper.step(rows.actions)
        _check_infos(infos, where)
        record.put(
            t,
            *(rows.observations, rows.rewards, rows.terminals, rows.truncations, rows.masks),
            final=rows.final_observations,
        )
        _require(
            _guards(whole) == guards,
            f"{where}: wrote outside its own rows; write self.observations[...] and the other "
            "bound arrays in place, up to num_agents",
        )
    return record


def _guards(buffers: Buffers) -> list[bytes]:
    """The first and last rows."""
    return [array[[0, -1]].tobytes() for array in buffers.arrays() if array is not None]


def _check_infos(infos: Any, where: str) -> None:
    _require(
        isinstance(infos, list) and all(isinstance(info, dict) for info in infos),
        f"{where}: expected a list of info dicts, empty when there is nothing to tell, got "
        f"{infos!r:.100}",
    )


def _check_ignored_actions(
    env: Any, actions: NDArray[Any], first: Rollout, seed: int, actions_seed: int
) -> None:
    """With NEXT_STEP, the action that is sent on an episode's last row has no effect."""
    if env.autoreset_mode == AutoresetMode.NEXT_STEP:
        others = _sample(env.single_action_space, len(actions), env.num_agents, actions_seed + 1)
        require_equal(
            first,
            _play(env, actions, seed, 0x5A, others),
            f"{_name(env)}: the action on an episode's last row must be ignored, but",
        )


def _check_rows(record: Rollout, env: Any) -> None:
    """The row kinds that can be told from a recording."""
    ended = record.terminals | record.truncations
    space = env.single_observation_space
    _forbid(ended[0], "a row after reset: expected terminal and truncation False, got True")
    _forbid(record.rewards[0] != 0, "a row after reset: expected reward 0")
    _forbid(~np.isfinite(record.rewards), "expected finite rewards, written at every step")
    if env.autoreset_mode == AutoresetMode.NEXT_STEP:
        after = np.concatenate([np.zeros_like(ended[:1]), ended[:-1]])
        _forbid(after & (record.rewards != 0), "the row after an episode's last: expected reward 0")
        _forbid(after & ended, "the row after an episode's last: expected no terminal, truncation")
    absent = ~record.masks
    content = record.observations.reshape(*absent.shape, -1).any(axis=-1)
    _forbid(absent & content, "an absent agent (mask False): expected an observation of zeros")
    _forbid(absent & (record.rewards != 0), "an absent agent (mask False): expected reward 0")
    _forbid(absent & ended, "an absent agent (mask False): expected no terminal, truncation")
    observations = [("observation", record.observations, record.masks)]
    if record.final_observations is not None:
        observations.append(("final observation", record.final_observations, record.truncations))
    low, high = dtype_bounds(space)
    for name, rows, where in observations:
        inside = ((rows >= low) & (rows <= high)).reshape(*where.shape, -1).all(axis=-1)
        _forbid(where & ~inside, f"expected a valid {name} in {space}, got values out of bounds")


# -- a vectorized environment -----------------------------------------------------------------


def _check_sizes(vecenv: VecEnv) -> None:
    agents, envs = vecenv.num_agents, vecenv.num_envs
    _require(agents % envs == 0, f"expected num_agents a multiple of num_envs={envs}, got {agents}")
    _require(
        agents % vecenv.agents_per_batch == 0 or vecenv.agents_per_batch < agents,
        f"expected agents_per_batch up to {agents}, got {vecenv.agents_per_batch}",
    )
    driver = vecenv.driver_env
    for name in ("single_observation_space", "single_action_space", "autoreset_mode"):
        expected, got = getattr(vecenv, name), getattr(driver, name)
        _require(expected == got, f"driver_env.{name}: expected {expected}, got {got}")
    expected_agents = agents // envs
    _require(
        driver.num_agents == expected_agents,
        f"driver_env.num_agents: expected {expected_agents}, got {driver.num_agents}",
    )
    got = vecenv.get_attr("num_agents")
    _require(got == [expected_agents] * envs, f"get_attr('num_agents'): got {got}")


def _check_batch(vecenv: VecEnv, seed: int) -> None:
    """Shapes, dtypes and indices of one batch, and that a pending one is named."""
    vecenv.async_reset(seed)
    _must_raise(APIUsageError, lambda: vecenv.send([]), "send() while a reset is pending")
    observations, rewards, terminals, truncations, infos, ids, mask = vecenv.recv()
    _must_raise(APIUsageError, vecenv.recv, "recv() without a send()")
    n = vecenv.agents_per_batch
    shape, dtype = row_layout(vecenv.single_observation_space)
    for name, array, expected in (
        ("observations", observations, ((n, *shape), dtype)),
        ("rewards", rewards, ((n,), np.dtype(np.float32))),
        ("terminals", terminals, ((n,), np.dtype(np.bool_))),
        ("truncations", truncations, ((n,), np.dtype(np.bool_))),
        ("env_id", ids, ((n,), np.dtype(np.int64))),
        ("mask", mask, ((n,), np.dtype(np.bool_))),
    ):
        got = (array.shape, array.dtype)
        _require(got == expected, f"recv(): expected {name} {expected}, got {got}")
    _require(
        len(set(ids.tolist())) == n and ids.min() >= 0 and ids.max() < vecenv.num_agents,
        f"recv(): expected env_id {n} different indices below {vecenv.num_agents}, got {ids}",
    )
    _check_infos(infos, "recv()")


def _check_refused_actions(vecenv: VecEnv) -> None:
    shape, dtype = row_layout(vecenv.single_action_space)
    n = vecenv.agents_per_batch
    _must_raise(
        SpaceError,
        lambda: vecenv.send(np.zeros((n + 1, *shape), dtype)),
        f"send() of {n + 1} rows for {n} agents",
    )
    if dtype.kind in "iu":
        _must_raise(
            SpaceError,
            lambda: vecenv.send(np.full((n, *shape), 0.5)),
            "send() of fractions as discrete actions",
        )


# -- tools ------------------------------------------------------------------------------------


def _sample(space: Space[Any], steps: int, n: int, seed: int) -> NDArray[Any]:
    """`(steps, n, *shape)` actions; the caller's space keeps its own generator's state."""
    shape, dtype = row_layout(space)
    # The joint space draws all rows of a step at once, but knows no Mixed row.
    own = copy.deepcopy(space) if isinstance(space, Mixed) else joint_space(space, steps * n)
    own.seed(seed)
    draws = steps * n if isinstance(space, Mixed) else 1
    samples = np.array([own.sample() for _ in range(draws)], dtype)
    return samples.reshape(steps, n, *shape)


def _bytes(array: NDArray[Any], axes: int) -> NDArray[np.uint8]:
    """The bytes of the elements under each index of the first `axes` axes: NaNs compare too."""
    flat = np.ascontiguousarray(array).reshape(*array.shape[:axes], -1)
    return flat.view(np.uint8)


def _name(env: Any) -> str:
    return type(env).__name__


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise APIUsageError(message)


def _forbid(bad: NDArray[np.bool_], message: str) -> None:
    """Raise if any entry of `bad`, whose last two axes are step and agent, is True."""
    if bad.any():
        *step, agent = np.argwhere(bad)[0]
        raise APIUsageError(f"step {step[0] if step else 0}, agent {agent}: {message}")


def _must_raise(error: type[Exception], call: Callable[[], Any], what: str) -> None:
    try:
        call()
    except error:
        return
    raise APIUsageError(f"{what}: expected {error.__name__}, but nothing was raised")
