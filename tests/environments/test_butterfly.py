"""Butterfly: who sees what, and knights that die while others fight on."""

import numpy as np
import pytest

pytest.importorskip("pymunk")

from pufferlib.environments import butterfly

KNIGHTS = ["archer_0", "archer_1", "knight_0", "knight_1"]


def test_cooperative_pong_is_not_black():
    """The game draws only what is to be rendered, and its agents look at the drawing."""
    env = butterfly.make_env("cooperative_pong", max_cycles=4)
    games = []
    for seed in (1, 1, 2):
        observations, _ = env.reset(seed=seed)
        for _ in range(4):
            observations, *_ = env.step(dict.fromkeys(env.possible_agents, 0))
        games.append(observations["paddle_0"])
    env.close()
    assert games[0].max() > 200, "the ball and the paddles are white"
    assert (games[0][-1] != games[0][0]).any(), "the stack shows the ball's way"
    assert (games[0] == games[1]).all()
    assert (games[0] != games[2]).any()


def test_pistons_see_a_stack_of_small_frames_around_them():
    env = butterfly.make_env("pistonball", n_pistons=8, max_cycles=3, screen_size=42)
    observations, _ = env.reset(seed=1)
    assert observations["piston_0"].shape == (4, 42, 42)
    assert (observations["piston_0"] != observations["piston_1"]).any()
    for step in range(1, 4):
        *_, truncations, infos = env.step(np.zeros((8, 1), np.float32))
        assert truncations == dict.fromkeys(env.possible_agents, step == 3)
    assert infos["piston_0"]["episode_length"] == 3
    env.close()


def test_a_knight_dies_alone():
    env = butterfly.make_env(max_cycles=200, spawn_delay=1)
    env.reset(seed=3)
    assert env.possible_agents == KNIGHTS
    lives, step = {}, 0
    while env.agents:
        step += 1
        *_, infos = env.step(dict.fromkeys(KNIGHTS, 5))
        lives |= {agent: (step, info["episode_length"]) for agent, info in infos.items() if info}
    env.close()
    assert set(lives) == set(KNIGHTS)
    assert all(died == length for died, length in lives.values())
    assert len({died for died, _ in lives.values()}) > 1, "not all at once"
