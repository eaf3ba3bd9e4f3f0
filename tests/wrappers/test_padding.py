"""Unequal agents' spaces padded to one: samples that fit it, and actions that fit their agent."""

import pickle

import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete, Graph, MultiBinary, MultiDiscrete, Text, Tuple
from hypothesis import given, settings
from hypothesis import strategies as st
from pettingzoo.test import parallel_api_test
from strategies import assert_same
from toys import FOUR, Lives, emulate

from pufferlib.exceptions import SpaceError
from pufferlib.wrappers import PadAgentSpaces
from pufferlib.wrappers.padding import join


class Unequal(Lives):
    """Two agents, `a` and `b`, with the given spaces; they observe random samples of theirs."""

    def __init__(self, observations, actions=(FOUR, FOUR)):
        super().__init__([("ab", "", "")] * 30, possible="ab")
        self.observation_spaces = dict(zip("ab", observations, strict=True))
        self.action_spaces = dict(zip("ab", actions, strict=True))

    def observation_space(self, agent):
        return self.observation_spaces[agent]

    def action_space(self, agent):
        return self.action_spaces[agent]

    def observe(self, agents):
        self.seen = {agent: self.observation_spaces[agent].sample() for agent in agents}
        return dict(self.seen)


F32 = Box(-1, 1, (2,), np.float32)


@pytest.mark.smoke
@pytest.mark.parametrize(
    ("first", "second", "common"),
    [
        (
            F32,
            Box(0, 3, (3,), np.float32),
            Box(np.float32([-1, -1, 0]), np.float32([3, 3, 3])),
        ),
        (
            Box(2, 3, (1, 2), np.uint8),
            Box(1, 5, (2, 1), np.uint8),
            Box(np.uint8([[1, 0], [0, 0]]), np.uint8([[5, 3], [5, 0]]), dtype=np.uint8),
        ),
        (Discrete(3, start=2), Discrete(5, start=2), Discrete(5, start=2)),
        (MultiDiscrete([2, 9]), MultiDiscrete([3, 1, 4]), MultiDiscrete([3, 9, 4])),
        (MultiBinary(2), MultiBinary(4), MultiBinary((4,))),
        (Dict(x=F32), Dict(y=Discrete(2), x=F32), Dict(x=F32, y=Discrete(2))),
        (Tuple([F32]), Tuple([F32, Text(2)]), Tuple([F32, Text(2)])),
        (Text(3), Text(3), Text(3)),
    ],
)
def test_the_common_space(first, second, common):
    assert join({"a": first, "b": second}, "space").space == common


@pytest.mark.parametrize(
    ("own", "other", "value", "cropped"),
    [
        (Box(-1, 1, (2,), np.float32), Box(-5, 5, (3,), np.float32), [4, 0.5, 4], [1, 0.5]),
        (Discrete(3, start=2), Discrete(5, start=2), 4, 4),
        (Discrete(3, start=2), Discrete(5, start=2), 5, 2),
        (MultiDiscrete([2, 3]), MultiDiscrete([9, 9, 9]), [2, 2, 8], [0, 2]),
        (MultiBinary(1), MultiBinary(2), [1, 1], [1]),
        (Dict(x=Discrete(2)), Dict(x=Discrete(3), y=F32), {"x": 2, "y": None}, {"x": 0}),
        (Tuple([Discrete(2)]), Tuple([Discrete(2), F32]), (1, None), (1,)),
    ],
)
def test_actions_are_cropped_to_what_their_agent_has(own, other, value, cropped):
    value = np.array(value) if isinstance(value, list) else value
    found = join({"a": own, "b": other}, "space").crop["a"](value)
    assert (found.tolist() if isinstance(found, np.ndarray) else found) == cropped


@pytest.mark.parametrize(
    ("first", "second", "message"),
    [
        (Text(3), Text(4), "observation_space: expected .* got Text.* for 'a' and Text.* for 'b'"),
        (F32, Discrete(2), r"got Box.* for 'a' and Discrete\(2\) for 'b'"),
        (F32, Box(-1, 1, (2,), np.float64), "got Box.*float32.* Box.*float64"),
        (F32, Box(-1, 1, (2, 1), np.float32), "expected spaces that can be padded to one"),
        (Discrete(2), Discrete(3, start=1), r"Discrete\(3, start=1\) for 'b'"),
        (MultiDiscrete([2], start=[1]), MultiDiscrete([2, 3]), "got MultiDiscrete"),
        (Dict(x=F32, g=Graph(F32, None)), Dict(x=F32, g=Graph(F32, F32)), r"space\['g'\]: expec"),
        (Tuple([F32]), Tuple([Discrete(2)]), r"observation_space\[0\]: expected"),
    ],
)
def test_what_cannot_be_padded_is_refused_by_name(first, second, message):
    with pytest.raises(SpaceError, match=message):
        PadAgentSpaces(Unequal([first, second]))


def test_unequal_agents_are_emulated():
    observations = [Box(0, 9, (3,), np.float32), Box(0, 9, (1,), np.float32)]
    env = Unequal(observations, [Discrete(4), Discrete(2)])
    with pytest.raises(SpaceError, match=r"expected the same space .*wrappers\.PadAgentSpaces"):
        emulate(env)
    padded = emulate(PadAgentSpaces(env))
    rows, _ = padded.reset(seed=1, options={})
    assert rows["a"].tolist() == env.seen["a"].tolist()
    assert rows["b"].tolist() == [*env.seen["b"].tolist(), 0, 0]
    padded.step({"a": 3, "b": 3})
    padded.step({"a": 1, "b": 1})
    assert env.received == [{"a": 3, "b": 0}, {"a": 1, "b": 1}]
    twin = pickle.loads(pickle.dumps(padded))
    twin.step({"a": 2, "b": 2})
    assert twin.unwrapped.received[-1] == {"a": 2, "b": 0}


def test_pettingzoos_own_test_passes():
    spaces = [Dict(x=F32), Dict(x=Box(-1, 1, (4,), np.float32), y=Discrete(3))]
    parallel_api_test(PadAgentSpaces(Unequal(spaces, [MultiBinary(2), MultiBinary(3)])), 20)


# -- any spaces that are alike --------------------------------------------------------------------


@st.composite
def boxes(draw):
    dtype = draw(st.sampled_from([bool, np.int8, np.uint8, np.int64, np.float32, np.float64]))
    rank = draw(st.integers(0, 3))
    shape = st.lists(st.integers(1, 3), min_size=rank, max_size=rank).map(tuple)
    bounds = st.lists(st.integers(0, 1 if dtype is bool else 100), min_size=2, max_size=2)

    def box():
        low, high = sorted(draw(bounds))
        return Box(low, high, draw(shape), dtype)

    return box(), box()


def dicts(children):
    """A pair of Dicts, each without the keys whose number says so."""
    return tuple(
        Dict({key: pair[i] for key, (pair, number) in children.items() if number != i + 1})
        for i in range(2)
    )


def tuples(children):
    """A pair of Tuples, the second one of which is shorter."""
    first = Tuple([pair[0] for pair in children])
    return st.integers(0, len(children)).map(
        lambda n: (first, Tuple([pair[1] for pair in children[:n]]))
    )


sizes = st.integers(1, 5)
numbers = st.lists(sizes, min_size=1, max_size=3)
pairs = st.recursive(
    boxes()
    | st.tuples(sizes.map(Discrete), sizes.map(Discrete))
    | st.tuples(numbers.map(MultiDiscrete), numbers.map(MultiDiscrete))
    | st.tuples(sizes.map(MultiBinary), sizes.map(MultiBinary)),
    lambda children: (
        st.dictionaries(st.sampled_from("xyz"), st.tuples(children, sizes), max_size=3).map(dicts)
        | st.lists(children, max_size=3).flatmap(tuples)
    ),
    max_leaves=5,
)


@settings(max_examples=40)
@given(pairs, st.integers(0, 2**31))
def test_padding_loses_nothing_and_cropping_fits(pair, seed):
    own = dict(zip("ab", pair, strict=True))
    joint = join(own, "space")
    joint.space.seed(seed)
    for agent, space in own.items():
        space.seed(seed)
        sample = space.sample()
        padded = joint.pad[agent](sample)
        assert joint.space.contains(padded)
        assert_same(space, joint.crop[agent](padded), sample)
        assert space.contains(joint.crop[agent](joint.space.sample()))
