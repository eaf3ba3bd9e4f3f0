"""A step that ends an episode shows the first observation of the next one."""

import functools
import pickle

import numpy as np
import pytest
from toys import COMINGS_AND_GOINGS, Counters, Echo, Lives, SameStepCounters, emulate, pair_game
from vector_toys import make, make_choosy

from pufferlib.exceptions import APIUsageError, WorkerError
from pufferlib.testing import check_env
from pufferlib.vector import SameStep, demands
from pufferlib.vector.same_step import SameStepEnv


def lives(**options):
    return emulate(Lives(COMINGS_AND_GOINGS, **options))


def truncated_pair():
    return emulate(pair_game(truncates=True))


def play(creator, steps, backend="serial"):
    """Copies of everything that each step gives, the final observations last."""
    with make(SameStep(creator), backend, num_envs=2) as vecenv:
        vecenv.reset(seed=0)
        actions = np.ones(vecenv.num_agents, np.int64)
        results = []
        for _ in range(steps):
            vecenv.send(actions)
            observations, rewards, terminals, truncations, _, _, masks = vecenv.recv()
            arrays = (observations, rewards, terminals, truncations, masks)
            results.append([a.copy() for a in (*arrays, vecenv.final_observations)])
        return [np.array(column) for column in zip(*results, strict=True)]


CREATORS = [lives, truncated_pair, functools.partial(Counters, truncates=True)]


@pytest.mark.parametrize("creator", CREATORS)
def test_the_contract_is_kept(creator):
    check_env(SameStep(creator))


def test_it_is_what_an_environment_that_resets_itself_in_the_same_step_gives():
    native = functools.partial(SameStepCounters, truncates=True)
    for got, expected in zip(
        play(functools.partial(Counters, truncates=True), 7), play(native, 7), strict=True
    ):
        np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("backend", ["serial", "sync"])
@pytest.mark.parametrize("check", ["first", "always"])  # steps that are checked are not compiled
def test_one_agent(backend, check):
    observations, rewards, terminals, truncations, masks, final = play(
        functools.partial(make_echo, check, length=2), 4, backend
    )
    assert terminals[:, 0].tolist() == [False, True, False, True]
    assert not truncations.any()
    assert masks.all()
    assert rewards[:, 0].tolist() == [1, 1, 1, 1]
    assert observations[:, 0].tolist() == [[0, 1], [0, -1], [0, 1], [0, -1]]
    assert final[1, 0].tolist() == final[3, 0].tolist() == [0, 1]


def make_echo(check="first", **options):
    return emulate(Echo(**options), check=check)


def test_agents_that_leave_earlier_have_their_last_observation_too():
    """b dies at step 2, c is born at step 3, all end at step 4 and begin again without c."""
    observations, rewards, terminals, _, masks, final = (a[:, :3] for a in play(lives, 5))
    assert masks.tolist() == [
        [True, True, False],
        [True, True, False],
        [True, False, True],
        [True, True, True],
        [True, True, False],
    ]
    assert np.argwhere(terminals).tolist() == [[1, 1], [3, 0], [3, 2]]
    assert rewards[3].tolist() == [4, 0, 4]
    assert final[1, 1].tolist() == [11, 2]
    assert final[3, [0, 2]].tolist() == [[10, 4], [12, 4]]
    assert observations[3].tolist() == [[10, 0], [11, 0], [0, 0]]


@pytest.mark.parametrize("backend", ["serial", "sync"])
def test_a_reset_after_an_end_shows_no_flags_of_it(backend):
    creator = functools.partial(make_echo, length=1, truncates=True)
    with make(SameStep(creator), backend, num_envs=2) as vecenv:
        vecenv.reset()
        assert vecenv.step(np.ones(2, np.int64))[3].all()
        vecenv.async_reset()
        observations, rewards, terminals, truncations, _, _, masks = vecenv.recv()
        assert observations[:, 1].tolist() == [-1, -1]
        assert not np.any([rewards, terminals, truncations])
        assert masks.all()
        assert vecenv.step(np.ones(2, np.int64))[3].all()


class Once(Echo):
    """Can be reset once."""

    def reset(self, *, seed=None, options=None):
        if self.resets:
            raise ValueError("no second episode")
        return super().reset(seed=seed, options=options)


def test_an_error_of_the_next_episode_is_told_by_the_step_that_begins_it():
    with make(SameStep(lambda: emulate(Once(length=2))), "serial", num_envs=1) as vecenv:
        vecenv.reset(seed=3)
        vecenv.step([0])
        with pytest.raises(WorkerError, match=r"environment 0 .*no second episode"):
            vecenv.step([0])
        with pytest.raises(APIUsageError, match="closed"):
            vecenv.reset()


def test_agents_that_reset_one_by_one_are_refused():
    class Alone(Counters):
        def _end(self):
            self.terminals[0] = True
            return []

    with pytest.raises(WorkerError, match="APIUsageError.*agents \\[0\\] of 2"):
        play(Alone, 3)


def test_what_already_resets_in_the_same_step_stays():
    assert isinstance(SameStep(SameStepCounters)(), SameStepCounters)
    with pytest.raises(APIUsageError, match="expected a PufferEnv"):
        make(SameStep(Echo), "serial", num_envs=1)


def test_the_environment_is_reached_and_the_creator_travels():
    creator = pickle.loads(pickle.dumps(SameStep(lives)))
    env = pickle.loads(pickle.dumps(creator()))
    assert isinstance(env, SameStepEnv)
    assert env.possible_agents == ["a", "b", "c"]


def test_what_the_creator_demands_is_found():
    creators = [SameStep(make_choosy)]
    assert demands.start_methods(creators) == {"spawn"}
    assert not demands.one_per_process(creators)
