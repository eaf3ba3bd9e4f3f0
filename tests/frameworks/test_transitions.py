"""Steps that end where an episode ends, for libraries that reset environments themselves."""

import functools

import numpy as np
import pytest
from toys import Echo, emulate

from pufferlib import vector
from pufferlib.exceptions import APIUsageError
from pufferlib.frameworks.transitions import Transitions


def make_echo(**options):
    return emulate(Echo(**options))


def echoes(**options):
    """Two environments, of which the first ends after two steps and the second never does."""
    creators = [functools.partial(make_echo, length=2), make_echo]
    return vector.make([vector.SameStep(each) for each in creators], num_envs=2, **options)


def test_last_observations_are_delivered_and_the_first_kept():
    transitions = Transitions(echoes())
    transitions.reset()
    assert transitions.observations[:, 1].tolist() == [-1, -1]
    transitions.step(np.array([3, 4]))
    step = transitions.step(np.array([2, 1]))
    assert step.observations[:, 1].tolist() == [2, 1]
    assert step.terminals.tolist() == [True, False]
    assert transitions.observations[:, 1].tolist() == [-1, 1]
    transitions.reset(np.array([True, False]))  # it has been: nothing is lost
    assert transitions.observations[:, 1].tolist() == [-1, 1]
    assert step.terminals.tolist() == [True, False]


def test_a_reset_of_all_takes_the_seed_once():
    transitions = Transitions(echoes())
    transitions.seed = [5, 6]
    transitions.reset(np.array([True, True]))
    transitions.reset()
    seeds = transitions.vecenv.get_attr("seeds")
    assert [given[0] for given in seeds] == [5, 6]
    assert [given[1] for given in seeds] == [None, None]


def test_rows_in_mid_episode_cannot_be_reset_alone():
    transitions = Transitions(echoes())
    transitions.reset()
    for _ in range(2):
        transitions.step(np.array([0, 0]))
    with pytest.raises(APIUsageError, match=r"reset of rows \[1\].*TimeLimit"):
        transitions.reset(np.array([False, True]))


def test_ended_rows_may_be_reset_one_after_the_other():
    transitions = Transitions(
        vector.make(vector.SameStep(functools.partial(make_echo, length=2)), num_envs=2)
    )
    transitions.reset()
    for _ in range(2):
        transitions.step(np.array([0, 0]))
    transitions.reset(np.array([True, False]))
    transitions.reset(np.array([False, True]))
    assert transitions.vecenv.get_attr("resets") == [2, 2]
    with pytest.raises(APIUsageError, match=r"reset of rows \[0\]"):
        transitions.reset(np.array([True, False]))


def test_a_seed_or_options_begin_anew_even_where_all_have_ended():
    transitions = Transitions(
        vector.make(vector.SameStep(functools.partial(make_echo, length=1)), num_envs=2)
    )
    for options in (None, {"level": 3}):
        transitions.seed = None if options else [5, 6]
        transitions.reset()
        transitions.step(np.array([0, 0]))
        transitions.seed = None if options else [7, 8]
        transitions.reset(np.array([True, True]), options)
    seeds, given = (transitions.vecenv.get_attr(name) for name in ("seeds", "options"))
    assert [each[:3] for each in seeds] == [[5, None, 7], [6, None, 8]]
    assert [each[-1] for each in given] == [{"level": 3}] * 2
    transitions.step(np.array([0, 0]))
    with pytest.raises(APIUsageError, match=r"options: expected none for rows \[1\]"):
        transitions.reset(np.array([False, True]), {"level": 4})


def test_what_has_no_transition_for_every_step_is_refused():
    with pytest.raises(APIUsageError, match=r"SameStep\(creator\)"):
        Transitions(vector.make(make_echo, num_envs=2))
    with pytest.raises(APIUsageError, match="leave out batch_size"):
        Transitions(vector.make(vector.SameStep(make_echo), num_envs=2, batch_size=1))
