"""Native Snake: its rules in situations laid out by hand, its invariants, its random play."""

import itertools
import zlib

import needs
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from native_games import play, random_actions, records

from pufferlib import native
from pufferlib.environments.ocean.native import NativeSnake
from pufferlib.exceptions import ConfigError

pytestmark = needs.compiled_core

FOOD, EMPTY, BODY, HEAD = 1, 0, -1, -2
TURN_LEFT, STRAIGHT, TURN_RIGHT = range(3)
UP, RIGHT, DOWN, LEFT = range(4)
WAYS = ((-1, 0), (0, 1), (1, 0), (0, -1))

WORLD = np.dtype([("random", "u8"), ("food", "u4"), ("", "u4")])
SNAKE = np.dtype(
    [("age", "u4"), *((name, "u2") for name in ("newest", "length", "eaten", "target"))]
    + [("heading", "u1"), ("fate", "u1"), ("eats", "?"), ("", "u1")]
)


class Map:
    """A world of an environment, decoded from the state as snake.c lays it out."""

    def __init__(self, env, world=0):
        rows, columns, snakes, _, vision, max_length, _ = env._arguments[1]
        self.env, self.vision, self.shape = env, vision, (rows, columns)
        self.state = env.get_state()
        size = len(self.state["worlds"]) // (env.num_agents // snakes)
        self.bytes = np.frombuffer(self.state["worlds"], np.uint8).copy()
        memory = self.bytes[size * world : size * (world + 1)]
        ring = 1 << (max_length - 1).bit_length()
        parts = np.cumsum([WORLD.itemsize, SNAKE.itemsize * snakes, 2 * snakes * ring])
        header, table, rings, cells = np.split(memory, parts)
        self.header, self.snakes = header.view(WORLD), table.view(SNAKE)
        self.rings = rings.view(np.uint16).reshape(snakes, ring)
        height, self.width = rows + 2 * vision, columns + 2 * vision
        self.cells = cells[: height * self.width].view(np.int8).reshape(height, self.width)
        self.inside = self.cells[vision : vision + rows, vision : vision + columns]

    def body(self, i):
        """The cells of a snake as (row, column), from its tail to its head."""
        snake = self.snakes[i]
        back = np.arange(snake["length"])[::-1].astype(int)
        cells = self.rings[i][(int(snake["newest"]) - back) % self.rings.shape[1]].astype(int)
        v = self.vision
        return [(cell // self.width - v, cell % self.width - v) for cell in cells]

    def lay(self, *bodies, food=(), age=0):
        """Put the snakes there, from tail to head, and the food; and play from here."""
        self.inside[:] = EMPTY
        for i, body in enumerate(bodies):
            for k, (row, column) in enumerate(body):
                self.rings[i, k] = (row + self.vision) * self.width + column + self.vision
                self.inside[row, column] = BODY
            self.inside[body[-1]] = HEAD
            way = tuple(np.subtract(body[-1], body[-2]))
            n = len(body)
            self.snakes[i] = (age, n - 1, n, n - 2, 0, WAYS.index(way), 0, False, 0)
        for cell in food:
            self.inside[cell] = FOOD
        self.header["food"] = len(food)
        self.env.set_state(self.state | {"worlds": self.bytes.tobytes()})


CORNER = (0, 8)


def laid(*bodies, food=(CORNER,), age=0, **options):
    """An environment of one map of 8 x 9 cells with these snakes."""
    sizes = {"rows": 8, "columns": 9, "vision": 2, "food": 1, "max_length": 8} | options
    env = NativeSnake(len(bodies), num_snakes=len(bodies), **sizes)
    env.reset(seed=0)
    Map(env).lay(*bodies, food=food, age=age)
    return env


def act(env, *actions):
    """The records of a step."""
    return records(env.step(np.array(actions)))


@pytest.mark.parametrize("heading", range(4))
@pytest.mark.parametrize("action", [TURN_LEFT, STRAIGHT, TURN_RIGHT])
def test_turns_and_what_is_seen(heading, action):
    """Whatever the heading: the body is below, and food where the move goes to."""
    seen = {TURN_LEFT: (2, 1), STRAIGHT: (1, 2), TURN_RIGHT: (2, 3)}[action]
    head, back = np.array((4, 4)), np.array(WAYS[heading])
    way = WAYS[(heading + action - 1) % 4]
    env = laid([tuple(head - back), tuple(head)], food=[tuple(head + way)])
    expected = np.zeros((5, 5), np.int8)
    expected[2, 2], expected[3, 2], expected[seen] = HEAD, BODY, FOOD
    np.testing.assert_array_equal(env.observations[0], expected)
    assert act(env, action) == []
    assert Map(env).body(0) == [tuple(head - back), tuple(head), tuple(head + way)]
    assert (env.rewards, env.terminals, env.truncations) == ([1], [False], [False])


def test_walls_are_seen_and_kill():
    env = laid([(0, 1), (0, 0)])
    assert (env.observations[0][:2] == BODY).sum() == 10, "ahead"
    assert (env.observations[0][:, 3:] == BODY).all(), "to the right"
    assert act(env, TURN_LEFT) == []
    assert Map(env).body(0) == [(0, 0), (1, 0)]
    assert act(env, TURN_RIGHT) == [(0, -1, 2)]
    assert (env.rewards, env.terminals) == ([-1], [True])


def test_a_tail_makes_room_before_anyone_moves_in():
    square = [(2, 2), (2, 3), (3, 3), (3, 2)]
    env = laid(square)
    for k in range(1, 9):
        assert act(env, TURN_RIGHT) == []
        assert Map(env).body(0) == [square[(k + i) % 4] for i in range(4)]


def test_a_tail_stays_while_its_snake_eats():
    env = laid([(2, 2), (2, 3)], [(4, 1), (3, 1)], food=[(2, 4)])
    env.step(np.array([STRAIGHT, STRAIGHT]))
    assert Map(env).body(1) == [(3, 1), (2, 1)]
    env = laid([(2, 2), (2, 3)], [(4, 2), (3, 2)], food=[(2, 4)])
    assert act(env, STRAIGHT, STRAIGHT) == [(0, -1, 1)]
    assert env.terminals.tolist() == [False, True]


def test_who_bites_dies_and_leaves_what_it_has_eaten():
    env = laid([(1, 4), (2, 4), (3, 4), (4, 4), (5, 4)], [(3, 2), (3, 3)])
    assert act(env, STRAIGHT, STRAIGHT) == [(0, -1, 1)]
    env = laid([(3, 5), (3, 4)], [(3, 0), (3, 1), (3, 2), (2, 2), (2, 3), (3, 3)])
    assert act(env, STRAIGHT, TURN_LEFT) == [(0, -1, 1), (4 / 6, 3, 1)]
    there = Map(env)
    assert [there.inside[cell] for cell in ((3, 3), (2, 3), (2, 2), (3, 2))] == [FOOD] * 4
    assert there.header["food"] == (there.inside == FOOD).sum() == 5


@pytest.mark.parametrize("food", [EMPTY, FOOD])
def test_all_who_move_into_a_cell_die_and_eat_nothing(food):
    cells = [(4, 4)] * food
    env = laid(
        [(4, 2), (4, 3)], [(4, 6), (4, 5)], [(2, 4), (3, 4)], food=[CORNER, *cells], max_length=4
    )
    assert act(env, *[STRAIGHT] * 3) == [(0, -1, 1)] * 3
    assert Map(env).header["food"] == 1 + food


def test_snakes_do_not_pass_through_each_other():
    env = laid([(4, 2), (4, 3)], [(4, 5), (4, 4)])
    assert act(env, STRAIGHT, STRAIGHT) == [(0, -1, 1)] * 2


def test_the_longest_snake_has_won():
    env = laid([(4, 1), (4, 2), (4, 3)], food=[(4, 4)], max_length=4, age=9)
    assert act(env, STRAIGHT) == [(1, 2, 10)]
    assert (env.rewards, env.terminals, env.truncations) == ([1], [True], [False])
    assert Map(env).snakes["length"].tolist() == [2]


def test_a_life_is_truncated_after_a_last_look():
    env = laid([(4, 1), (4, 2), (4, 3)], max_steps=20, age=19)
    assert act(env, STRAIGHT) == [(1 / 6, 1, 20)]
    assert (env.rewards, env.terminals, env.truncations) == ([0], [False], [True])
    expected = np.zeros((5, 5), np.int8)
    expected[2, 2], expected[3, 2], expected[4, 2] = HEAD, BODY, BODY
    np.testing.assert_array_equal(env.final_observations[0], expected)
    assert Map(env).inside[4, 4] == FOOD


def carefully(env, rng):
    """Actions that eat what is next to the head, and else bite nothing if they can."""
    v = env.observations.shape[1] // 2
    near = env.observations[:, [v, v - 1, v], [v - 1, v, v + 1]]
    return (near + rng.random(near.shape)).argmax(1)


def require_consistent(there, food, max_length):
    """The map shows exactly the snakes and the food; snakes are connected and overlap nowhere."""
    shown = np.where(there.inside == FOOD, FOOD, EMPTY)
    for i, snake in enumerate(there.snakes):
        body = there.body(i)
        assert len(body) == snake["eaten"] + 2 < max_length
        steps = [tuple(np.subtract(b, a)) for a, b in itertools.pairwise(body)]
        assert set(steps) <= set(WAYS)
        assert steps[-1] == WAYS[snake["heading"]]
        assert all(shown[cell] == EMPTY for cell in body), "nobody else is there"
        shown[tuple(np.transpose(body))] = BODY
        shown[body[-1]] = HEAD
    np.testing.assert_array_equal(there.inside, shown)
    assert there.header["food"] == (shown == FOOD).sum() >= food
    walls = there.cells.copy()
    v = there.vision
    walls[v:-v, v:-v] = BODY
    assert (walls == BODY).all()


@settings(max_examples=6)
@given(
    snakes=st.integers(1, 6),
    food=st.integers(1, 12),
    vision=st.integers(1, 4),
    max_length=st.integers(3, 9),
    columns=st.integers(3, 12),
    seed=st.integers(0, 2**63 - 1),
)
def test_invariants(snakes, food, vision, max_length, columns, seed):
    rows = 3 + 3 * (food + snakes * max_length) // columns
    sizes = {"rows": rows, "columns": columns, "vision": vision, "food": food}
    env = NativeSnake(snakes, snakes, **sizes, max_length=max_length, max_steps=30)
    env.reset(seed)
    rng = np.random.default_rng(seed)
    for _ in range(40):
        before = Map(env).header["food"]
        scores = [score for score, *_ in records(env.step(carefully(env, rng)))]
        left = sum(round(score * (max_length - 2)) for score in scores)
        there = Map(env)
        require_consistent(there, food, max_length)
        eaten = (env.rewards == 1).sum()
        assert there.header["food"] == max(food, before + left - eaten)


def test_random_play_of_a_seed():
    """Fixed for ever."""
    env = NativeSnake(64, num_snakes=8, rows=24, columns=30, max_length=20, max_steps=40)
    env.reset(seed=7)
    rows, episodes = play(env, 100)
    digest, scores = zlib.crc32(b"".join(rows)), sum(score for score, *_ in episodes)
    assert (digest, len(episodes), round(scores * 18)) == (2284442648, 289, 209)


def test_hundreds_of_snakes_live_on_one_map():
    env = NativeSnake(300, num_snakes=300, rows=160, columns=160, food=400, max_length=24)
    env.reset(seed=1)
    for actions in random_actions(env, 30):
        env.step(actions)
    require_consistent(Map(env), 400, 24)


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"num_agents": 40}, "num_agents: expected a multiple of num_snakes=16, got 40"),
        ({"num_snakes": 0}, "num_snakes: expected 1 to .*, got 0"),
        ({"max_length": 2}, "max_length: expected 3 to .*, got 2"),
        ({"vision": 2**31}, "vision: expected 1 to .*, got 2147483648"),
        ({"rows": 300, "columns": 300}, "expected at most 65536 cells, .* got 96100"),
        ({"rows": 10}, r"expected \(rows - 2\) \* columns above 2016.*got 384; make the map"),
    ],
)
def test_impossible_maps_are_refused(kwargs, message):
    with pytest.raises(ConfigError, match=message):
        NativeSnake(**kwargs)


@pytest.mark.parametrize(
    "options",
    [
        (0, 9, 1, 1, 2, 8, 9),
        (8, 9, 1, 1, 2, 2, 9),
        (8, 9, 3, 1, 2, 8, 9),
        (300, 300, 1, 1, 2, 8, 9),
        (8, 9, 1, 1, 2**31 - 1, 8, 9),
        (8, 9, 2**31 - 1, 2**31 - 1, 2, 2**31 - 1, 9),
    ],
)
def test_the_core_refuses_them_too(options):
    with pytest.raises(ValueError, match="options: impossible"):
        native.require("Worlds", "the test")("snake", options, 1, 1)
