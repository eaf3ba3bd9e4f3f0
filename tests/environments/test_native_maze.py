"""Native Maze: levels that are trees, the rules against slow ones, searches, levels by number."""

import zlib

import needs
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from native_games import random_actions

from pufferlib.environments.ocean.native import NativeMaze
from pufferlib.exceptions import ConfigError

pytestmark = needs.compiled_core

WALL, EXPLORED, TRAIL, NEW, GOAL = -1, 0, 1, 2, 3
MOVES = np.array([(0, -1), (0, 1), (-1, 0), (1, 0)])


def make(num_agents, size, **options):
    """Mazes in which the agent sees everything."""
    return NativeMaze(num_agents, size=size, view=2 * size - 1, **options)


class Map:
    """One maze in NumPy, made of a view that shows everything: all cells but the outer wall."""

    def __init__(self, view):
        rows, columns = np.nonzero(view != WALL)
        corner = np.array([rows.min(), columns.min()])
        self.squares = view[rows.min() : rows.max() + 1, columns.min() : columns.max() + 1].copy()
        self.at = tuple(len(view) // 2 - corner)

    def neighbour(self, action):
        row, column = np.add(self.at, MOVES[action])
        inside = 0 <= row < len(self.squares) and 0 <= column < len(self.squares)
        is_open = inside and self.squares[row, column] != WALL
        return (row, column) if is_open else self.at

    def move(self, action):
        """Whether the goal was reached."""
        there = self.neighbour(action)
        if there == self.at:
            return False
        found = self.squares[there]
        self.squares[self.at] = EXPLORED if found == TRAIL else TRAIL
        self.squares[there] = TRAIL
        self.at = there
        return found == GOAL

    def framed(self, width=1):
        """With so much wall around."""
        return np.pad(self.squares, width, constant_values=WALL)

    def view(self, radius):
        """What is around the agent."""
        around = self.framed(radius)
        row, column = self.at
        return around[row : row + 2 * radius + 1, column : column + 2 * radius + 1]

    def ways(self):
        """The actions that lead to each square that can be reached, by breadth-first search."""
        found, last, start = {self.at: []}, [self.at], self.at
        while last:
            reached = []
            for square in last:
                for action in range(4):
                    self.at = square
                    there = self.neighbour(action)
                    if there not in found:
                        found[there] = [*found[square], action]
                        reached.append(there)
            last = reached
        self.at = start
        return found


@settings(max_examples=20)
@given(size=st.integers(2, 7), seed=st.integers(0, 2**63 - 1))
def test_levels_are_trees_whose_goal_can_be_reached(size, seed):
    env = make(3, size)
    env.reset(seed)
    for view in env.observations:
        level = Map(view)
        assert level.squares.shape == (2 * size - 1, 2 * size - 1)
        assert (level.squares[::2, ::2] != WALL).all()
        assert (level.squares[1::2, 1::2] == WALL).all()
        # A connected graph with one edge less than nodes is a tree.
        assert (level.squares != WALL).sum() == size**2 + size**2 - 1
        assert len(level.ways()) == 2 * size**2 - 1
        assert (level.squares == GOAL).sum() == (level.squares == TRAIL).sum() == 1
        assert (level.squares == NEW).sum() == 2 * size**2 - 3
        assert level.squares[level.at] == TRAIL


def test_the_picture_is_the_map():
    env = make(1, 3, render_mode="rgb_array")
    env.reset(seed=2)
    for action in random_actions(env, 15):
        env.step(action)
    level = Map(env.observations[0])
    picture = env.render()[::37, ::37]
    colours = [[0x28, 0x2C, 0x3C], [0x96] * 3, [0x6E, 0xAA, 0xE6], [0xEB, 0xEB, 0xE1]]
    expected = np.array([*colours, [0x3C, 0xBE, 0x5A]])[level.framed() - WALL]
    expected[level.at[0] + 1, level.at[1] + 1] = [0xFA, 0xD2, 0x32]
    np.testing.assert_array_equal(picture, expected)


@settings(max_examples=10)
@given(size=st.integers(2, 6), seed=st.integers(0, 2**63 - 1))
def test_the_shortest_way_scores_one(size, seed):
    env = make(1, size)
    env.reset(seed)
    level = Map(env.observations[0])
    way = level.ways()[tuple(np.argwhere(level.squares == GOAL)[0])]
    for action in way[:-1]:
        assert env.step(np.array([action])) == []
        assert env.rewards[0] == 0
    (info,) = env.step(np.array(way[-1:]))
    assert (env.rewards[0], env.terminals[0], env.truncations[0]) == (1, True, False)
    assert {name: values.tolist() for name, values in info.items()} == {
        "score": [1.0],
        "episode_return": [1.0],
        "episode_length": [len(way)],
    }


def test_steps_into_walls_and_detours_cost_score():
    env = make(1, 4)
    env.reset(seed=5)
    level = Map(env.observations[0])
    way = level.ways()[tuple(np.argwhere(level.squares == GOAL)[0])]
    wall = next(action for action in range(4) if level.neighbour(action) == level.at)
    for action in [wall, way[0], way[0] ^ 1, *way]:
        infos = env.step(np.array([action]))
    assert infos[0]["score"].tolist() == [np.float32(len(way) / (len(way) + 3))]


@settings(max_examples=15)
@given(size=st.integers(2, 5), seed=st.integers(0, 2**63 - 1), share=st.floats(0, 1))
def test_random_walks_follow_the_rules(size, seed, share):
    """Views of any width, over several episodes; the maps of new levels come from a wide view."""
    narrow = 1 + int(share * (2 * size - 2))
    env, wide = NativeMaze(1, size=size, view=narrow), make(1, size)
    rng = np.random.default_rng(seed)
    for each in (env, wide):
        each.reset(seed)
    level, tick = Map(wide.observations[0]), 0
    for _ in range(5 * size**2):
        np.testing.assert_array_equal(env.observations[0], level.view(narrow))
        action, tick = rng.integers(4, size=1), tick + 1
        infos = env.step(action)
        wide.step(action)
        reached = level.move(action[0])
        ends = reached or tick == 4 * size**2
        assert (env.rewards[0], env.terminals[0]) == (reached, reached)
        assert env.truncations[0] == (ends and not reached)
        if ends:
            np.testing.assert_array_equal(env.final_observations[0], level.view(narrow))
            assert infos[0]["episode_length"].tolist() == [tick]
            assert (infos[0]["score"][0] > 0) == reached
            level, tick = Map(wide.observations[0]), 0


def search(env, rng):
    """The actions of searches: to the best of the neighbours, a random one of equals."""
    view = env.observations.shape[1] // 2
    squares = env.observations[:, view + MOVES[:, 0], view + MOVES[:, 1]]
    return (squares + 0.5 * rng.random(squares.shape)).argmax(1)


@pytest.mark.parametrize(("size", "agents"), [(2, 300), (8, 100), (31, 2)])
def test_a_search_by_the_trail_always_arrives(size, agents):
    env, rng = NativeMaze(agents, size=size, view=1), np.random.default_rng(0)
    env.reset(seed=1)
    arrived = np.zeros(agents, bool)
    for _ in range(4 * size**2):
        env.step(search(env, rng))
        assert not env.truncations.any()
        arrived |= env.terminals
    assert arrived.all()


def levels_of(env, episodes=40):
    """The first views of some episodes of every agent."""
    seen = set()
    env.reset(seed=episodes)
    for _ in range(episodes):
        seen |= {view.tobytes() for view in env.observations}
        env.reset()
    return seen


def test_levels_have_numbers():
    three = levels_of(make(4, 3, levels=3, first_level=5))
    alone = [levels_of(make(4, 3, levels=1, first_level=number), 2) for number in range(4, 9)]
    assert [len(level) for level in alone] == [1] * 5
    assert three == alone[1] | alone[2] | alone[3]
    assert len(three | alone[0] | alone[4]) == 5
    assert len(levels_of(make(4, 3), 10)) == 40


def test_all_starts_and_goals_are_drawn():
    env = make(3000, 2)
    env.reset(seed=0)
    pairs = []
    for view in env.observations:
        level = Map(view)
        goal = np.argwhere(level.squares == GOAL)[0] // 2 @ [2, 1]
        pairs.append((int(goal), int(np.array(level.at) // 2 @ [2, 1])))
    counts = np.unique(pairs, axis=0, return_counts=True)[1]
    assert len(counts) == 12
    assert (abs(counts - 250) < 4 * 16).all()


@pytest.mark.parametrize(
    ("options", "digest", "mean"),
    [({}, 4251168577, 0.0066), ({"size": 4, "view": 5, "levels": 9}, 1056605183, 0.0187)],
    ids=["common", "own"],
)
def test_random_play_of_a_seed(options, digest, mean):
    """Fixed for ever."""
    env, rng = NativeMaze(64, **options), np.random.default_rng(3)
    env.reset(seed=7)
    crc, scores = 0, []
    for _ in range(300):
        scores += [info["score"] for info in env.step(rng.integers(4, size=64))]
        for array in (env.observations, env.rewards, env.terminals, env.truncations):
            crc = zlib.crc32(array.tobytes(), crc)
    assert (crc, round(float(np.concatenate(scores).mean()), 4)) == (digest, mean)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"size": 1}, "size: expected 2 to 31, got 1"),
        ({"size": 32}, "size: expected 2 to 31, got 32"),
        ({"view": 0}, "view: expected 1 to 15, got 0"),
        ({"size": 4, "view": 8}, "view: expected 1 to 7, got 8"),
        ({"levels": -1}, "levels: expected 0 to 2147483647, got -1"),
        ({"first_level": 2**31}, "first_level: expected 0 to 2147483647, got 2147483648"),
    ],
)
def test_impossible_mazes_are_refused(options, message):
    with pytest.raises(ConfigError, match=message):
        NativeMaze(2, **options)
