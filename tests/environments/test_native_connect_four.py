"""Native Connect Four: its rules against slow ones, counts of positions, what each player sees."""

import itertools
import zlib

import needs
import numpy as np
import pytest
import torch

from pufferlib.emulation.masks import take_allowed
from pufferlib.environments.ocean.native import NativeConnectFour
from pufferlib.exceptions import ConfigError
from pufferlib.models import Default
from pufferlib.pytorch import sample_logits

pytestmark = needs.compiled_core

ROWS, COLUMNS = 6, 7
CELLS = list(itertools.product(range(ROWS), range(COLUMNS)))
LINES = [
    [CELLS.index(cell) for cell in line]
    for (row, column), (down, right) in itertools.product(CELLS, ((0, 1), (1, 0), (1, 1), (1, -1)))
    if set(line := [(row + i * down, column + i * right) for i in range(4)]) <= set(CELLS)
]


class Boards:
    """The rules in NumPy, line by line, for n games at once.

    `cells` `(n, 42)` are 1 for the stones of seat 0, -1 for those of seat 1, the top row first.
    """

    def __init__(self, seats):
        self.cells = np.zeros((len(seats), ROWS * COLUMNS), np.int8)
        self.seats = seats.copy()
        self.lengths = np.zeros(len(seats), int)
        self.lines_seen = set()

    def open_columns(self):
        return self.cells[:, :COLUMNS] == 0

    def drop(self, columns):
        """Results for seat 0 (1, 0, -1) and which games have ended."""
        games = np.arange(len(columns))
        signs = 1 - 2 * self.seats
        is_open = self.open_columns()[games, columns]
        stones = self.cells.reshape(-1, ROWS, COLUMNS)[games, :, columns].astype(bool).sum(1)
        cells = (ROWS - 1 - stones) * COLUMNS + columns
        self.cells[games[is_open], cells[is_open]] = signs[is_open]
        lines = (self.cells[:, LINES] == signs[:, None, None]).all(2)
        self.lines_seen |= set(np.flatnonzero(lines.any(0)).tolist())
        won = lines.any(1)
        ended = won | ~is_open | (self.cells != 0).all(1)
        self.seats = 1 - self.seats
        self.lengths += 1
        return np.select([~is_open, won], [-signs, signs], 0), ended

    def begin(self, games, seats):
        self.cells[games] = self.lengths[games] = 0
        self.seats[games] = seats[games]

    def rows(self):
        """What the agents see, `(n, 2, 50)`."""
        waiting = np.eye(COLUMNS, dtype=bool)[0]
        on_turn = self.seats[:, None] == [0, 1]
        masks = np.where(on_turn[:, :, None], self.open_columns()[:, None], waiting)
        views = np.stack([self.cells, -self.cells], axis=1)
        return np.concatenate([masks, views, on_turn[:, :, None]], axis=2)


def seats_on_turn(env):
    """Of each game; both players must agree."""
    on_turn = env.observations[:, -1].reshape(-1, 2)
    assert (on_turn.sum(1) == 1).all()
    return on_turn[:, 1].astype(int)


def act(env, rng, careless=0.0):
    """Random actions that the masks allow; any at all with the probability `careless`."""
    actions = rng.integers(COLUMNS, size=env.num_agents)
    allowed = actions.copy()
    take_allowed(allowed, env.observations, env.emulated, rng)
    return np.where(rng.random(env.num_agents) < careless, actions, allowed)


def test_random_games_follow_the_rules_line_by_line():
    """Until each of the 69 lines has won."""
    env, rng, count = NativeConnectFour(1200), np.random.default_rng(1), 600
    env.reset(seed=1)
    boards = Boards(seats_on_turn(env))
    assert len(LINES) == 69
    for _ in range(180):
        np.testing.assert_array_equal(env.observations.reshape(count, 2, 50), boards.rows())
        actions = act(env, rng, careless=0.01)
        infos = env.step(actions)
        results, ended = boards.drop(actions.reshape(count, 2)[range(count), boards.seats])
        rewards = np.stack([results, -results], axis=1)
        np.testing.assert_array_equal(env.rewards, rewards.ravel())
        np.testing.assert_array_equal(env.terminals, ended.repeat(2))
        records = infos[0] if ended.any() else {"score": [], "episode_return": []}
        np.testing.assert_array_equal(records["episode_return"], rewards[ended].ravel())
        np.testing.assert_array_equal(records["score"], (rewards[ended].ravel() + 1) / 2)
        if ended.any():
            lengths = boards.lengths[ended].repeat(2)
            np.testing.assert_array_equal(records["episode_length"], lengths)
        boards.begin(ended, seats_on_turn(env))
    assert len(boards.lines_seen) == 69
    assert not env.truncations.any()
    assert env.masks.all()


def all_moves(number):
    """Every sequence of so many moves, legal or not: `(7 ** number, number)`."""
    return np.array(list(itertools.product(range(COLUMNS), repeat=number)), int)


def count_games(depth, prefix=()):
    """Sequences of `depth` moves that begin with `prefix`: all that are one shorter are played."""
    moves = all_moves(depth - 1 - len(prefix))
    env = NativeConnectFour(2 * len(moves))
    env.reset(seed=0)
    going = np.ones(len(moves), bool)
    for columns in [*prefix, *moves.T]:
        env.step(np.broadcast_to(columns, len(moves)).repeat(2))
        going &= ~env.terminals[::2]
    movers = 2 * np.arange(len(moves)) + seats_on_turn(env)
    return int(env.observations[movers[going], :COLUMNS].sum())


def count_slowly(depth, prefix):
    """The same by the slow rules."""
    moves = all_moves(depth - 1 - len(prefix))
    boards = Boards(np.zeros(len(moves), int))
    going = np.ones(len(moves), bool)
    for columns in [*prefix, *moves.T]:
        _, ended = boards.drop(np.broadcast_to(columns, len(moves)))
        going &= ~ended
    return int(boards.open_columns()[going].sum())


# Known numbers of sequences of moves from the empty board. From the seventh move on they are less
# than a power of seven: columns are full, and from the eighth on games are won.
@pytest.mark.parametrize(
    ("depth", "games"),
    [(1, 7), (2, 49), (3, 343), (4, 2401), (5, 16807), (6, 117649), (7, 823536)],
)
def test_as_many_games_as_are_known(depth, games):
    assert count_games(depth) == games


@pytest.mark.slow
def test_as_many_games_of_eight_moves_as_are_known():
    assert sum(count_games(8, (first,)) for first in range(COLUMNS)) == 5673234


@pytest.mark.parametrize("prefix", [(3, 3, 3, 3, 3, 2, 2, 2, 2, 2), (0, 6, 1, 6, 2, 5, 5, 6, 4)])
def test_as_many_games_as_the_slow_rules_find_in_the_middle(prefix):
    depth = len(prefix) + 4
    assert 0 < count_games(depth, prefix) == count_slowly(depth, prefix) < 7**4


def play(columns, first):
    """Rewards, scores and lengths of a game that seat `first` begins."""
    env = NativeConnectFour(2)
    env.reset(seed=0)
    while seats_on_turn(env)[0] != first:
        env.reset()
    for column in columns[:-1]:
        env.step(np.full(2, column))
        assert env.rewards.tolist() == [0, 0]
        assert not env.terminals.any()
    (info,) = env.step(np.full(2, columns[-1]))
    assert env.terminals.all()
    return [env.rewards.tolist(), *(info[name].tolist() for name in ("score", "episode_length"))]


UP = [3, 0, 3, 0, 3, 0, 3]
ACROSS = [0, 0, 1, 1, 2, 2, 3]
DIAGONAL = [0, 1, 1, 2, 2, 3, 2, 3, 3, 6, 3]
FULL_COLUMN = [2, 2, 2, 2, 2, 2, 2]


@pytest.mark.parametrize("first", [0, 1])
@pytest.mark.parametrize(
    ("columns", "first_wins"),
    [(UP, True), (ACROSS, True), (DIAGONAL, True), ([6, *ACROSS], False), (FULL_COLUMN, False)],
)
def test_games_played_by_hand(columns, first_wins, first):
    winner = first if first_wins else 1 - first
    score = [float(seat == winner) for seat in (0, 1)]
    assert play(columns, first) == [[2 * s - 1 for s in score], score, [len(columns)] * 2]


def test_a_full_board_without_a_line_is_a_draw():
    # Found by random play.
    columns = [int(digit) for digit in "035025052263512530111533010124236664444664"]
    assert play(columns, 0) == [[0, 0], [0.5, 0.5], [42, 42]]


@pytest.mark.parametrize("opponent", ["self", "random"])
def test_games_begin_with_random_moves(opponent):
    """Between none and five, and one more where the opponent is on turn after them."""
    env = NativeConnectFour(6000, opponent, opening=5)
    env.reset(seed=0)
    boards = env.observations[:: 1 + (opponent == "self"), COLUMNS:-1]
    mine, theirs = ((boards == stone).sum(1) for stone in (1, -1))
    counts = np.bincount(mine + theirs, minlength=7)
    expected = np.array([1, 1, 1, 1, 1, 1, 0] if opponent == "self" else [1, 2, 2, 2, 2, 2, 1])
    expected = expected * len(boards) / expected.sum()
    assert (abs(counts - expected) <= 5 * np.sqrt(expected)).all()
    assert (abs(mine - theirs) <= 1).all()
    full = boards.reshape(-1, ROWS, COLUMNS) != 0
    assert not (full[:, :-1] & ~full[:, 1:]).any()


def test_after_a_game_both_players_see_the_next_one():
    env = NativeConnectFour(2)
    env.reset(seed=4)
    for column in UP:
        env.step(np.full(2, column))
    assert not env.observations[:, COLUMNS:-1].any()
    assert env.observations[seats_on_turn(env)[0], :COLUMNS].all()


def test_the_picture_has_a_frame_around_each_stone():
    env = NativeConnectFour(2, render_mode="rgb_array")
    env.reset(seed=0)
    first = seats_on_turn(env)[0]
    for column in (2, 2, 6):
        env.step(np.full(2, column))
    picture = env.render()[:: 256 // 13 + 1, :: 256 // 13 + 1]
    assert picture.shape == (13, 15, 3)
    holes = picture[1::2, 1::2]
    stones = [holes[5, 2], holes[4, 2], holes[5, 6]]
    colours = [[0xFA, 0xD2, 0x32], [0xDC, 0x32, 0x32]]
    seats = [first, 1 - first, first]
    assert [stone.tolist() for stone in stones] == [colours[seat] for seat in seats]
    assert (holes == [0x08, 0x10, 0x28]).all(2).sum() == 42 - 3
    assert (picture == [0x18, 0x40, 0xA0]).all(2).sum() == 13 * 15 - 42


def test_a_coin_decides_who_begins():
    env = NativeConnectFour(8192)
    env.reset(seed=1)
    assert abs(seats_on_turn(env).sum() - 2048) < 4 * 32


def test_whoever_waits_has_a_choice_that_moves_no_policy():
    env = NativeConnectFour(64)
    env.reset(seed=0)
    waits = torch.from_numpy(env.observations[:, -1] == 0)
    logits, _ = Default(env, 8)(torch.from_numpy(env.observations))
    actions, logprobs, entropies = sample_logits(logits)
    assert waits.sum() == 32
    assert not actions[waits].any()
    assert not logprobs[waits].any()
    assert not entropies[waits].any()
    assert (entropies[~waits] > 1.9).all()


def can_win(boards, games):
    """Whether seat 1 has a move that wins, for each of these games."""
    cells = boards.cells[games]
    found = np.zeros(len(cells), bool)
    for column in range(COLUMNS):
        copies = Boards(np.ones(len(cells), int))
        copies.cells[:] = cells
        found |= copies.drop(np.full(len(cells), column))[0] == -1
    return found


def test_against_the_random_opponent_every_row_is_on_turn():
    env, rng = NativeConnectFour(300, opponent="random"), np.random.default_rng(0)
    env.reset(seed=2)
    wins = losses = 0
    for _ in range(60):
        boards = Boards(np.zeros(300, int))
        boards.cells[:] = env.observations[:, COLUMNS:-1]
        np.testing.assert_array_equal(env.observations[:, :COLUMNS], boards.open_columns())
        assert env.observations[:, -1].all()
        actions = act(env, rng)
        env.step(actions)
        results, ended = boards.drop(actions)
        assert (env.rewards[ended] == results[ended]).all()
        assert env.terminals[ended].all()
        lost, going = env.rewards == -1, ~env.terminals
        assert can_win(boards, lost).all()
        added = env.observations[going, COLUMNS:-1] - boards.cells[going]
        assert (added.min(1) == -1).all()
        assert (np.count_nonzero(added, axis=1) == 1).all()
        full = env.observations[going, COLUMNS:-1].reshape(-1, ROWS, COLUMNS) != 0
        assert not (full[:, :-1] & ~full[:, 1:]).any()
        wins += int(ended.sum())
        losses += int(lost.sum())
    assert min(wins, losses) > 500


def test_the_random_opponent_opens_half_of_the_games_anywhere():
    env = NativeConnectFour(7000, opponent="random")
    env.reset(seed=0)
    opened = env.observations[:, 7 + 35 : -1] == -1
    assert abs(opened.sum() - 3500) < 4 * 42
    assert (abs(opened.sum(0) - 500) < 4 * 21).all()
    assert not env.observations[:, 7 : 7 + 35].any()


@pytest.mark.parametrize(
    ("opponent", "digest", "mean"), [("self", 1741474948, 0.5), ("random", 575222455, 0.5122)]
)
def test_random_play_of_a_seed(opponent, digest, mean):
    """Fixed for ever."""
    env, rng = NativeConnectFour(64, opponent), np.random.default_rng(3)
    env.reset(seed=7)
    crc, scores = 0, []
    for _ in range(300):
        scores += [info["score"] for info in env.step(act(env, rng))]
        for array in (env.observations, env.rewards, env.terminals):
            crc = zlib.crc32(array.tobytes(), crc)
    assert crc == digest
    assert round(float(np.concatenate(scores).mean()), 4) == mean


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"num_agents": 7}, "num_agents: expected two for each game, got 7"),
        ({"opening": 6}, "opening: expected 0 to 5, got 6"),
        ({"opening": -1}, "opening: expected 0 to 5, got -1"),
        ({"opponent": "me"}, r"opponent: expected one of \('self', 'random'\), got 'me'"),
    ],
)
def test_impossible_games_are_refused(kwargs, message):
    with pytest.raises(ConfigError, match=message):
        NativeConnectFour(**kwargs)
