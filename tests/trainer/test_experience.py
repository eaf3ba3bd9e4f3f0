"""Storage: the table of row kinds, agents at different rates, nothing lost and nothing twice."""

import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete, MultiDiscrete

from pufferlib.spaces import Mixed
from pufferlib.trainer.experience import Choice, Experience, Rows

CELL = Box(-np.inf, np.inf, (2,), np.float32)


def make(num_agents=1, horizon=4, segments=1, in_step=True, same_step=False, **spaces):
    experience = Experience(
        spaces.get("observation_space", CELL),
        spaces.get("action_space", Discrete(9)),
        num_agents,
        horizon,
        segments,
        in_step,
        same_step,
    )
    poison(experience)
    return experience


def poison(experience):
    """Values that nobody writes, so that one that was forgotten shows."""
    for name in ("observations", "actions", "logprobs", "values", "rewards", "next_values"):
        array = getattr(experience, name)
        array.fill(np.nan if array.dtype.kind == "f" else 99)
    for name in ("starts", "terminals", "truncations", "masks"):
        getattr(experience, name).fill(True)


def rows_at(agents, times, **columns):
    """Normal rows whose observation is (agent, time) and whose reward is the time."""
    agents, times = np.asarray(agents), np.asarray(times)
    none = np.zeros(len(agents), np.bool_)
    defaults = {
        "agents": agents,
        "observations": np.stack([agents, times], -1).astype(np.float32),
        "rewards": times.astype(np.float32),
        "terminals": none,
        "truncations": none,
        "masks": ~none,
    }
    return Rows(**(defaults | {name: np.array(column) for name, column in columns.items()}))


def choice_for(experience, rows):
    """Action time mod 9, log-probability -time, value 10 * time: all read from the rows."""
    times = rows.observations[:, 1]
    return Choice(
        actions=(times % 9).astype(np.int64),
        logprobs=-times,
        values=10 * times,
        next_values=10 * times,
        starts=experience.starts_of(rows),
    )


def feed(experience, rows):
    """One step of the loop; False once the batch is full (the rows are then still to be sent)."""
    choice = choice_for(experience, rows)
    experience.close(rows, choice)
    if experience.is_full:
        return False
    experience.write(rows, choice)
    return True


# The rows of an episode, as docs/pages/rows.md has them, and what must follow from each.
TABLE = [
    # kind,                 flags, mask, begins a life, is a sample
    ("after reset",         "",    1,    1,             1),
    ("normal",              "",    1,    0,             1),
    ("last, terminal",      "t",   1,    0,             0),
    ("auto-reset",          "",    1,    1,             1),
    ("normal",              "",    1,    0,             1),
    ("last, truncated",     "u",   1,    0,             0),
    ("auto-reset",          "",    1,    1,             1),
    ("last, both",          "tu",  1,    0,             0),
    ("absent",              "",    0,    0,             0),
    ("absent",              "",    0,    0,             0),
    ("spawned",             "",    1,    1,             1),
    ("normal, then absent", "",    1,    0,             0),
    ("absent",              "",    0,    0,             0),
    ("spawned",             "",    1,    1,             1),
    ("normal",              "",    1,    0,             1),
]  # fmt: skip


def test_the_table_of_row_kinds():
    experience = make(horizon=len(TABLE))
    for time, (_, flags, mask, _, _) in enumerate(TABLE):
        rows = rows_at(
            [0], [time], terminals=["t" in flags], truncations=["u" in flags], masks=[bool(mask)]
        )
        assert feed(experience, rows)
    assert not feed(experience, rows_at([0], [len(TABLE)]))
    segments = experience.collect(gamma=1.0, lam=0.0)
    for time, (kind, _, mask, start, sample) in enumerate(TABLE):
        assert (segments.starts[0, time], segments.valid[0, time]) == (start, sample), (time, kind)
        if sample:  # (obs_t, action_t, reward_{t+1})
            assert segments.observations[0, time].tolist() == [0, time]
            assert segments.actions[0, time] == time % 9
            assert segments.rewards[0, time] == time + 1
        if not mask:
            assert segments.observations[0, time].tolist() == [0, 0]
    # One-step advantages r + V' - V with r = t + 1 and V = 10 t, that is t + 11; a terminal takes
    # V' away (2 - 10 and 7 - 60), a truncation does not.
    expected = [11, 2 - 10, 0, 14, 15, 0, 7 - 60, 0, 0, 0, 21, 0, 0, 24, 25]
    assert segments.advantages[0].tolist() == expected
    assert experience.count_valid() == sum(sample for *_, sample in TABLE)


def test_same_step_reset_starts_on_the_row_that_reports_the_end():
    experience = make(horizon=4, same_step=True)
    for time in range(4):
        feed(experience, rows_at([0], [time], truncations=[time == 2]))
    feed(experience, rows_at([0], [4]))
    segments = experience.collect(1.0, 1.0)
    assert segments.starts.tolist() == [[True, False, True, False]]
    assert segments.valid.all()


def test_a_present_row_after_an_absence_begins_a_life_across_segments():
    experience = make(horizon=2)
    for time, mask in enumerate([1, 0]):
        feed(experience, rows_at([0], [time], masks=[bool(mask)]))
    rows = rows_at([0], [2])
    assert not feed(experience, rows)
    experience.release()
    feed(experience, rows)
    assert experience.starts_of(rows_at([0], [3])).tolist() == [False]
    assert experience.starts[0, 0]


def transitions(segments):
    """(agent, time of the observation, action, reward, advantage inputs) of every sample."""
    found = []
    for index, agent in enumerate(segments.agents):
        for step in np.flatnonzero(segments.valid[index]):
            observed_agent, time = segments.observations[index, step]
            assert observed_agent == agent
            assert segments.first_steps[index] + step == time
            assert segments.actions[index, step] == time % 9
            assert segments.logprobs[index, step] == -time
            assert segments.values[index, step] == 10 * time
            assert segments.next_values[index, step] == 10 * (time + 1)
            assert segments.rewards[index, step] == time + 1
            found.append((int(agent), int(time)))
    return found


@pytest.mark.parametrize("segments", [1, 2, 3, 5, 8])
@pytest.mark.parametrize("per_batch", [1, 2, 3, 4])
def test_agents_that_come_first_at_different_rates_lose_nothing(segments, per_batch):
    num_agents, horizon = 4, 3
    rng = np.random.default_rng(segments * 10 + per_batch)
    experience = make(num_agents, horizon, segments, in_step=per_batch == num_agents)
    clocks, seen = np.zeros(num_agents, int), []
    agents = rng.permutation(num_agents)[:per_batch]
    for _ in range(12):
        while feed(experience, rows_at(agents, clocks[agents])):
            clocks[agents] += 1
            agents = rng.choice(num_agents, per_batch, replace=False, p=[0.4, 0.3, 0.2, 0.1])
        batch = experience.collect(0.9, 0.9)
        assert len(batch.slots) >= segments
        seen += transitions(batch)
        experience.release()
        assert feed(experience, rows_at(agents, clocks[agents]))  # continued, not repeated
        clocks[agents] += 1
        agents = rng.choice(num_agents, per_batch, replace=False)
    for agent in range(num_agents):
        times = sorted(time for owner, time in seen if owner == agent)
        assert times == list(range(len(times)))
        assert len(times) % horizon == 0


def test_agents_in_step_are_stored_and_read_without_a_copy():
    experience = make(num_agents=3, horizon=2, segments=3)
    assert experience.num_slots == 3
    for time in range(3):
        feed(experience, rows_at([0, 1, 2], [time] * 3))
    segments = experience.collect(1.0, 1.0)
    assert np.shares_memory(segments.observations, experience.observations)
    assert sorted(transitions(segments)) == [(a, t) for a in range(3) for t in range(2)]


def test_the_last_row_of_a_segment_is_the_first_of_the_next():
    experience = make(horizon=2)
    flags = {"truncations": [True]}
    for time in range(2):
        feed(experience, rows_at([0], [time]))
    assert not feed(experience, rows_at([0], [2], **flags))
    experience.collect(1.0, 1.0)
    experience.release()
    for time in (2, 3):
        feed(experience, rows_at([0], [time], **(flags if time == 2 else {})))
    assert not feed(experience, rows_at([0], [4]))
    assert experience.collect(1.0, 1.0).valid.tolist() == [[False, True]]


def test_clearing_forgets_open_segments_and_lives():
    experience = make(num_agents=2, horizon=3, segments=2)
    for time in range(2):
        feed(experience, rows_at([0, 1], [time, time]))
    experience.clear()
    assert experience.starts_of(rows_at([0, 1], [0, 0])).all()
    for time in range(4):
        feed(experience, rows_at([0, 1], [time, time]))
    segments = experience.collect(1.0, 1.0)
    assert segments.first_steps.tolist() == [0, 0]
    assert sorted(transitions(segments)) == [(a, t) for a in range(2) for t in range(3)]


@pytest.mark.parametrize(
    "space", [Box(0, 255, (5,), np.uint8), Discrete(7, start=-2), Box(0, 1, (), np.float64)]
)
def test_observations_keep_their_dtype(space):
    experience = make(observation_space=space)
    assert experience.observations.dtype == space.dtype
    assert experience.observations.shape == (1, 4, *space.shape)


@pytest.mark.parametrize(
    ("space", "shape", "dtype"),
    [
        (Discrete(3), (), np.int64),
        (MultiDiscrete([2, 3]), (2,), np.int64),
        (Box(-1, 1, (2, 2), np.float32), (2, 2), np.float32),
        (Mixed([3], [-1.0], [1.0]), (2,), np.float32),
    ],
)
def test_actions_have_the_layout_of_their_space(space, shape, dtype):
    experience = make(action_space=space)
    assert experience.actions.shape == (1, 4, *shape)
    assert experience.actions.dtype == dtype


def test_absent_rows_never_reach_the_network_again():
    experience = make(horizon=2)
    bad = {"observations": [[np.nan, 1e9]], "rewards": [np.nan], "masks": [False]}
    feed(experience, rows_at([0], [0]))
    feed(experience, rows_at([0], [1], **bad))
    feed(experience, rows_at([0], [2]))
    segments = experience.collect(0.9, 0.9)
    assert segments.observations[0, 1].tolist() == [0, 0]
    assert np.isfinite(segments.logprobs).all()
    assert segments.advantages.tolist() == [[0, 0]]
    assert experience.count_valid() == 0
