"""Squared: its rules worked out by hand, its stream of targets, its best player."""

import itertools

import gymnasium
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pufferlib.environments import ocean
from pufferlib.environments.ocean import sanity
from pufferlib.environments.ocean.ocean import Squared as SquaredByItsOldName
from pufferlib.environments.ocean.sanity import MOVES, Squared
from pufferlib.environments.ocean.splitmix import SplitMix64
from pufferlib.exceptions import ConfigError

LEFT, RIGHT, UP, DOWN, DOWN_LEFT, UP_LEFT, DOWN_RIGHT, UP_RIGHT = range(8)


def squared_with(monkeypatch, targets, **kwargs):
    """A reset Squared whose targets are the given (row, column) cells."""
    env = Squared(num_targets=len(targets), **kwargs)
    cells = [row * env.side + column for row, column in targets]
    monkeypatch.setattr(SplitMix64, "sample", lambda self, items, k: list(cells))
    env.reset(seed=0)
    return env


def rollout(env, actions):
    """Rewards, and what the last step returned."""
    steps = [env.step(action) for action in actions]
    return [step[1] for step in steps], steps[-1]


def aim(grid):
    """The move towards the first target in reading order; the agent and targets are visible."""
    (row, column), (to_row, to_column) = np.argwhere(grid == -1)[0], np.argwhere(grid == 1)[0]
    return MOVES.index((int(np.sign(to_row - row)), int(np.sign(to_column - column))))


def test_first_observation(monkeypatch):
    env = squared_with(monkeypatch, [(0, 1), (2, 2)], distance_to_target=1)
    grid, info = env.reset()
    assert grid.tolist() == [[0, 1, 0], [0, -1, 0], [0, 0, 1]]
    assert grid.dtype == np.int8
    assert info == {}


@pytest.mark.parametrize(
    ("action", "cell"),
    [
        (LEFT, (2, 1)),
        (RIGHT, (2, 3)),
        (UP, (1, 2)),
        (DOWN, (3, 2)),
        (DOWN_LEFT, (3, 1)),
        (UP_LEFT, (1, 1)),
        (DOWN_RIGHT, (3, 3)),
        (UP_RIGHT, (1, 3)),
    ],
)
def test_moves(monkeypatch, action, cell):
    env = squared_with(monkeypatch, [(0, 0)], distance_to_target=2)
    grid = env.step(action)[0]
    assert grid[cell] == -1
    assert grid[2, 2] == 0
    assert np.count_nonzero(grid) == 2


@pytest.mark.smoke
def test_a_straight_walk_earns_a_third_a_step_and_scores_one(monkeypatch):
    env = squared_with(monkeypatch, [(3, 6)])
    rewards, (grid, _, terminated, truncated, info) = rollout(env, [RIGHT] * 3)
    assert rewards == [1 / 3] * 3
    assert (terminated, truncated, info) == (True, False, {"score": 1.0})
    assert grid[3, 3] == -1, "the hit sends the agent back to the centre"
    assert grid[3, 6] == 1, "a hit target stays visible"


def test_walking_away_gives_the_reward_back(monkeypatch):
    env = squared_with(monkeypatch, [(3, 6)])
    rewards, (_, _, terminated, _, info) = rollout(env, [RIGHT, LEFT, LEFT])
    assert rewards == [1 / 3, -1 / 3, -1 / 3]
    assert (terminated, info) == (True, {"score": 0.0})


def test_the_border_stops_the_coordinate_that_would_leave(monkeypatch):
    env = squared_with(monkeypatch, [(0, 0), (2, 2), (2, 1)], distance_to_target=1)
    assert env.step(RIGHT)[0][1, 2] == -1
    grid, reward, terminated, _, _ = env.step(UP_RIGHT)
    assert (grid[0, 2], reward, terminated) == (-1, -1.0, False)
    grid, reward, terminated, _, info = env.step(UP)
    assert (grid[0, 2], reward, terminated, info) == (-1, 0.0, True, {"score": 0.0})


def test_only_the_first_hit_counts(monkeypatch):
    env = squared_with(monkeypatch, [(1, 2), (1, 0)], distance_to_target=1)
    rewards, (grid, _, terminated, _, info) = rollout(env, [RIGHT, RIGHT])
    assert rewards == [1.0, 0.0]
    assert (terminated, info) == (True, {"score": 0.5})
    assert grid[1, 1] == -1, "a second hit also sends the agent back"


def test_a_second_target_starts_the_walk_again(monkeypatch):
    env = squared_with(monkeypatch, [(2, 4), (0, 2)], distance_to_target=2)
    rewards, (_, _, terminated, _, info) = rollout(env, [RIGHT, RIGHT, UP, UP])
    assert rewards == [0.5, 0.5, 0.5, 0.5]
    assert (terminated, info) == (True, {"score": 1.0})


def test_no_step_loops_to_more_than_the_walk_is_worth(monkeypatch):
    """A hit target next to an open one must not pay for walking up and being sent back."""
    env = squared_with(monkeypatch, [(0, 2), (0, 3)], distance_to_target=2)
    rewards, _ = rollout(env, [UP, UP, UP, UP])
    assert rewards == [0.5, 0.5, 0.5, -0.5]


def test_the_episode_has_just_the_steps_it_needs():
    for d, n in [(1, 1), (3, 1), (2, 5), (1, 8)]:
        env = Squared(distance_to_target=d, num_targets=n)
        env.reset(seed=0)
        ends = [env.step(LEFT)[2] for _ in range(n * d)]
        assert ends == [False] * (n * d - 1) + [True]


def test_a_player_that_aims_reaches_the_best_score():
    env = Squared(distance_to_target=4)
    for episode in range(50):
        grid, _ = env.reset(seed=episode)
        total, done = 0.0, False
        while not done:
            grid, reward, done, _, info = env.step(aim(grid))
            total += reward
        assert info["score"] == 1.0
        assert total == pytest.approx(1.0)


def test_a_player_with_memory_reaches_the_best_score_with_many_targets():
    env = Squared(distance_to_target=2, num_targets=16)
    for episode in range(5):
        grid, _ = env.reset(seed=episode)
        total, done, hits = 0.0, False, grid * 0
        while not done:
            before = grid
            grid, reward, done, _, info = env.step(aim(np.where(hits == 1, 0, before)))
            total += reward
            if grid[2, 2] == -1:  # back in the centre: the target that was aimed at is hit
                hits[tuple(np.argwhere(np.where(hits == 1, 0, before) == 1)[0])] = 1
        assert info["score"] == 1.0
        assert total == pytest.approx(16.0)


@pytest.mark.parametrize("n", [2, 3, 4])
def test_several_targets_tell_the_certain_the_random_and_the_remembering_player_apart(n):
    env = Squared(distance_to_target=1, num_targets=n)
    env.reset(seed=3)
    state = env.get_state()
    hits = [MOVES.index((t // 3 - 1, t % 3 - 1)) for t in env._targets]

    def score(actions):
        env.set_state(state)
        return rollout(env, actions)[1][4]["score"]

    scores = {actions: score(actions) for actions in itertools.product(hits, repeat=n)}
    assert scores[(hits[0],) * n] == 1 / n
    assert np.mean(list(scores.values())) == pytest.approx(1 - (1 - 1 / n) ** n)
    assert scores[tuple(hits)] == 1


def test_trajectory_of_a_seed():
    """Fixed for ever: another implementation of these rules must give the same."""
    env = Squared(distance_to_target=2, num_targets=3)
    grid, _ = env.reset(seed=7)
    assert np.argwhere(grid == 1).tolist() == [[0, 1], [1, 4], [4, 3]]
    rewards, (grid, _, terminated, _, info) = rollout(
        env, [RIGHT, DOWN_RIGHT, LEFT, DOWN, UP_RIGHT, UP]
    )
    # (3, 4) in two moves and back to the column next to the target (4, 3), which the fourth move
    # hits; then up the middle, away from the targets that are left.
    assert rewards == [0.5, 0.0, 0.0, 0.5, 0.5, 0.0]
    assert (terminated, info) == (True, {"score": 1 / 3})
    assert np.argwhere(grid == -1).tolist() == [[0, 3]]
    grid, _ = env.reset()
    assert np.argwhere(grid == 1).tolist() == [[1, 0], [2, 0], [3, 0]]


def test_splitmix_agrees_with_published_numbers():
    """The first outputs for seed 1234567 of the reference implementation in C."""
    stream = SplitMix64(1234567)
    assert [stream.next() for _ in range(5)] == [
        6457827717110365317,
        3203168211198807973,
        9817491932198370423,
        4593380528125082431,
        16408922859458223821,
    ]


def test_targets_are_uniform_over_the_edge():
    env = Squared(distance_to_target=1, num_targets=2)
    env.reset(seed=0)
    counts = np.zeros(9)
    for _ in range(4_000):
        env.reset()
        counts[env._targets] += 1
    assert counts[4] == 0
    edge = np.delete(counts, 4)
    # 8,000 draws over 8 cells: mean 1,000, standard deviation below 30.
    assert abs(edge - 1_000).max() < 150


def test_seeds_give_streams_and_no_seed_continues_them():
    a, b, c = Squared(), Squared(), Squared()
    targets = []
    for env, seed in ((a, 5), (b, 5), (c, 6)):
        env.reset(seed=seed)
        seen = []
        for _ in range(20):
            env.reset()
            seen.append(tuple(env._targets))
        targets.append(seen)
    assert targets[0] == targets[1] != targets[2]
    assert len(set(targets[0])) > 5


def test_an_unseeded_environment_works():
    env = Squared()
    grid, _ = env.reset()
    assert (grid == 1).sum() == 1


@settings(max_examples=60, deadline=None)
@given(
    d=st.integers(1, 4),
    share=st.floats(0, 1),
    seed=st.integers(0, 2**31),
    actions=st.lists(st.integers(0, 7), min_size=1, max_size=80),
)
def test_invariants(d, share, seed, actions):
    n = 1 + int(share * (8 * d - 1))
    env = Squared(distance_to_target=d, num_targets=n)
    grid, _ = env.reset(seed=seed)
    targets = grid == 1
    total = 0.0
    for action in actions:
        before = grid.copy()
        grid, reward, terminated, truncated, info = env.step(action)
        assert env.observation_space.contains(grid)
        assert (grid == -1).sum() == 1
        assert ((grid == 1) == targets).all(), "targets neither move nor vanish"
        assert targets.sum() == n
        assert grid is not before
        total += reward
        assert -1 - 1e-9 <= reward <= 1 + 1e-9
        assert total <= n + 1e-9
        assert not truncated
        assert terminated == (info != {})
        if terminated:
            assert info["score"] * n <= total + 1 + 1e-9
            grid, _ = env.reset()
            targets, total = grid == 1, 0.0


def test_observations_are_snapshots():
    env = Squared()
    first, _ = env.reset(seed=0)
    kept = first.copy()
    env.step(LEFT)
    assert (first == kept).all()


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"distance_to_target": 0}, "distance_to_target: expected at least 1, got 0"),
        ({"num_targets": 0}, "num_targets: expected 1 to 24 .*got 0"),
        ({"distance_to_target": 1, "num_targets": 9}, "expected 1 to 8 .*got 9"),
    ],
)
def test_impossible_squares_are_refused(kwargs, message):
    with pytest.raises(ConfigError, match=message):
        Squared(**kwargs)


def test_rendering_is_coloured_text(monkeypatch):
    env = squared_with(monkeypatch, [(0, 1)], distance_to_target=1)
    text = env.render()
    assert isinstance(text, str)
    lines = text.splitlines()
    assert len(lines) == 3
    assert "\033[48;5;37m  " in lines[0]
    assert lines[1].count("\033[48;5;160m  ") == 1
    assert all(line.endswith("\033[0m") for line in lines)


def test_import_paths():
    assert sanity.Squared is SquaredByItsOldName
    env = ocean.make_squared(distance_to_target=2)
    assert env.single_observation_space == gymnasium.spaces.Box(-1, 1, (5, 5), np.int8)
    assert env.single_action_space == gymnasium.spaces.Discrete(8)
    assert ocean.env_creator() is ocean.env_creator("squared")
    assert ocean.make_env("squared").single_observation_space.shape == (7, 7)


def test_made_environment_reports_the_score():
    env = ocean.make_env()
    grid, _ = env.reset(seed=0)
    for _ in range(3):
        grid, _, terminated, _, info = env.step(aim(grid))
    assert terminated
    assert info == {"score": 1.0, "episode_return": pytest.approx(1.0), "episode_length": 3}
