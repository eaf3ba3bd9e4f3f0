"""Action masks in observations: where they are found, what they must fit, and who is checked."""

import pickle
from collections import OrderedDict

import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Tuple
from toys import PAIR, Lives, Scripted, emulate

from pufferlib.emulation.masks import ActionMask, take_allowed
from pufferlib.exceptions import SpaceError

ACTIONS = Dict(go=Discrete(3), how=Dict(speed=Box(-1, 1, (2,), np.float32), tool=Discrete(2)))


def masked(mask_space, action_space, masks, length=None):
    """An environment that shows `masks` in turn."""
    space = Dict(observation=PAIR, action_mask=mask_space)
    seen = [{"observation": np.zeros(2, np.float32), "action_mask": mask} for mask in masks]
    return Scripted(space, seen, action_space, length)


def bits(*values):
    return np.array(values, np.int8)


@pytest.mark.parametrize(
    ("mask_space", "action_space", "mask", "nvec", "expected"),
    [
        (MultiBinary(3), Discrete(3, start=1), bits(0, 1, 1), [3], [0, 1, 1]),
        (Box(0, 1, (3,)), Discrete(3), np.array([0, 1, 1], np.float32), [3], [0, 1, 1]),
        (Box(0, 1, (3,), bool), Discrete(3), np.array([False, True, True]), [3], [0, 1, 1]),
        (MultiBinary(5), MultiDiscrete([2, 3]), bits(1, 0, 0, 1, 1), [2, 3], [1, 0, 0, 1, 1]),
        (
            Tuple([MultiBinary(2), MultiBinary(3)]),
            MultiDiscrete([2, 3]),
            (bits(1, 0), bits(0, 1, 1)),
            [2, 3],
            [1, 0, 0, 1, 1],
        ),
        (
            MultiBinary((2, 3)),
            MultiDiscrete([[1, 2], [2, 1]]),
            np.array([[1, 0, 1], [1, 1, 1]]),
            [1, 2, 2, 1],
            [1, 0, 1, 1, 1, 1],
        ),
        (MultiBinary(4), MultiBinary(2), bits(1, 0, 1, 1), [2, 2], [1, 0, 1, 1]),
        (
            Dict(how=Dict(tool=MultiBinary(2)), go=MultiBinary(3)),
            ACTIONS,
            {"how": {"tool": bits(1, 0)}, "go": bits(0, 1, 1)},
            [3, 2],
            [0, 1, 1, 1, 0],
        ),
        (
            Dict(OrderedDict(how=Dict(tool=MultiBinary(2)), go=MultiBinary(3))),  # keeps its order
            ACTIONS,
            {"how": {"tool": bits(1, 0)}, "go": bits(0, 1, 1)},
            [3, 2],
            [0, 1, 1, 1, 0],
        ),
    ],
)
def test_a_mask_is_read_in_the_order_of_the_choices(mask_space, action_space, mask, nvec, expected):
    env = emulate(masked(mask_space, action_space, [mask]))
    row, _ = env.reset(seed=0)
    structs = np.stack([row] * 2).view(env.emulated.observation_dtype)[:, 0]
    assert list(env.emulated.action_mask.nvec) == nvec
    assert env.emulated.action_mask.allowed(structs).tolist() == [[bool(b) for b in expected]] * 2


def test_without_the_key_there_is_no_mask():
    assert emulate(Scripted(Dict(a=PAIR, b=MultiBinary(2)), [])).emulated.action_mask is None
    nested = Dict(a=Dict(action_mask=MultiBinary(7)), b=PAIR)
    assert emulate(Scripted(nested, [])).emulated.action_mask is None


@pytest.mark.parametrize(
    ("mask_space", "action_space", "message"),
    [
        (
            MultiBinary(4),
            Discrete(3),
            r"Scripted: observation\['action_mask'\]: expected one element for each option of the "
            r"actions Discrete\(3\), that is, 3 elements, got 4 elements; the key is reserved",
        ),
        (MultiBinary(4), Box(-1, 1, (4,), np.float32), "that is, 0 elements, got 4 elements"),
        (
            Tuple([MultiBinary(2), MultiBinary(2)]),
            MultiDiscrete([2, 3]),
            r"that is, 2 at \[0\], 3 at \[1\], got 2 at \[0\], 2 at \[1\]",
        ),
        (Dict(go=MultiBinary(3)), ACTIONS, r"3 at \['go'\], 2 at .*, got 3 at \['go'\]"),
        (Box(0, 255, (3,), np.uint8), Discrete(3), r"expected zeros and ones.*MultiBinary\(3\)"),
        (Box(-1, 1, (3,), np.float32), Discrete(3), "expected zeros and ones"),
    ],
)
def test_a_mask_that_does_not_fit_is_refused(mask_space, action_space, message):
    with pytest.raises(SpaceError, match=message):
        emulate(masked(mask_space, action_space, []))


NONE = r"Scripted: observation\['action_mask'\]: expected at least one allowed option for each of "


@pytest.mark.parametrize("late", [0, 3])
def test_a_row_that_allows_nothing_is_refused_at_any_step(late):
    env = emulate(masked(MultiBinary(2), Discrete(2), [bits(0, 1)] * late + [bits(0, 0)]))
    calls = [env.reset] + [lambda: env.step(1)] * late
    *good, last = calls
    for call in good:
        call()
    with pytest.raises(SpaceError, match=NONE + "1 choices, got none for choice 0"):
        last()


def test_every_choice_needs_an_option():
    space = Tuple([MultiBinary(2), MultiBinary(2)])
    env = emulate(masked(space, MultiDiscrete([2, 2]), [(bits(0, 1), bits(0, 0))]))
    with pytest.raises(SpaceError, match=NONE + "2 choices, got none for choice 1"):
        env.reset()


def test_the_last_row_of_an_episode_may_allow_nothing():
    env = emulate(masked(MultiBinary(2), Discrete(2), [bits(0, 1), bits(0, 0)], length=1))
    env.reset()
    assert env.step(1)[2] is True


def test_the_check_can_be_switched_off():
    env = emulate(masked(MultiBinary(2), Discrete(2), [bits(0, 0)]), check="never")
    env.reset()


class MaskedLives(Lives):
    """`Lives` whose agents may do nothing once `stuck`."""

    def __init__(self, *args, stuck=()):
        super().__init__(*args)
        self.stuck = stuck
        self._space = Dict(observation=PAIR, action_mask=MultiBinary(4))

    def observation_space(self, agent):
        return self._space

    def observe(self, agents):
        return {
            agent: {
                "observation": row,
                "action_mask": np.full(4, (agent, self.clock) not in self.stuck, np.int8),
            }
            for agent, row in super().observe(agents).items()
        }


def test_agents_are_named_and_only_those_that_act_are_checked():
    script = [("ab", "", ""), ("a", "b", ""), ("a", "", "")]
    env = emulate(MaskedLives(script, stuck={("b", 1)}))  # b's last observation, then absent
    env.reset()
    _, _, terminals, _, _ = env.step({"a": 0, "b": 0})
    assert (terminals["b"], env.masks["b"]) == (True, True)
    env.step({"a": 0})
    assert env.masks["b"] is False

    env = emulate(MaskedLives(script, stuck={("a", 1)}))
    env.reset()
    with pytest.raises(SpaceError, match=r"agent 'a' of MaskedLives: observation\['action_mask'\]"):
        env.step({"a": 0, "b": 0})


def test_the_mask_travels():
    emulated = emulate(masked(MultiBinary(2), Discrete(2), [])).emulated
    assert pickle.loads(pickle.dumps(emulated)) == emulated
    assert emulated.action_mask == ActionMask((("action_mask",),), (2,))


def test_choices_are_uniform_among_the_allowed_ones():
    env = emulate(masked(MultiBinary(5), MultiDiscrete([2, 3]), [bits(0, 1, 1, 0, 1)]))
    rows = np.stack([env.reset()[0]] * 4000)
    actions = np.zeros((4000, 2), np.int64)
    take_allowed(actions, rows, env.emulated, np.random.default_rng(0))
    assert set(actions[:, 0]) == {1}
    assert set(actions[:, 1]) == {0, 2}
    # Standard error 0.008: four of them.
    assert (actions[:, 1] == 0).mean() == pytest.approx(0.5, abs=0.032)


def test_only_the_choices_of_a_mixed_action_are_overwritten():
    mask = {"how": {"tool": bits(0, 1)}, "go": bits(0, 0, 1)}
    env = emulate(masked(Dict(how=Dict(tool=MultiBinary(2)), go=MultiBinary(3)), ACTIONS, [mask]))
    actions = np.array([[0, 0, 0.25, -0.5]], np.float32)
    take_allowed(actions, env.reset()[0][None], env.emulated, np.zeros((1, 5)))
    assert actions.tolist() == [[2, 1, 0.25, -0.5]]
