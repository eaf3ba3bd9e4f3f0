"""Advantages by hand, and the two classic mistakes: time limits and segment edges."""

import numpy as np
import pytest

from pufferlib.trainer.advantage import estimate_advantages, valid_transitions
from pufferlib.trainer.experience import Choice, Experience, Rows


def floats(*rows):
    return np.array(rows, np.float32)


def bools(*rows):
    return np.array([[letter == "1" for letter in row] for row in rows])


def test_every_sample_of_a_segment_has_a_real_advantage():
    # Rewards 1, values 0, gamma = lambda = 1, bootstrap value 10: A_t = remaining rewards + 10.
    ones, zeros = np.ones((2, 4), np.float32), np.zeros((2, 4), np.float32)
    next_values = floats([0, 0, 0, 10], [0, 0, 0, 10])
    none = bools("0000", "0000")
    advantages = estimate_advantages(ones, zeros, next_values, none, none, ~none, 1.0, 1.0)
    assert advantages.tolist() == [[14, 13, 12, 11]] * 2

    ones[1] = next_values[1] = 1e9
    advantages = estimate_advantages(ones, zeros, next_values, none, none, ~none, 1.0, 1.0)
    assert advantages[0].tolist() == [14, 13, 12, 11]


def test_termination_truncation_and_gaps_by_hand():
    # gamma = lambda = 0.5. Column by column, from the back:
    #   A_4 = 5 + .5 * 8 - 1 = 8
    #   A_3 = invalid = 0
    #   A_2 = 3 + .5 * 6 - 1 = 5          truncated: V(final) counts, A_3 does not
    #   A_1 = 2 + 0      - 1 = 1          terminal: neither counts
    #   A_0 = 1 + .5 * 4 - 1 + .25 * 1 = 2.25
    rewards = floats([1, 2, 3, np.nan, 5])
    values = floats([1, 1, 1, np.nan, 1])
    next_values = floats([4, 99, 6, np.nan, 8])
    terminals, dones = bools("01000"), bools("01100")
    valid = bools("11101")
    advantages = estimate_advantages(
        rewards, values, next_values, terminals, dones, valid, 0.5, 0.5
    )
    assert advantages.tolist() == [[2.25, 1, 5, 0, 8]]


def test_strided_views_are_taken_too():
    wide = np.ones((2, 5), np.float32)
    none = np.zeros((2, 5), np.bool_)
    advantages = estimate_advantages(
        wide[:, 1:], wide[:, :-1], wide[:, 1:], none[:, 1:], none[:, 1:], ~none[:, 1:], 1.0, 1.0
    )
    assert advantages.tolist() == [[4, 3, 2, 1]] * 2


@pytest.mark.parametrize(
    ("same_step", "expected"),
    [(False, "1110000100"), (True, "1111000110")],
)
def test_validity(same_step, expected):
    #            rows: f n n u f - - f t f -
    masks = bools("11111001110")
    dones = bools("00010000100")
    valid = valid_transitions(masks, dones, same_step)
    # same step: the row that reports an end is acted upon like any other
    assert valid.tolist() == bools(expected).tolist()


def experience_of(same_step):
    from gymnasium.spaces import Box, Discrete

    return Experience(
        Box(0, 9, (1,), np.float32),
        Discrete(2),
        1,
        horizon=12,
        segments=1,
        in_step=True,
        same_step=same_step,
    )


def targets_of(value, kind, same_step):
    """One segment of 5-step episodes with reward 1; the critic is the table `value` (6 times)."""
    experience = experience_of(same_step)
    clocks = [step % (5 if same_step else 6) for step in range(13)]
    for step, clock in enumerate(clocks):
        is_end = (clock == 0 and step > 0) if same_step else clock == 5
        is_first = clock == 0 and not (same_step and is_end)
        rows = Rows(
            agents=np.array([0]),
            observations=floats([clock]),
            rewards=np.array([0.0 if is_first else 1.0], np.float32),
            terminals=np.array([is_end and kind == "terminal"]),
            truncations=np.array([is_end and kind == "truncation"]),
            masks=np.array([True]),
        )
        here = value[[clock]]
        led_to = value[[5]] if same_step and is_end else here
        choice = Choice(
            np.array([0]), np.zeros(1, np.float32), here, led_to, experience.starts_of(rows)
        )
        experience.close(rows, choice)
        if not experience.is_full:
            experience.write(rows, choice)
    segments = experience.collect(0.99, 0.95)
    clock = segments.observations[segments.valid][:, 0].astype(int)
    return clock, (segments.values + segments.advantages)[segments.valid]


@pytest.mark.parametrize("same_step", [False, True])
def test_a_time_limit_does_not_cap_the_value(same_step):
    # Reward 1 for ever at discount 0.99 is worth 100, though episodes are cut every 5 steps.
    value = np.zeros(6, np.float32)
    for _ in range(700):
        clock, targets = targets_of(value, "truncation", same_step)
        for time in range(5):
            value[time] = targets[clock == time].mean()
        value[5] = value[0]  # the same situation as a fresh start: the limit is not observed
    np.testing.assert_allclose(value, 100, atol=0.1)


def test_termination_does_cap_the_value():
    value = np.zeros(6, np.float32)
    for _ in range(20):
        clock, targets = targets_of(value, "terminal", same_step=False)
        for time in range(5):
            value[time] = targets[clock == time].mean()
    expected = [sum(0.99**k for k in range(5 - time)) for time in range(5)]
    np.testing.assert_allclose(value[:5], expected, atol=1e-3)
