"""Every environment has a stream of its own, which the base seed and its index decide."""

import random

import numpy as np
import pytest
import torch
import vector_toys as toys

from pufferlib import vector
from pufferlib.exceptions import APIUsageError
from pufferlib.testing import rollout


def first_rows(vecenv, **reset):
    """The first observations of all agents, by agent."""
    vecenv.async_reset(**reset)
    rows = {}
    while len(rows) < vecenv.num_agents:
        observations, *_, env_id, _ = vecenv.recv()
        for row, agent in zip(observations.tolist(), env_id.tolist(), strict=True):
            rows.setdefault(agent, row)
        vecenv.send(np.zeros(len(env_id), np.int64))
    return [rows[agent] for agent in range(vecenv.num_agents)]


def children(seed, n):
    return [
        int(child.generate_state(1)[0]) & 0x7FFFFFFF
        for child in np.random.SeedSequence(seed).spawn(n)
    ]


def test_environment_i_gets_child_i_of_the_base_seed(build):
    vecenv = build()
    vecenv.async_reset(seed=42)
    seeds = vecenv.get_attr("seed")
    assert seeds == children(42, 4)
    assert all(type(seed) is int and 0 <= seed < 2**31 for seed in seeds)


def test_a_seed_does_not_depend_on_how_many_there_are():
    for n in (1, 3, 8):
        vecenv = vector.make(toys.make_draw, num_envs=n)
        vecenv.reset(seed=42)
        assert vecenv.get_attr("seed") == children(42, 8)[:n]


def test_neighbouring_base_seeds_share_no_stream():
    seeds = [seed for base in range(50) for seed in children(base, 16)]
    vecenv = vector.make(toys.make_draw, num_envs=16)
    got = []
    for base in range(50):
        vecenv.reset(seed=base)
        got += vecenv.get_attr("seed")
    assert got == seeds
    assert len(set(seeds)) == len(seeds)


def test_a_list_is_taken_literally(build):
    vecenv = build()
    vecenv.async_reset(seed=[7, 3, 7, np.int64(9)])
    assert vecenv.get_attr("seed") == [7, 3, 7, 9]
    rows = first_rows(vecenv, seed=[7, 3, 7, 9])
    assert rows[0] == rows[2] != rows[1]


@pytest.mark.parametrize("seeds", [[1, 2, 3], [1, 2, 3, -4]])
def test_a_list_of_the_wrong_length_or_sign_is_refused(seeds):
    vecenv = vector.make(toys.make_draw, num_envs=4)
    with pytest.raises(APIUsageError, match=r"expected an int or 4 seeds of at least 0.*got"):
        vecenv.reset(seed=seeds)


@pytest.mark.parametrize("seed", [-1, 0.5, True])
def test_make_refuses_impossible_seeds(seed):
    with pytest.raises(APIUsageError, match="seed: expected an int of at least 0"):
        vector.make(toys.make_draw, seed=seed)


def test_no_seed_uses_makes_seed_once_and_then_goes_on(build):
    vecenv = build(seed=11)
    vecenv.async_reset()
    assert vecenv.get_attr("seed") == children(11, 4)
    vecenv.async_reset()
    assert vecenv.get_attr("seed") == [None] * 4


def test_streams_continue_over_resets_without_a_seed():
    vecenv = vector.make(toys.make_draw, num_envs=2, seed=11)
    first, second = vecenv.reset()[0][:, 0].copy(), vecenv.reset()[0][:, 0].copy()
    assert not np.array_equal(first, second)
    generator = np.random.default_rng(children(11, 2)[0])
    expected = [(generator.integers(3, 8), generator.random())[1] for _ in range(2)]
    assert [first[0], second[0]] == pytest.approx(expected)


def test_seed_none_takes_fresh_entropy():
    one, two = (vector.make(toys.make_draw, num_envs=2, seed=None) for _ in range(2))
    assert not np.array_equal(one.reset()[0], two.reset()[0])


def test_autoresets_pass_no_seed(build):
    vecenv = build()
    rollout(vecenv, 20)
    assert min(vecenv.get_attr("episodes")) >= 2
    assert vecenv.get_attr("seed") == [None] * 4


def make_global():
    return toys.make_emulated(toys.Global)


@pytest.mark.parametrize(
    "backend",
    ["sync4", *(pytest.param(name, marks=pytest.mark.slow) for name in ("pool", "gather"))],
)
def test_global_generators_are_distinct_and_reproducible(backend):
    """Report O14: environments that use np.random or random directly."""
    with toys.make(make_global, backend, seed=5) as vecenv:
        rows = first_rows(vecenv)
        assert len({tuple(row) for row in rows}) == 4
        assert len({row[0] for row in rows}) == len({row[1] for row in rows}) == 4
        assert first_rows(vecenv, seed=5) == rows
        assert first_rows(vecenv, seed=6) != rows
        assert first_rows(vecenv) != rows  # no seed: they go on
    with toys.make(make_global, backend, seed=5) as vecenv:
        assert first_rows(vecenv) == rows


class TorchRandom(toys.Draw):
    def observe(self, action):
        return np.array([torch.rand(()).item(), torch.get_num_threads(), 0], np.float32)


@pytest.fixture
def two_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


def test_torch_is_seeded_and_single_threaded_where_the_environment_loads_it(two_threads):
    with toys.make(lambda: toys.make_emulated(TorchRandom), "sync4") as vecenv:
        rows = first_rows(vecenv)
        assert len({row[0] for row in rows}) == 4
        assert {row[1] for row in rows} == {1}
        assert first_rows(vecenv, seed=0) == rows


def global_states():
    numpy_state = np.random.get_state()[1].tolist()  # noqa: NPY002 - the one to be left alone
    return random.getstate(), numpy_state, torch.get_rng_state().tolist()


def test_the_callers_generators_are_never_touched(build):
    before = global_states()
    vecenv = build(toys.make_draw)
    vecenv.async_reset(seed=4)
    vecenv.recv()
    vecenv.close()
    assert global_states() == before
