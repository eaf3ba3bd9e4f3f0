"""Does a vectorized environment keep the contract of `pufferlib.vector`?"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from pufferlib.exceptions import APIUsageError, SpaceError
from pufferlib.spaces import row_layout
from pufferlib.testing.recording import rollout
from pufferlib.testing.rules import check_infos, check_rows, must_raise, require, require_equal
from pufferlib.vector.base import VecEnv


def check_vecenv(
    vecenv_or_creator: VecEnv | Callable[[], VecEnv], steps: int = 100, seed: int = 0
) -> None:
    """Check a vectorized environment, or a function that makes one; it is closed afterwards.

    Checked are attributes, shapes and dtypes of all that it returns, the rows after an episode's
    end, the order of calls, that bad actions are refused, that a seed decides everything,
    `driver_env`, `get_attr`, and that `close` may be repeated.

    Args:
        vecenv_or_creator: new, that is, not yet reset.
        steps: how long to play; should be enough for some episodes to end.
        seed: of the environments.

    Raises:
        APIUsageError: the contract is broken.
    """
    vecenv = vecenv_or_creator if isinstance(vecenv_or_creator, VecEnv) else vecenv_or_creator()
    with vecenv:
        _check_sizes(vecenv)
        must_raise(APIUsageError, vecenv.recv, "recv() before a reset")
        must_raise(APIUsageError, lambda: vecenv.send([]), "send() before a reset")
        _check_batch(vecenv, seed)
        first = rollout(vecenv, steps, seed)
        check_rows(first, vecenv)
        require_equal(first, rollout(vecenv, steps, seed), f"two runs from seed {seed}")
        _check_refused_actions(vecenv)
    vecenv.close()
    for name, call in (
        ("recv", vecenv.recv),
        ("send", lambda: vecenv.send([])),
        ("reset", vecenv.async_reset),
    ):
        must_raise(APIUsageError, call, f"{name}() after close()")


def _check_sizes(vecenv: VecEnv) -> None:
    agents, envs = vecenv.num_agents, vecenv.num_envs
    require(agents % envs == 0, f"expected num_agents a multiple of num_envs={envs}, got {agents}")
    require(
        agents % vecenv.agents_per_batch == 0 or vecenv.agents_per_batch < agents,
        f"expected agents_per_batch up to {agents}, got {vecenv.agents_per_batch}",
    )
    driver = vecenv.driver_env
    for name in ("single_observation_space", "single_action_space", "autoreset_mode"):
        expected, got = getattr(vecenv, name), getattr(driver, name)
        require(expected == got, f"driver_env.{name}: expected {expected}, got {got}")
    expected_agents = agents // envs
    require(
        driver.num_agents == expected_agents,
        f"driver_env.num_agents: expected {expected_agents}, got {driver.num_agents}",
    )
    got = vecenv.get_attr("num_agents")
    require(got == [expected_agents] * envs, f"get_attr('num_agents'): got {got}")


def _check_batch(vecenv: VecEnv, seed: int) -> None:
    """Shapes, dtypes and indices of one batch, and that a pending one is named."""
    vecenv.async_reset(seed)
    must_raise(APIUsageError, lambda: vecenv.send([]), "send() while a reset is pending")
    observations, rewards, terminals, truncations, infos, ids, mask = vecenv.recv()
    must_raise(APIUsageError, vecenv.recv, "recv() without a send()")
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
        require(got == expected, f"recv(): expected {name} {expected}, got {got}")
    require(
        len(set(ids.tolist())) == n and ids.min() >= 0 and ids.max() < vecenv.num_agents,
        f"recv(): expected env_id {n} different indices below {vecenv.num_agents}, got {ids}",
    )
    check_infos(infos, "recv()")


def _check_refused_actions(vecenv: VecEnv) -> None:
    shape, dtype = row_layout(vecenv.single_action_space)
    n = vecenv.agents_per_batch
    must_raise(
        SpaceError,
        lambda: vecenv.send(np.zeros((n + 1, *shape), dtype)),
        f"send() of {n + 1} rows for {n} agents",
    )
    if dtype.kind in "iu":
        must_raise(
            SpaceError,
            lambda: vecenv.send(np.full((n, *shape), 0.5)),
            "send() of fractions as discrete actions",
        )
