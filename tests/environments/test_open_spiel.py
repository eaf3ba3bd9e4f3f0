"""OpenSpiel: turns, moves at once, chance, rewards, limits, and what is left out."""

import numpy as np
import pytest

from pufferlib.environments import open_spiel
from pufferlib.exceptions import APIUsageError, ConfigError

pytestmark = pytest.mark.slow

BOTH = ("player_0", "player_1")


def game_of(name, **options):
    """The parallel environment below the emulation, and its first observations."""
    env = open_spiel.make_env(name, **options).env
    return env, env.reset(seed=1)[0]


def masks(observations):
    return [observations[agent]["action_mask"].tolist() for agent in BOTH]


def test_one_player_moves_and_the_other_may_only_wait():
    env, first = game_of("tic_tac_toe")
    assert masks(first) == [[1] * 9, [1] + [0] * 8]
    observations, rewards, *_ = env.step({"player_0": 4, "player_1": 0})
    assert masks(observations) == [[1] + [0] * 8, [1, 1, 1, 1, 0, 1, 1, 1, 1]]
    assert rewards == {"player_0": 0.0, "player_1": 0.0}


def test_a_game_ends_with_the_last_position_and_the_score():
    env, _ = game_of("tic_tac_toe")
    for mine, yours in ((0, 3), (1, 4)):
        env.step({"player_0": mine, "player_1": 0})
        env.step({"player_0": 0, "player_1": yours})
    observations, rewards, terminals, truncations, infos = env.step({"player_0": 2, "player_1": 0})
    assert rewards == {"player_0": 1.0, "player_1": -1.0}
    assert terminals == {"player_0": True, "player_1": True}
    assert not any(truncations.values())
    assert env.agents == []
    crosses = observations["player_0"]["observation"].reshape(3, 9)[2]
    assert crosses.tolist() == [1, 1, 1, 0, 0, 0, 0, 0, 0]
    assert infos["player_1"] == {"episode_return": -1.0, "episode_length": 5}


def test_players_who_move_at_once():
    env, first = game_of("matrix_pd")
    assert masks(first) == [[1, 1], [1, 1]]
    _, rewards, terminals, *_ = env.step({"player_0": 0, "player_1": 1})
    assert rewards == {"player_0": 0.0, "player_1": 10.0}, "who is betrayed gets nothing"
    assert all(terminals.values())


def test_a_seed_decides_what_chance_deals():
    deals = {}
    for seed in (1, 1, 2, 3, 4, 5):
        env, _ = game_of("leduc_poker")
        hands = []
        for reset_seed in (seed, None, None):
            observations, _ = env.reset(seed=reset_seed)
            hands.append([observations[agent]["observation"].tolist() for agent in BOTH])
        assert deals.setdefault(seed, hands) == hands
    assert len({str(hands) for hands in deals.values()}) == 5


def test_history_is_observed_where_asked():
    now, _ = game_of("leduc_poker")
    whole, _ = game_of("leduc_poker", whole_history=True)
    sizes = [env.observation_space("player_0")["observation"].shape for env in (now, whole)]
    assert sizes == [(16,), (30,)]


def test_the_limit_truncates():
    env, _ = game_of("tic_tac_toe", max_episode_steps=2)
    env.step({"player_0": 0, "player_1": 0})
    *_, terminals, truncations, _ = env.step({"player_0": 0, "player_1": 1})
    assert (set(terminals.values()), set(truncations.values())) == ({False}, {True})


def test_illegal_moves_are_refused():
    env, _ = game_of("tic_tac_toe")
    env.step({"player_0": 4, "player_1": 0})
    with pytest.raises(APIUsageError, match="player_1: expected a legal move, .*, got 4"):
        env.step({"player_0": 0, "player_1": 4})


def test_games_take_parameters():
    env, first = game_of("go(board_size=5)")
    assert np.sum(masks(first)[0]) == 5 * 5 + 1, "and a pass"
    assert "GoState" in env.render()


@pytest.mark.parametrize("name", ["cribbage", "mfg_garnet", "negotiation", "crossword"])
def test_games_that_cannot_be_played_are_not_offered(name):
    with pytest.raises(ConfigError, match=f"unknown open_spiel task '{name}'"):
        open_spiel.env_creator(name)
