"""The check that nothing infinite is learnt from: what it looks at, and what it names."""

from types import SimpleNamespace

import numpy as np
import pytest

from pufferlib.exceptions import NonFiniteError
from pufferlib.pytorch import nativize_dtype
from pufferlib.trainer.experience import Rows, Segments
from pufferlib.trainer.finite import require_finite, require_finite_actions

BODY = np.dtype([("hp", np.float32, (2,))], align=True)
STRUCT = np.dtype([("kind", np.int8), ("body", BODY)], align=True)
NATIVE = nativize_dtype(
    SimpleNamespace(observation_dtype=STRUCT, emulated_observation_dtype=np.dtype(np.uint8))
)


def segments(**arrays):
    """Two segments of three transitions; the last transition of the second is not valid."""
    valid = np.ones((2, 3), bool)
    valid[1, 2] = False
    zeros = {name: np.zeros((2, 3), np.float32) for name in (
        "logprobs", "values", "next_values", "rewards", "advantages"
    )}  # fmt: skip
    defaults = {
        "slots": np.array([0, 1]),
        "agents": np.array([4, 7]),
        "first_steps": np.array([30, 60]),
        "observations": np.zeros((2, 3, 5), np.float32),
        "actions": np.zeros((2, 3), np.int64),
        "starts": np.zeros((2, 3), bool),
        "valid": valid,
        "terminals": np.zeros((2, 3), bool),
        "dones": np.zeros((2, 3), bool),
    }
    return Segments(**(defaults | zeros | arrays))


def with_value(shape, index, value, dtype=np.float32):
    array = np.zeros(shape, dtype)
    array[index] = value
    return array


@pytest.mark.parametrize(
    ("name", "array", "message"),
    [
        (
            "observations",
            with_value((2, 3, 5), (1, 1, 4), np.inf),
            r"observations: .*got inf for agent 7 \(environment 3\) at step 61 .*environment deliv",
        ),
        (
            "rewards",  # belongs to the row after
            with_value((2, 3), (0, 2), np.nan),
            r"rewards: .*got nan for agent 4 \(environment 2\) at step 33 .*environment deliv",
        ),
        ("values", with_value((2, 3), (0, 0), -np.inf), "values: .*got -inf for agent 4 .*policy"),
        ("logprobs", with_value((2, 3), (1, 0), np.nan), "logprobs: .*agent 7 .*policy computed"),
        ("advantages", with_value((2, 3), (1, 0), np.nan), "advantages: .*agent 7 .*policy"),
    ],
)
def test_every_quantity_is_named(name, array, message):
    with pytest.raises(NonFiniteError, match=message):
        require_finite(segments(**{name: array}), agents_per_env=2)


def test_samples_that_do_not_count_are_not_looked_at():
    require_finite(
        segments(
            observations=with_value((2, 3, 5), (1, 2), np.nan),
            rewards=with_value((2, 3), (1, 2), np.nan),
            values=with_value((2, 3), (1, 2), np.nan),
        )
    )


def test_observations_of_whole_numbers_pass():
    require_finite(segments(observations=np.full((2, 3), 255, np.uint8)))


def test_leaves_of_structured_observations_are_named():
    rows = np.zeros((2, 3), STRUCT)
    rows["body"]["hp"][0, 1, 1] = np.nan
    observations = rows.view(np.uint8).reshape(2, 3, STRUCT.itemsize)
    with pytest.raises(
        NonFiniteError, match=r"observations\['body'\]\['hp'\]: .*agent 4 .*step 31"
    ):
        require_finite(segments(observations=observations), NATIVE)


def rows(observations, masks=(True, True)):
    none = np.zeros(2, bool)
    return Rows(np.array([4, 7]), observations, np.zeros(2), none, none, np.array(masks))


STEPS = np.array([10, 20])


def test_an_action_that_is_not_finite_is_stopped():
    actions = with_value((2, 2), (1, 0), np.nan)
    with pytest.raises(NonFiniteError, match="actions: .*got nan for agent 7 .*at step 20"):
        require_finite_actions(actions, rows(np.zeros((2, 3), np.float32)), STEPS)


def test_the_observation_behind_it_is_named():
    actions = with_value((2, 2), (1, 0), np.nan)
    observations = with_value((2, 3), (1, 2), np.inf)
    with pytest.raises(NonFiniteError, match="observations: .*got inf for agent 7 .*at step 20"):
        require_finite_actions(actions, rows(observations), STEPS)


def test_actions_of_absent_agents_and_choices_pass():
    actions = with_value((2, 2), (1, 0), np.nan)
    observations = np.zeros((2, 3), np.float32)
    require_finite_actions(actions, rows(observations, masks=(True, False)), STEPS)
    require_finite_actions(np.zeros((2, 2), np.int64), rows(observations), STEPS)
