"""One suite over every backend; `build` makes four environments on each in turn."""

import copy
import functools
import itertools
import pickle

import numpy as np
import pytest
import vector_toys as toys
from contract_tools import ZEROS, batches, is_pool, on_all
from gymnasium.spaces import Box, Discrete, MultiBinary, MultiDiscrete
from gymnasium.vector import AutoresetMode
from toys import COMINGS_AND_GOINGS, Counters, Lives, SameStepCounters, acting, emulate

from pufferlib import vector
from pufferlib.exceptions import APIUsageError
from pufferlib.testing import check_vecenv, require_equal, rollout

# -- conformance and equality ------------------------------------------------------------------


@on_all
@pytest.mark.parametrize(
    "kind", ["pettingzoo", "same_step", pytest.param("nested", marks=pytest.mark.slow)]
)
def test_keeps_the_contract(build, kind):
    check_vecenv(build(toys.KINDS[kind]), steps=30)


@functools.cache
def on_serial(kind):
    return rollout(toys.make(toys.KINDS[kind], "serial"), 40, seed=3)


def kinds_and_backends():
    """All; in the quick tier only the kinds with the most to lose on backends like another one."""
    for kind, backend in itertools.product(toys.KINDS, list(toys.BACKENDS)[1:]):
        is_like_another = backend in ("sync4", "gather")
        is_slow = is_like_another and kind not in ("pettingzoo", "same_step")
        yield pytest.param(kind, backend, marks=pytest.mark.slow if is_slow else ())


@pytest.mark.parametrize(("kind", "backend"), list(kinds_and_backends()))
def test_trajectories_are_bit_equal_on_every_backend(kind, backend):
    with toys.make(toys.KINDS[kind], backend) as vecenv:
        require_equal(on_serial(kind), rollout(vecenv, 40, seed=3))


def test_trajectories_contain_every_kind_of_row():
    """So that the equality above says something."""
    for kind in toys.KINDS:
        record = on_serial(kind)
        assert record.truncations.any()
        assert record.terminals.any()
        assert (~record.masks).any() == (kind == "pettingzoo")
    assert on_serial("same_step").final_observations.any()


@pytest.mark.smoke
def test_smoke_serial_and_workers_agree():
    kwargs = {"num_envs": 2, "seed": 1}
    with (
        vector.make(toys.make_draw, **kwargs) as serial,
        vector.make(toys.make_draw, backend="multiprocessing", num_workers=2, **kwargs) as workers,
    ):
        require_equal(rollout(serial, 20), rollout(workers, 20))


# -- sizes, spaces, indices ----------------------------------------------------------------------


def test_counts_environments_and_agents(build):
    vecenv = build(Counters)
    assert (vecenv.num_envs, vecenv.num_agents) == (4, 8)
    assert vecenv.agents_per_batch == (4 if is_pool(build) else 8)
    assert vecenv.observation_space.shape == (vecenv.agents_per_batch, 2)
    assert vecenv.driver_env.num_agents == 2


@on_all
def test_every_agent_comes_back_and_env_id_says_which(build):
    vecenv = build([functools.partial(toys.make_draw, name=str(i)) for i in range(4)], seed=None)
    seen = {}
    for observations, *_, env_id, mask in batches(vecenv, seed=[10, 11, 12, 13]):
        assert env_id.dtype == np.int64
        assert mask.all()
        for row, agent in zip(observations, env_id.tolist(), strict=True):
            seen.setdefault(agent, float(row[0]))
        if len(seen) == 4:
            break
    assert seen == pytest.approx({i: toys.first_draw(10 + i) for i in range(4)})


@pytest.mark.parametrize(
    ("space", "joint"),
    [
        (Discrete(3), MultiDiscrete([3, 3])),
        (MultiDiscrete([2, 3]), MultiDiscrete([[2, 3], [2, 3]])),
        (Box(-1, 1, (2, 2), np.float32), Box(-1, 1, (2, 2, 2), np.float32)),
    ],
)
def test_joint_action_space_has_a_row_per_agent(space, joint):
    vecenv = vector.make(lambda: emulate(acting(space)), num_envs=2)
    assert vecenv.single_action_space == space
    assert vecenv.action_space == joint
    vecenv.reset()
    vecenv.step(vecenv.action_space.sample())


def test_joint_observation_space_has_a_row_per_agent():
    class Bits(toys.Draw):
        observation_space = MultiBinary(3)

        def observe(self, action):
            return np.ones(3, np.int8)

    vecenv = vector.make(lambda: emulate(Bits()), num_envs=2)
    assert vecenv.observation_space == MultiBinary((2, 3))


def test_driver_env_is_what_a_policy_needs(build):
    vecenv = build(toys.make_nested)
    driver = vecenv.driver_env
    assert driver.single_observation_space == vecenv.single_observation_space
    assert driver.single_action_space == vecenv.single_action_space == MultiDiscrete([2, 3])
    assert driver.emulated == vecenv.emulated
    assert driver.emulated.observation_dtype["near"]["count"].shape == (3,)
    assert driver.autoreset_mode == AutoresetMode.NEXT_STEP
    assert driver.name == "draw"  # any other attribute is environment 0's
    with pytest.raises(AttributeError, match="no_such_thing"):
        driver.no_such_thing  # noqa: B018
    assert not hasattr(driver, "_private")


def test_driver_env_can_be_pickled_and_copied_with_a_policy(build):
    driver = build(toys.make_nested).driver_env
    for twin in (pickle.loads(pickle.dumps(driver)), copy.deepcopy(driver)):
        assert twin.single_observation_space == driver.single_observation_space
        assert twin.emulated == driver.emulated
        assert not hasattr(twin, "name")


def test_driver_env_of_a_closed_vecenv_still_describes(build):
    vecenv = build()
    vecenv.close()
    assert vecenv.driver_env.single_action_space == Discrete(5)
    assert getattr(vecenv.driver_env, "name", None) is None


@on_all
def test_autoreset_mode_and_final_observations(build):
    vecenv = build(functools.partial(SameStepCounters, length=3, truncates=True))
    assert vecenv.autoreset_mode == AutoresetMode.SAME_STEP
    vecenv.async_reset()
    times = dict.fromkeys(range(8), 0)
    for _ in range(12):
        observations, _, terminals, truncations, _, env_id, _ = vecenv.recv()
        assert not terminals.any()
        assert vecenv.final_observations.shape == observations.shape
        for row, agent in enumerate(env_id.tolist()):
            ended = times[agent] > 0 and times[agent] % 3 == 0
            assert truncations[row] == ended
            assert observations[row].tolist() == [agent % 2, times[agent] % 3]
            if ended:
                assert vecenv.final_observations[row].tolist() == [agent % 2, 3]
            times[agent] += 1
        vecenv.send(np.ones(vecenv.agents_per_batch, np.int64))


@on_all
def test_masks_follow_the_agents(build):
    """Report O16: b dies at step 2, c is born at step 3, all end at step 4."""
    vecenv = build(lambda: emulate(Lives(COMINGS_AND_GOINGS)))
    record = rollout(vecenv, 5)
    one = record.masks[:, :3].astype(int).tolist()
    assert one == [[1, 1, 0], [1, 1, 0], [1, 1, 0], [1, 0, 1], [1, 0, 1], [1, 1, 0]]
    assert record.terminals[:, :3].nonzero()[0].tolist() == [2, 4, 4]
    assert (record.masks == np.tile(record.masks[:, :3], 4)).all()


# -- order of calls ------------------------------------------------------------------------------


def test_calls_out_of_order_name_the_pending_one(build):
    vecenv = build()
    actions = np.zeros(vecenv.agents_per_batch, np.int64)
    with pytest.raises(APIUsageError, match=r"call reset\(\) or async_reset\(\) first"):
        vecenv.recv()
    with pytest.raises(APIUsageError, match=r"call reset\(\) or async_reset\(\) first"):
        vecenv.send(actions)
    vecenv.async_reset()
    with pytest.raises(APIUsageError, match=r"pending: call recv\(\) first"):
        vecenv.send(actions)
    vecenv.recv()
    with pytest.raises(APIUsageError, match=r"call send\(\) or step\(\) first"):
        vecenv.recv()
    vecenv.send(actions)
    vecenv.recv()
    vecenv.close()
    for call in (vecenv.recv, vecenv.async_reset, vecenv.render, lambda: vecenv.send(actions)):
        with pytest.raises(APIUsageError, match="closed: make a new one"):
            call()


def test_pools_refuse_reset_and_step_and_name_the_other_way(build):
    vecenv = build()
    if not is_pool(build):
        vecenv.reset()
        vecenv.step(ZEROS)
        return
    with pytest.raises(APIUsageError, match=r"all 4 agents.*have 2; use async_reset\(\) and recv"):
        vecenv.reset()
    vecenv.async_reset()
    vecenv.recv()
    with pytest.raises(APIUsageError, match=r"use send\(\) and recv\(\)"):
        vecenv.step(ZEROS)


@on_all
def test_a_reset_in_flight_leaks_nothing(build):
    """Neither infos nor observations of the steps that were under way."""
    vecenv = build(functools.partial(toys.make_emulated, toys.Talker, {"old": True}))
    next(infos for *_, infos, _, _ in batches(vecenv, seed=0) if infos)
    vecenv.send(np.zeros(vecenv.agents_per_batch, np.int64))
    vecenv.async_reset(seed=5)
    seen = {}
    with toys.time_limit(20):
        while len(seen) < 4:
            observations, rewards, *_, infos, env_id, _ = vecenv.recv()
            assert infos == []
            first = [row for row, i in enumerate(env_id.tolist()) if i not in seen]
            assert rewards[first].tolist() == [0] * len(first)
            assert observations[first, 1:].tolist() == [[0, -1]] * len(first)
            seen |= {env_id[row]: observations[row, 0] for row in first}
            others = [i for i in range(4) if i not in seen]
            assert vecenv.get_attr("t", others) == [0] * len(others)
            # These may come once more before the others, whose results may arrive later.
            vecenv.set_attr("info", {}, env_id.tolist())
            vecenv.send(np.zeros(len(env_id), np.int64))
    expected = rollout(toys.make(toys.make_draw, "serial"), 0, seed=5).observations[0, :, 0]
    assert {i: seen[i] for i in seen} == {i: float(expected[i]) for i in seen}


def test_reset_twice_in_a_row(build):
    vecenv = build()
    vecenv.async_reset(seed=1)
    vecenv.async_reset(seed=2)
    observations, *_, env_id, _ = vecenv.recv()
    expected = rollout(toys.make(toys.make_draw, "serial"), 0, seed=2).observations[0]
    assert np.array_equal(observations, expected[env_id])
