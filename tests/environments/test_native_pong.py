"""Native Pong: its rules worked out by hand, its invariants, its mirror."""

import zlib

import needs
import numpy as np
import pytest
from game_worlds import in_situation, put_worlds, records_of, worlds_of
from hypothesis import given, settings
from hypothesis import strategies as st

from pufferlib.environments.ocean.native import NativePong
from pufferlib.exceptions import ConfigError

pytestmark = needs.compiled_core

STAY, UP, DOWN = range(3)
MIRRORED = [1, 0, 2, 3, 4, 5, 7, 6]  # what the other agent calls its own
SIGNS = np.array([1, 1, -1, 1, -1, 1, 1, 1], np.float32)


def chase(observations, rng):
    """Most players go where the ball is, the others anywhere: rallies, and points."""
    above = observations[:, 0] - observations[:, 3]
    actions = np.where(above > 0.05, UP, np.where(above < -0.05, DOWN, STAY))
    return np.where(rng.random(len(actions)) < 0.3, rng.integers(3, size=len(actions)), actions)


def play_one(*actions, **world):
    """The environment of one game and its world after a step from a situation."""
    env = in_situation(NativePong(2, points=3), **world)
    infos = env.step(np.array(actions or (STAY, STAY)))
    return env, worlds_of(env)[0], infos


def ball(world):
    return tuple(world[["x", "y", "vx", "vy"]].tolist())


def test_the_ball_flies_straight_and_off_the_edges():
    assert ball(play_one(x=0, y=3, vx=2, vy=0.5)[1]) == (2, 3.5, 2, 0.5)
    assert ball(play_one(x=0, y=23, vx=-2, vy=2)[1]) == (-2, 23, -2, -2)
    assert ball(play_one(x=0, y=-23.5, vx=2, vy=-1)[1]) == (2, -23.5, 2, 1)


@pytest.mark.parametrize(("side", "agent"), [(-1, 0), (1, 1)])
def test_a_paddle_returns_it_faster_and_at_the_angle_of_the_place(side, agent):
    # It meets the line after half of the step, an eighth of half a paddle below the middle.
    _, world, _ = play_one(x=31 * side, y=0, vx=2 * side, vy=1)
    assert ball(world) == (30.875 * side, 0.640625, -2.25 * side, 0.28125)
    assert world["points"].tolist() == [0, 0]


def test_the_ball_has_a_greatest_speed():
    _, world, _ = play_one(x=-30, y=-2, vx=-5, vy=0, paddles=(0, 0))
    assert ball(world) == (-32 + 5 * 0.6, -2 - 2.5 * np.float32(0.6), 5, -2.5)


@pytest.mark.parametrize("sign", [-1, 1])
@pytest.mark.parametrize(("y", "returned"), [(4, True), (4.001, False)])
def test_the_end_of_a_paddle_still_returns(y, returned, sign):
    env, world, _ = play_one(x=30, y=sign * y, vx=2, vy=0)
    assert (world["x"] == 32) == returned
    assert env.rewards.tolist() == ([0, 0] if returned else [1, -1])


@pytest.mark.parametrize(("side", "rewards"), [(-1, [-1, 1]), (1, [1, -1])])
def test_a_ball_that_passes_is_a_point_and_whoever_has_it_is_served(side, rewards):
    env, world, infos = play_one(x=31 * side, y=20, vx=4 * side, vy=0)
    assert env.rewards.tolist() == rewards
    assert world["points"].tolist() == [max(reward, 0) for reward in rewards]
    assert (world["x"], world["vx"]) == (0, -2 * side)
    assert not env.terminals.any()
    assert infos == []


def test_the_last_point_ends_the_episode():
    env, world, infos = play_one(x=31, y=20, vx=4, vy=0, points=(2, 1), tick=76)
    assert env.terminals.tolist() == [True, True]
    assert not env.truncations.any()
    assert records_of(infos).tolist() == [(1.0, 2.0, 77), (0.0, -2.0, 77)]
    assert world["points"].tolist() == [0, 0]
    assert world["tick"] == world["x"] == 0


def test_the_limit_truncates_and_shows_the_end():
    env = in_situation(NativePong(2, points=4, max_steps=9), x=16, y=6, vx=2, vy=0, tick=8)
    worlds = worlds_of(env)
    worlds["points"] = (3, 1)
    put_worlds(env, worlds)
    infos = env.step(np.array([UP, DOWN]))
    assert env.truncations.tolist() == [True, True]
    assert not env.terminals.any()
    assert records_of(infos).tolist() == [(0.5, 2.0, 9), (0.5, -2.0, 9)]
    left = np.array([-1.5 / 24, 1.5 / 24, 18 / 32, 6 / 24, 2 / 5, 0, 3 / 4, 1 / 4], np.float32)
    np.testing.assert_array_equal(env.final_observations, [left, (SIGNS * left)[MIRRORED]])
    assert env.observations[:, 2].tolist() == [0, 0]


def test_a_point_in_the_last_step_that_wins_is_no_truncation():
    options = {"x": 31, "y": 20, "vx": 4, "vy": 0, "points": (2, 0), "tick": 8}
    env = in_situation(NativePong(2, points=3, max_steps=9), **options)
    (info,) = env.step(np.array([STAY, STAY]))
    assert (env.terminals.all(), env.truncations.any()) == (True, False)
    assert info["score"].tolist() == [1, 0]


@pytest.mark.parametrize(("action", "there"), [(UP, -20), (DOWN, 20), (STAY, 0)])
def test_paddles_move_and_stop_at_the_edges(action, there):
    env = in_situation(NativePong(2, points=100))
    env.step(np.array([action, STAY]))
    assert worlds_of(env)["paddles"].tolist() == [[np.sign(there) * 1.5, 0]]
    for _ in range(13):
        env.step(np.array([action, STAY]))
    assert worlds_of(env)["paddles"].tolist() == [[there, 0]]


def expected_views(worlds, points):
    """The observations of both agents, from the docstring."""
    scale = np.array([24, 24, 32, 24, 5, 5, 1, 1], np.float32)
    columns = [worlds[name] for name in ("x", "y", "vx", "vy")]
    paddles, scores = worlds["paddles"].T, np.float32(worlds["points"].T) * (1 / np.float32(points))
    left = np.stack([*paddles, *columns, *scores], axis=1) / scale
    return np.stack([left, (SIGNS * left)[:, MIRRORED]], axis=1).reshape(-1, 8)


@settings(max_examples=5)
@given(seed=st.integers(0, 2**63 - 1), points=st.integers(1, 5))
def test_invariants(seed, points):
    env, rng = NativePong(12, points=points), np.random.default_rng(seed)
    env.reset(seed)
    before = worlds_of(env)
    for _ in range(80):
        infos = env.step(chase(env.observations, rng))
        worlds = worlds_of(env)
        assert (np.abs(worlds["x"]) <= 32).all()
        assert (np.abs(worlds["y"]) <= 24).all()
        assert (np.abs(worlds["paddles"]) <= 20).all()
        assert ((np.abs(worlds["vx"]) >= 2) & (np.abs(worlds["vx"]) <= 5)).all()
        assert (np.abs(worlds["vy"]) <= np.abs(worlds["vx"])).all()
        np.testing.assert_array_equal(env.observations, expected_views(worlds, points))
        rewards, ended = env.rewards.reshape(-1, 2), env.terminals[::2]
        assert (rewards.sum(1) == 0).all()
        scores = before["points"] + (rewards > 0)
        np.testing.assert_array_equal(worlds["points"][~ended], scores[~ended])
        np.testing.assert_array_equal(ended, scores.max(1) == points)
        if ended.any():
            found = records_of(infos)
            np.testing.assert_array_equal(found.score, (scores == points)[ended].ravel())
            leads = scores - scores[:, ::-1]
            np.testing.assert_array_equal(found.episode_return, leads[ended].ravel())
            assert (found.episode_length == np.repeat(before["tick"][ended] + 1, 2)).all()
        before = worlds


def mirror(worlds):
    """The same games with left and right exchanged."""
    turned = worlds.copy()
    for name in ("paddles", "points"):
        turned[name] = worlds[name][:, ::-1]
    for name in ("x", "vx"):
        turned[name] = -worlds[name]
    return turned


@settings(max_examples=5)
@given(seed=st.integers(0, 2**63 - 1))
def test_a_mirrored_game_goes_the_mirrored_way(seed):
    games = [NativePong(16, points=100) for _ in range(2)]
    for env in games:
        env.reset(seed)
    put_worlds(games[1], mirror(worlds_of(games[0])))
    rng, swap = np.random.default_rng(seed), np.arange(16) ^ 1
    for _ in range(100):
        actions = chase(games[0].observations, rng)
        games[0].step(actions)
        games[1].step(actions[swap])
        worlds, expected = worlds_of(games[1]), mirror(worlds_of(games[0]))
        for name in worlds.dtype.names:
            np.testing.assert_array_equal(worlds[name], expected[name], err_msg=name)
        np.testing.assert_array_equal(games[0].observations, games[1].observations[swap])
        np.testing.assert_array_equal(games[0].rewards, games[1].rewards[swap])
    assert worlds_of(games[0])["points"].any()


def test_the_picture_shows_paddles_ball_and_points():
    env = NativePong(4, render_mode="rgb_array")
    in_situation(env, x=-10.5, y=3, paddles=(-20, 4), points=(2, 1))
    bright = env.render()[::6, ::6].max(2)
    assert bright.shape == (48, 64)
    white = {(27, 21), *((y, 0) for y in range(8)), *((y, 63) for y in range(24, 32))}
    assert set(zip(*np.nonzero(bright == 255), strict=True)) == white
    assert np.flatnonzero(bright[0] == 160).tolist() == [2, 4, 61]
    assert np.flatnonzero((bright == 80).any(0)).tolist() == [32]


def test_random_play_of_a_seed():
    """Fixed for ever."""
    env, rng, infos, digest = NativePong(64, points=2), np.random.default_rng(7), [], 0
    env.reset(seed=7)
    for _ in range(400):
        infos += env.step(chase(env.observations, rng))
        for rows in (env.observations, env.rewards, env.terminals):
            digest = zlib.crc32(rows.tobytes(), digest)
    found = records_of(infos)
    assert (digest, len(found), int(found.episode_length.sum())) == (2273408107, 134, 19970)


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"num_agents": 3}, "num_agents: expected two per game of Pong, got 3"),
        ({"num_agents": 0}, "num_agents: expected two per game of Pong, got 0"),
        ({"points": 0}, "points: expected 1 to 100, got 0"),
        ({"points": 101}, "points: expected 1 to 100, got 101"),
        ({"max_steps": 0}, "max_steps: expected at least 1, got 0"),
    ],
)
def test_impossible_games_are_refused(kwargs, message):
    with pytest.raises(ConfigError, match=message):
        NativePong(**kwargs)
