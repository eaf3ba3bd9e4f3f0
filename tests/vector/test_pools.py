"""Pools of every size: each row is its environment's own, whoever finishes first."""

import functools
import math
import time

import numpy as np
import pytest
import vector_toys as toys
from gymnasium.spaces import Box, Discrete
from hypothesis import given, settings
from hypothesis import strategies as st

import pufferlib
from pufferlib import vector
from pufferlib.exceptions import WorkerError


class Tagged(pufferlib.PufferEnv):
    """Rows say whose they are, of which reset and step; rewards are the actions."""

    def __init__(self, index, agents, jitter=0.0):
        self.single_observation_space = Box(0, 1e6, (4,), np.float32)
        self.single_action_space = Discrete(9)
        self.num_agents = agents
        self.index, self.epoch, self.jitter = index, 0, jitter
        super().__init__()

    def reset(self, seed=None, options=None):
        self.epoch, self.t = options, 0
        return self.write(0)

    def step(self, actions):
        if self.jitter:
            time.sleep(self.jitter * ((self.index * 7 + self.t * 5) % 4))
        self.t += 1
        return self.write(actions)

    def write(self, rewards):
        agents = np.arange(self.num_agents)
        self.observations[:] = np.column_stack(np.broadcast_arrays(*self.tag(agents)))
        self.rewards[:] = rewards
        self.terminals[:] = self.truncations[:] = False
        self.masks[:] = (self.t + agents) % 3 != 0
        return [{"index": self.index, "epoch": self.epoch, "t": self.t}]

    def tag(self, agents):
        return self.index, self.epoch, self.t, agents


@st.composite
def sizes(draw):
    """Numbers of environments, workers and a batch that go together, and how it is put together."""
    envs_per_worker = draw(st.integers(1, 3))
    num_workers = draw(st.integers(1, 4))
    zero_copy = draw(st.booleans())
    fitting = [n for n in range(1, num_workers + 1) if not zero_copy or num_workers % n == 0]
    return {
        "num_envs": num_workers * envs_per_worker,
        "num_workers": num_workers,
        "batch_size": draw(st.sampled_from(fitting)) * envs_per_worker,
        "zero_copy": zero_copy,
    }


class Watcher:
    """Steps a pool of `Tagged` environments and checks every number of every batch."""

    def __init__(self, vecenv, agents, zero_copy):
        self.vecenv, self.agents, self.zero_copy = vecenv, agents, zero_copy
        self.all_rows = vecenv._rows_of_all().observations
        self.count = 0

    def reset(self, epoch):
        self.vecenv.async_reset(options=epoch)
        self.epoch = epoch
        self.times = np.full(self.vecenv.num_agents, -1)
        self.actions = np.zeros(self.vecenv.num_agents)

    def receive(self):
        observations, rewards, terminals, truncations, infos, env_id, mask = self.vecenv.recv()
        n = self.vecenv.agents_per_batch
        assert len(set(env_id.tolist())) == n == len(observations)
        self.times[env_id] += 1
        index, agent = np.divmod(env_id, self.agents)
        times = self.times[env_id]
        expected = np.column_stack([index, np.full(n, self.epoch), times, agent])
        assert np.array_equal(observations, expected)
        assert np.array_equal(rewards, self.actions[env_id])
        assert np.array_equal(mask, (times + agent) % 3 != 0)
        assert not (terminals | truncations).any()
        told = sorted((info["index"], info["epoch"], info["t"]) for info in infos)
        assert told == sorted({(i, self.epoch, t) for i, t in zip(index, times, strict=True)})
        self.check_memory(observations, env_id, n)
        return env_id

    def check_memory(self, observations, env_id, n):
        """Without a copy a batch is a block of neighbours in the buffers themselves."""
        gathers = not self.zero_copy and self.vecenv._teams_per_batch > 1
        assert np.shares_memory(observations, self.all_rows) != gathers
        if not gathers:
            start = int(env_id[0])
            assert start % n == 0
            assert env_id.tolist() == list(range(start, start + n))
            assert np.array_equal(observations, self.all_rows[start : start + n])

    def send(self, env_id):
        self.count += 1
        actions = (env_id + self.count) % 9
        self.actions[env_id] = actions
        self.vecenv.send(actions)


def watch(numbers, agents, steps, resets, jitter=0.0):
    """Step and reset a pool of these sizes."""
    creators = [functools.partial(Tagged, i, agents, jitter) for i in range(numbers["num_envs"])]
    with (
        toys.time_limit(60),
        vector.make(creators, backend=vector.Multiprocessing, **numbers) as vecenv,
    ):
        watcher = Watcher(vecenv, agents, numbers["zero_copy"])
        for epoch in range(1, resets + 2):
            watcher.reset(epoch)  # half of the pool is in flight from the second time on
            for _ in range(steps):
                watcher.send(watcher.receive())


@settings(max_examples=5, deadline=None, derandomize=True, database=None)
@given(numbers=sizes(), agents=st.integers(1, 3))
def test_every_row_is_its_environments_own(numbers, agents):
    watch(numbers, agents, steps=8, resets=2)


@pytest.mark.slow
@settings(max_examples=30, deadline=None, derandomize=True, database=None)
@given(numbers=sizes(), agents=st.integers(1, 3), jitter=st.sampled_from([0.0, 0.001]))
def test_every_row_is_its_environments_own_over_many_sizes(numbers, agents, jitter):
    watch(numbers, agents, steps=30, resets=3, jitter=jitter)


@pytest.mark.parametrize("zero_copy", [True, False])
def test_nobody_is_left_behind(zero_copy):
    creators = [functools.partial(Tagged, i, 1) for i in range(4)]
    with toys.make(creators, "pool", batch_size=1, zero_copy=zero_copy) as vecenv:
        watcher = Watcher(vecenv, 1, zero_copy)
        watcher.reset(epoch=1)
        with toys.time_limit(20):
            while watcher.times.min() < 3:
                watcher.send(watcher.receive())


@pytest.mark.parametrize("backend", ["pool", "gather"])
def test_who_finishes_first_comes_first(backend):
    """The others go on while one never finishes; in a pool of blocks, those of its block wait."""
    vecenv = toys.make(toys.faulty(faulty=3, how="hang", at=1), backend)
    vecenv.async_reset(seed=0)
    seen, hangs = [], math.inf
    with toys.time_limit(20):
        # Many batches take less time than a process may wait for its core, to begin to hang.
        while len(seen) < 10 or time.monotonic() < hangs + 0.5:
            env_id = vecenv.recv()[5]
            seen.append(set(env_id.tolist()))
            vecenv.send(np.zeros(2, np.int64))
            if 3 in seen[-1]:
                hangs = time.monotonic()
    assert sum(3 in ids for ids in seen) == 1  # its reset
    assert set.union(*seen[-9:]) <= ({0, 1} if backend == "pool" else {0, 1, 2})
    with pytest.raises(WorkerError, match=r"worker 3 \(environment 3\) was still busy"):
        vecenv.close(timeout=0.1)
