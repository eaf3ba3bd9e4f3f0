"""Old spaces in Gymnasium's terms, and which keywords a function takes."""

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from old_spaces import BOX, DISCRETE, old_space
from toys import PAIR

from pufferlib.exceptions import APIUsageError
from pufferlib.wrappers import accepts, to_gymnasium_space
from pufferlib.wrappers.conversion import reset_keywords


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (BOX, spaces.Box(0, 1, (2,), np.float32)),
        (DISCRETE, spaces.Discrete(3)),
        (old_space("Discrete", n=3, start=2), spaces.Discrete(3, start=2)),
        (old_space("MultiDiscrete", nvec=np.array([2, 3])), spaces.MultiDiscrete([2, 3])),
        (old_space("MultiBinary", n=4), spaces.MultiBinary(4)),
        (old_space("Dict", spaces={"a": BOX}), spaces.Dict(a=spaces.Box(0, 1, (2,), np.float32))),
        (old_space("Tuple", spaces=[DISCRETE]), spaces.Tuple([spaces.Discrete(3)])),
        (old_space("DiscreteSpace", n=3), spaces.Discrete(3)),
    ],
    ids=lambda value: type(value).__name__,
)
def test_old_spaces_become_todays(old, new):
    assert to_gymnasium_space(old) == new


@pytest.mark.smoke
def test_todays_spaces_pass_and_others_are_refused():
    assert to_gymnasium_space(PAIR) is PAIR
    with pytest.raises(APIUsageError, match="expected a Gym or Gymnasium space, got .*str"):
        to_gymnasium_space("Box")


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (lambda: None, False),
        (lambda seed: None, True),
        (lambda *, seed=None: None, True),
        (lambda **kwargs: None, True),
        (gymnasium.Env.reset, True),
        (dict, True),
    ],
)
def test_accepts(function, expected):
    assert accepts(function, "seed") is expected


def test_resets_get_what_was_given_and_no_options_that_they_do_not_take():
    assert reset_keywords(lambda seed, options: None, 3, {"level": 1}) == {
        "seed": 3,
        "options": {"level": 1},
    }
    assert reset_keywords(lambda: None, None, None) == {}
    assert reset_keywords(lambda: None, None, {}) == {}
    with pytest.raises(APIUsageError, match="got {'level': 1}, but the environment takes none"):
        reset_keywords(lambda seed: None, 3, {"level": 1})
