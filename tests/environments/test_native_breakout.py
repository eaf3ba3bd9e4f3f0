"""Native Breakout: its rules worked out by hand, its invariants, a player that clears the wall."""

import zlib

import needs
import numpy as np
import pytest
from game_worlds import in_situation, records_of, worlds_of
from hypothesis import given, settings
from hypothesis import strategies as st

from pufferlib.environments.ocean.native import NativeBreakout
from pufferlib.exceptions import ConfigError

pytestmark = needs.compiled_core

STAY, LEFT, RIGHT = range(3)
WORTH = np.array([7, 7, 4, 4, 1, 1])
COLUMNS = 1 << np.arange(1, 19)  # bits of a row
FULL = int(COLUMNS.sum())


def chase(observations, rng, width=0.11):
    """Go where the ball is, to meet it with a random part of the paddle."""
    gap = observations[:, 1] - observations[:, 0] + rng.uniform(-width, width, len(observations))
    return np.where(gap > 0.03, RIGHT, np.where(gap < -0.03, LEFT, STAY))


def play_one(action=STAY, max_steps=100, **world):
    """The environment of one game and its world after a frame from a situation."""
    env = in_situation(NativeBreakout(1, frameskip=1, max_steps=max_steps), **world)
    infos = env.step(np.array([action]))
    return env, worlds_of(env)[0], infos


def ball(world):
    return tuple(world[["x", "y", "vx", "vy"]].tolist())


def wall(*bricks):
    """Rows of bits, of the bricks (row, column) from the upper left."""
    rows = np.zeros(6, np.uint32)
    for row, column in bricks:
        rows[row] |= COLUMNS[column]
    return rows


def standing(bricks):
    """Bits as booleans: which bricks stand, (…, 6, 18)."""
    return (bricks[..., None] & COLUMNS) > 0


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ((40, 50, 1, -1.5), (41, 48.5, 1, -1.5)),
        ((5, 50, -1.5, 1), (4.5, 51, 1.5, 1)),
        ((75.5, 50, 1.5, 1), (75, 51, -1.5, 1)),
        ((40, 2.5, 1, -1.5), (41, 3, 1, 1.5)),
        ((4.5, 2.5, -1, -1), (4.5, 2.5, 1, 1)),
        ((75.5, 11, 1, 0.5), (75.5, 11.5, -1, 0.5)),
        ((40, 23.5, 0, 1), (40, 24.5, 0, 1)),
    ],
)
def test_the_ball_flies_straight_and_off_the_walls(before, after):
    _, world, _ = play_one(**dict(zip(("x", "y", "vx", "vy"), before, strict=True)), bricks=wall())
    assert ball(world) == after


@pytest.mark.parametrize(
    ("before", "after", "row", "column"),
    [
        ((42, 24.5, 0.5, -1), (42.5, 24.5, 0.5, 1), 5, 9),  # from below
        ((42, 11.5, 0.5, 1), (42.5, 11.5, 0.5, -1), 0, 9),  # from above
        ((39.5, 17, 1, 0.5), (39.5, 17.5, -1, 0.5), 2, 9),  # from the left
        ((44.5, 15, -1, 0.5), (44.5, 15.5, 1, 0.5), 1, 9),  # from the right
        ((5, 24.5, -1.5, -1), (4.5, 24.5, 1.5, 1), 5, 0),  # and off the side wall in one frame
    ],
)
def test_a_brick_turns_the_ball_back_and_is_gone(before, after, row, column):
    situation = dict(zip(("x", "y", "vx", "vy"), before, strict=True))
    bricks = wall((row, column), (5, 17))
    env, world, infos = play_one(**situation, bricks=bricks, left=2)
    assert ball(world) == after
    assert world["bricks"].tolist() == wall((5, 17)).tolist()
    assert (world["points"], world["left"]) == (WORTH[row], 1)
    assert env.rewards.tolist() == [np.float32(WORTH[row]) * np.float32(0.1)]
    assert np.flatnonzero(env.observations[0, 7:]).tolist() == [5 * 18 + 17]
    assert infos == []


# The ball at (39.5, 23.5) is in the cell of row 5 and column 8, and flies up to the right.
@pytest.mark.parametrize(
    ("velocity", "bricks", "after"),
    [
        ((1, -1), [(4, 8), (5, 9)], (39.5, 22.5, -1, -1)),
        ((1, -1), [(4, 9)], (40.5, 22.5, 1, -1)),
        ((1, -1.75), [(4, 8), (5, 9)], (39.5, 22.25, -1, 1.75)),
        ((1, -1.75), [(4, 9)], (40.5, 22.25, 1, 1.75)),
        ((0.75, -1.75), [(4, 9)], (40.25, 22.25, 0.75, 1.75)),
        ((0.75, -1.875), [(4, 8)], (40.25, 21.625, 0.75, -1.875)),
        ((0.5625, -1.875), [(4, 9)], (39.9375, 21.625, -0.5625, -1.875)),
        ((0.5625, -1.875), [(5, 9)], (40.0625, 21.625, 0.5625, -1.875)),
    ],
)
def test_of_two_edges_the_nearer_comes_first(velocity, bricks, after):
    vx, vy = velocity
    others = [(0, 0)]
    _, world, _ = play_one(x=39.5, y=23.5, vx=vx, vy=vy, bricks=wall(*bricks, *others), left=9)
    assert ball(world) == after


@pytest.mark.parametrize(
    ("x", "paddle", "after"),
    [
        (40, 40, (40, 70 - 0.65625, 0, -1.3125)),
        (45, 40, (45.525, 70 - 0.39375, 1.05, -0.7875)),
        (35, 40, (34.475, 70 - 0.39375, -1.05, -0.7875)),
    ],
)
def test_the_paddle_returns_it_faster_and_at_the_angle_of_the_place(x, paddle, after):
    _, world, _ = play_one(x=x, y=69.5, vx=0, vy=1, paddle=paddle, speed=1.25)
    np.testing.assert_allclose(ball(world), after, rtol=1e-6)
    assert world["speed"] == 1.3125
    assert world["balls"] == 5


def test_the_ball_has_a_greatest_speed():
    _, world, _ = play_one(x=40, y=69.5, vx=0, vy=1.875, paddle=40, speed=1.875)
    assert world["speed"] == -world["vy"] == 1.875


def test_a_ball_beside_the_paddle_is_lost_and_the_next_is_served():
    env, world, infos = play_one(x=45.01, y=69.5, vx=0, vy=1, paddle=40, speed=1.5, points=3)
    assert (world["balls"], world["y"], world["speed"], world["points"]) == (4, 36, 1.25, 3)
    assert 5 <= world["x"] <= 75
    assert np.hypot(world["vx"], world["vy"]) == pytest.approx(1.25, rel=1e-6)
    assert world["vy"] >= 0.75
    assert env.rewards.tolist() == [0]
    assert not env.terminals[0]
    assert infos == []


def test_the_last_ball_ends_the_episode():
    situation = {"x": 60, "y": 69.5, "vx": 0, "vy": 1, "paddle": 40}
    env, world, infos = play_one(**situation, balls=1, points=54, tick=80, bricks=wall((0, 1)))
    assert (env.terminals[0], env.truncations[0]) == (True, False)
    assert records_of(infos).tolist() == [(0.125, pytest.approx(5.4), 81)]
    assert (world["balls"], world["left"], world["points"], world["tick"]) == (5, 108, 0, 0)
    assert world["bricks"].tolist() == [FULL] * 6
    assert env.observations[0, 7:].all()


def test_the_last_brick_ends_the_episode_with_the_best_score():
    env, world, infos = play_one(
        x=42, y=24.5, vx=0.5, vy=-1, bricks=wall((5, 9)), left=1, points=431
    )
    assert (env.terminals[0], env.truncations[0]) == (True, False)
    assert env.rewards[0] == np.float32(0.1)
    assert records_of(infos).tolist() == [(1.0, pytest.approx(43.2), 1)]
    assert world["left"] == 108


def test_the_limit_truncates_and_shows_the_end():
    env, world, infos = play_one(
        max_steps=9, x=42, y=24.5, vx=0.5, vy=-1, bricks=wall((0, 2), (5, 9)), left=2, tick=8
    )
    assert (env.terminals[0], env.truncations[0]) == (False, True)
    last = env.final_observations[0]
    numbers = [0, 2.5 / 36, -11.5 / 34, 0.5 / 1.875, 1 / 1.875, 1 / 432, 1]
    np.testing.assert_array_equal(last[:7], np.array(numbers, np.float32))
    assert np.flatnonzero(last[7:]).tolist() == [2]
    assert records_of(infos).tolist() == [(np.float32(1 / 432), pytest.approx(0.1), 9)]
    assert (world["tick"], world["left"]) == (0, 108)
    assert env.observations[0, 7:].all()


@pytest.mark.parametrize(("action", "there"), [(LEFT, 9), (RIGHT, 71), (STAY, 40)])
def test_the_paddle_moves_and_stops_at_the_walls(action, there):
    env = in_situation(NativeBreakout(1, frameskip=1), x=40, y=30, vx=0, vy=-1)
    env.step(np.array([action]))
    assert worlds_of(env)["paddle"] == 40 + 1.5 * np.sign(there - 40)
    for _ in range(20):
        env.step(np.array([action]))
    assert worlds_of(env)["paddle"] == there


def test_a_step_of_several_frames_is_as_many_steps_with_the_same_action():
    single, skipping = NativeBreakout(20, frameskip=1), NativeBreakout(20, frameskip=3)
    rng = np.random.default_rng(4)
    for env in (single, skipping):
        env.reset(seed=4)
    playing = np.ones(20, bool)
    for _ in range(60):
        actions, rewards = chase(skipping.observations, rng), np.zeros(20, np.float32)
        skipping.step(actions)
        for _ in range(3):
            single.step(actions)
            rewards += single.rewards
            playing &= ~single.terminals
        np.testing.assert_allclose(skipping.rewards[playing], rewards[playing], rtol=1e-6)
        np.testing.assert_array_equal(skipping.observations[playing], single.observations[playing])
    assert playing.any()
    assert (worlds_of(single)["points"][playing] > 0).any()


def require_possible(worlds):
    """What holds in every world at any time."""
    x, y = worlds["x"], worlds["y"]
    assert ((x >= 4) & (x <= 76) & (y >= 2) & (y <= 70)).all()
    assert ((worlds["paddle"] >= 9) & (worlds["paddle"] <= 71)).all()
    assert ((worlds["speed"] >= 1.25) & (worlds["speed"] <= 1.875)).all()
    np.testing.assert_allclose(np.hypot(worlds["vx"], worlds["vy"]), worlds["speed"], rtol=1e-6)
    assert (np.abs(worlds["vy"]) >= 0.599 * worlds["speed"]).all()
    bricks = standing(worlds["bricks"])
    np.testing.assert_array_equal(bricks.sum((1, 2)), worlds["left"])
    np.testing.assert_array_equal((~bricks).sum(2) @ WORTH, worlds["points"])
    row, column = (y / 2).astype(int) - 6, (x / 4).astype(int) - 1
    beside = (row < 0) | (row > 5) | (column > 17)
    assert not (bricks[np.arange(len(x)), row.clip(0, 5), column.clip(0, 17)] & ~beside).any()


def expected_observations(worlds):
    """From the docstring."""
    numbers = [
        (worlds["paddle"] - 40) / np.float32(36),
        (worlds["x"] - 40) / np.float32(36),
        (worlds["y"] - 36) / np.float32(34),
        worlds["vx"] / np.float32(1.875),
        worlds["vy"] / np.float32(1.875),
        worlds["points"] / np.float32(432),
        worlds["balls"] / np.float32(5),
    ]
    bricks = standing(worlds["bricks"]).reshape(len(worlds), -1)
    return np.concatenate([np.stack(numbers, 1), bricks], axis=1).astype(np.float32)


@settings(max_examples=5)
@given(seed=st.integers(0, 2**63 - 1), frameskip=st.integers(1, 6))
def test_invariants(seed, frameskip):
    env, rng = NativeBreakout(12, frameskip=frameskip), np.random.default_rng(seed)
    env.reset(seed)
    before = worlds_of(env)
    for _ in range(80):
        infos = env.step(chase(env.observations, rng))
        worlds, ended = worlds_of(env), env.terminals
        require_possible(worlds)
        np.testing.assert_array_equal(env.observations, expected_observations(worlds))
        going = ~ended
        assert not (worlds["bricks"] & ~before["bricks"])[going].any()
        assert (worlds["balls"] <= before["balls"])[going].all()
        gained = np.rint(env.rewards * 10)
        np.testing.assert_array_equal(worlds["points"][going], (before["points"] + gained)[going])
        assert (worlds["tick"] == np.where(ended, 0, before["tick"] + 1)).all()
        if ended.any():
            found = records_of(infos)
            points = (before["points"] + gained)[ended]
            np.testing.assert_allclose(found.score, points / 432, rtol=1e-6)
            np.testing.assert_allclose(found.episode_return, points / 10, rtol=1e-6)
            np.testing.assert_array_equal(found.episode_length, before["tick"][ended] + 1)
        before = worlds


def test_the_picture_shows_walls_bricks_paddle_and_ball():
    env = NativeBreakout(2, render_mode="rgb_array")
    in_situation(env, x=30.5, y=40.25, paddle=50, bricks=wall((0, 0), (5, 17)))
    picture = env.render()[::4, ::4].astype(int)
    assert picture.shape == (72, 80, 3)
    bright, grey = picture.sum(2), [128] * 3
    assert (picture[:2] == grey).all()
    assert (picture[:, [0, 3, 76, 79]] == grey).all()
    field = bright[2:, 4:76]
    white = {(38, 26), *((68, x) for x in range(41, 51))}
    bricks = {(y, x) for y in (10, 11) for x in range(4)}
    bricks |= {(y, x) for y in (20, 21) for x in range(68, 72)}
    assert set(zip(*np.nonzero(field == 3 * 255), strict=True)) == white
    assert set(zip(*np.nonzero(field), strict=True)) == white | bricks


def test_a_player_that_follows_the_ball_clears_the_wall():
    env, rng, infos = NativeBreakout(8, frameskip=1), np.random.default_rng(3), []
    env.reset(seed=3)
    for _ in range(9000):
        infos += env.step(chase(env.observations, rng))
    found = records_of(infos)
    assert len(found) >= 8
    assert (found.score == 1).all()


def test_random_play_of_a_seed():
    """Fixed for ever."""
    env, rng, infos, digest = NativeBreakout(64, frameskip=2), np.random.default_rng(7), [], 0
    env.reset(seed=7)
    for step in range(300):
        actions = chase(env.observations, rng)
        infos += env.step(actions if step < 200 else rng.integers(3, size=64))
        for rows in (env.observations, env.rewards, env.terminals):
            digest = zlib.crc32(rows.tobytes(), digest)
    found = records_of(infos)
    assert (digest, len(found), round(float(found.score.sum()) * 432)) == (4050993570, 25, 149)


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"num_agents": 0}, "num_worlds: expected at least 1, got 0"),
        ({"frameskip": 0}, "frameskip: expected 1 to 64, got 0"),
        ({"frameskip": 65}, "frameskip: expected 1 to 64, got 65"),
        ({"max_steps": 0}, "max_steps: expected at least 1, got 0"),
    ],
)
def test_impossible_games_are_refused(kwargs, message):
    with pytest.raises(ConfigError, match=message):
        NativeBreakout(**kwargs)
