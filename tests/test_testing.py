"""The conformance suites accept what is right and name what is wrong."""

import functools

import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete
from toys import (
    COMINGS_AND_GOINGS,
    Counters,
    Echo,
    Lives,
    OwnRandom,
    SameStepCounters,
    emulate,
    pair_game,
)

import pufferlib
from pufferlib import vector
from pufferlib.exceptions import APIUsageError
from pufferlib.testing import check_env, check_vecenv, require_equal, rollout

GOOD = {
    "gymnasium": lambda: emulate(OwnRandom(length=5)),
    "truncating": lambda: emulate(Echo(length=5, truncates=True)),
    "pettingzoo": lambda: emulate(Lives(COMINGS_AND_GOINGS)),
    "lingering": lambda: emulate(pair_game(empties=False)),
    "native": Counters,
    "same step": functools.partial(SameStepCounters, truncates=True),
}


@pytest.mark.smoke
@pytest.mark.parametrize("kind", GOOD)
def test_good_environments_pass(kind):
    check_env(GOOD[kind])
    check_env(GOOD[kind]())
    check_vecenv(functools.partial(vector.make, GOOD[kind], num_envs=2))
    check_vecenv(vector.make(GOOD[kind], num_envs=2, batch_size=1))


def test_only_what_the_check_made_is_closed():
    env = Counters()
    check_env(env)
    assert env.closes == 0
    made = []

    def creator():
        made.append(Counters())
        return made[-1]

    check_env(creator)
    assert made[0].closes == 1


class Unseeded(Counters):
    def reset(self, seed=None, options=None):
        infos = super().reset(seed)
        self.observations[:, 0] = np.random.default_rng().random(2)
        return infos


class Unwritten(Counters):
    def reset(self, seed=None, options=None):
        row = self.observations[1].copy()
        infos = super().reset(seed)
        self.observations[1] = row
        return infos


class NoReward(Counters):
    def _write(self, rewards):
        before = self.rewards[0]
        super()._write(rewards)
        if self.clock:
            self.rewards[0] = before


class Overflowing(Counters):
    def _write(self, rewards):
        super()._write(rewards)
        one_more = np.lib.stride_tricks.as_strided(self.observations, (self.num_agents + 1, 2))
        one_more[-1] = self.clock


class RewardedReset(Counters):
    def step(self, actions):
        infos = super().step(actions)
        if self.clock == 0:
            self.rewards[:] = 1
        return infos


class FlaggedReset(Counters):
    def reset(self, seed=None, options=None):
        infos = super().reset(seed)
        self.terminals[:] = True
        return infos


class Listens(Counters):
    """Uses the action that it should ignore."""

    def step(self, actions):
        begins = self.clock == self.length
        infos = super().step(actions)
        if begins:
            self.observations[:, 1] = actions
        return infos


class DictInfo(Counters):
    def reset(self, seed=None, options=None):
        super().reset(seed)
        return {}


class OutOfSpace(Counters):
    def _write(self, rewards):
        super()._write(rewards)
        self.observations[0, 0] = 1e9


class GhostlyPadding(Counters):
    def _write(self, rewards):
        super()._write(rewards)
        self.masks[1] = False


class NoFinal(SameStepCounters):
    def _end(self):
        infos = super()._end()
        self.final_observations.fill(np.nan)
        return infos


@pytest.mark.parametrize(
    ("creator", "message"),
    [
        (Unseeded, "two runs from seed 0.*observations differ first at step 0, agent 0"),
        (Unwritten, "never written.*observations differ first at step 0, agent 1"),
        (NoReward, "step 1, agent 0: expected finite rewards, written at every step"),
        (Overflowing, "step 0: wrote outside its own rows"),
        (RewardedReset, "step 4, agent 0: the row after an episode's last: expected reward 0"),
        (FlaggedReset, "step 0, agent 0: a row after reset: expected terminal and truncation"),
        (Listens, "action on an episode's last row must be ignored.*observations differ"),
        (DictInfo, "expected a list of info dicts.*got {}"),
        (OutOfSpace, "step 0, agent 0: expected a valid observation in Box"),
        (GhostlyPadding, r"agent 1: an absent agent \(mask False\): expected an observation of ze"),
        (functools.partial(NoFinal, truncates=True), "expected a valid final observation in Box"),
        (Echo, "Echo: expected 'bind' of the native contract; subclass pufferlib.PufferEnv"),
    ],
)
def test_broken_environments_are_named(creator, message):
    with pytest.raises(APIUsageError, match=message):
        check_env(creator)


def test_missing_attributes_are_named():
    class Incomplete(Counters):
        def __init__(self):
            super().__init__()
            self.single_action_space = Discrete(4, start=1)

    with pytest.raises(APIUsageError, match="choices counted from 0"):
        check_env(Incomplete)
    with pytest.raises(APIUsageError, match="autoreset_mode: expected NEXT_STEP or SAME_STEP"):
        check_env(type("Disabled", (Counters,), {"autoreset_mode": "Disabled"}))


class Forgetful(vector.Serial):
    """Breaks one rule of the contract of vectorized environments at a time."""

    broken = ""

    def _receive(self):
        rows, infos, env_id = super()._receive()
        if self.broken == "env_id":
            env_id = np.zeros_like(env_id)
        if self.broken == "dtype":
            env_id = env_id.astype(np.int32)
        return rows, infos, env_id

    def async_reset(self, seed=None, options=None):
        self.resets = getattr(self, "resets", 0) + 1
        super().async_reset(self.resets if self.broken == "seed" else seed, options)

    def send(self, actions):
        if self.broken == "order" and self._state.name == "WAITING":
            return
        if self.broken == "actions":
            actions = np.resize(actions, self._action_shape)
        super().send(actions)


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        ("env_id", "expected env_id 2 different indices below 2"),
        ("dtype", "expected env_id .*int64.*int32"),
        ("seed", "two runs from seed 0: observations differ"),
        ("actions", "send.* of 3 rows for 2 agents: expected SpaceError, but nothing was raised"),
        ("order", "send.* while a reset is pending: expected APIUsageError"),
    ],
)
def test_broken_vecenvs_are_named(broken, message):
    backend = type("Broken", (Forgetful,), {"broken": broken})
    with pytest.raises(APIUsageError, match=message):
        check_vecenv(vector.make(GOOD["gymnasium"], num_envs=2, backend=backend))


def test_rollout_is_what_happened():
    record = rollout(vector.make(functools.partial(Counters, length=2), num_envs=2), 4)
    assert record.observations.shape == (5, 4, 2)
    assert record.observations[:, 0, 1].tolist() == [0, 1, 2, 0, 1]
    assert record.observations[0, :, 0].tolist() == [0, 1, 0, 1]
    assert record.terminals[:, 0].tolist() == [False, False, True, False, False]
    assert record.rewards[3].tolist() == [0] * 4
    assert record.final_observations is None


def test_rollouts_that_differ_name_the_place():
    def record(length):
        return rollout(vector.make(functools.partial(Counters, length=length)), 6)

    require_equal(record(4), record(4))
    with pytest.raises(
        APIUsageError, match="lengths: observations differ first at step 4, agent 0"
    ):
        require_equal(record(4), record(3), "lengths")
    with pytest.raises(APIUsageError, match="unlike shapes"):
        require_equal(record(4), rollout(vector.make(Counters), 5))


def test_the_callers_spaces_keep_their_state():
    class Env(pufferlib.PufferEnv):
        single_observation_space = Box(0, 1, (1,), np.float32)
        single_action_space = Discrete(2)
        num_agents = 1

        def reset(self, seed=None, options=None):
            self.observations[:], self.rewards[:] = 0, 0
            self.terminals[:] = self.truncations[:] = False
            return []

        step = reset

    Env.single_action_space.seed(5)
    expected = [int(Discrete(2, seed=5).sample()) for _ in range(1)]
    check_env(Env)
    assert [int(Env.single_action_space.sample())] == expected
