"""Does an environment keep the native contract?"""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode
from numpy.typing import NDArray

from pufferlib.buffers import Buffers
from pufferlib.emulation.masks import take_allowed
from pufferlib.environment import check_contract
from pufferlib.testing.recording import Rollout, sample_actions
from pufferlib.testing.rules import check_infos, check_rows, require, require_equal

MODES = (AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP)


def check_env(env_or_creator: Any, steps: int = 200, seed: int = 0, actions_seed: int = 0) -> None:
    """Check one environment: a `PufferEnv`, an emulated one, or a function that makes either.

    It is bound to buffers between guard rows, filled with one pattern and then with another, and
    played three times from the same seed: values that depend on the pattern were never written.
    Checked are the attributes, the spaces, that only its own rows are written, that a seed decides
    everything, the rows after an episode's end, absent agents, and infos.

    Args:
        env_or_creator: closed afterwards only if this function made it.
        steps: how long to play; should be enough for some episodes to end.
        seed: of the environment.
        actions_seed: of the random actions.

    Raises:
        APIUsageError: the contract is broken.
    """
    made = not hasattr(env_or_creator, "bind") or isinstance(env_or_creator, type)
    env = env_or_creator() if made else env_or_creator
    try:
        _check_attributes(env)
        actions = sample_actions(env.single_action_space, steps + 1, env.num_agents, actions_seed)
        first = _play(env, actions, seed, pattern=0x5A)
        require_equal(
            first,
            _play(env, actions, seed, pattern=0x5A),
            f"{_name(env)}: two runs from seed {seed}, which must decide everything,",
        )
        require_equal(
            first,
            _play(env, actions, seed, pattern=0xA5),
            f"{_name(env)}: values that were never written, as runs over other garbage show",
        )
        check_rows(first, env)
        _check_ignored_actions(env, actions, first, seed, actions_seed)
    finally:
        if made:
            env.close()


def _check_attributes(env: Any) -> None:
    for name in ("bind", "reset", "step", "close", "emulated", "autoreset_mode"):
        require(
            hasattr(env, name),
            f"{_name(env)}: expected {name!r} of the native contract; subclass "
            "pufferlib.PufferEnv, or wrap it in pufferlib.emulation",
        )
    check_contract(env)
    require(
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
    rng = np.random.default_rng(seed)
    for t in range(steps + 1):
        where = f"{_name(env)}.{'reset' if t == 0 else 'step'}(), step {t}"
        if t == 0:
            infos = stepper.reset(seed, None)
        else:
            rows.actions[...] = actions[t - 1]
            take_allowed(rows.actions, rows.observations, env.emulated, rng)
            if others is not None:
                ended = record.terminals[t - 1] | record.truncations[t - 1]
                rows.actions[ended] = others[t - 1][ended]
            rows.rewards.fill(np.nan)
            infos = stepper.step(rows.actions)
        check_infos(infos, where)
        record.put(
            t,
            *(rows.observations, rows.rewards, rows.terminals, rows.truncations, rows.masks),
            final=rows.final_observations,
        )
        require(
            _guards(whole) == guards,
            f"{where}: wrote outside its own rows; write self.observations[...] and the other "
            "bound arrays in place, up to num_agents",
        )
    return record


def _guards(buffers: Buffers) -> list[bytes]:
    """The first and last rows."""
    return [array[[0, -1]].tobytes() for array in buffers.arrays() if array is not None]


def _check_ignored_actions(
    env: Any, actions: NDArray[Any], first: Rollout, seed: int, actions_seed: int
) -> None:
    """With NEXT_STEP, the action that is sent on an episode's last row has no effect."""
    if env.autoreset_mode == AutoresetMode.NEXT_STEP:
        others = sample_actions(
            env.single_action_space, len(actions), env.num_agents, actions_seed + 1
        )
        require_equal(
            first,
            _play(env, actions, seed, 0x5A, others),
            f"{_name(env)}: the action on an episode's last row must be ignored, but",
        )


def _name(env: Any) -> str:
    return type(env).__name__
