"""Super Mario Bros. where it is installed: NumPy 2, pictures, rewards and summaries."""

import numpy as np
import pytest

from pufferlib.environments.mario.console import Memory

RIGHT, RIGHT_AND_JUMP = 1, 2


def test_a_byte_of_the_memory_counts_beyond_255():
    memory = np.array([1, 2, 255], np.uint8).view(Memory)
    assert memory[2] * 0x100 + memory[1] == 65_282
    assert memory[1:].tolist() == [2, 255]
    memory[0] = 7
    assert memory.base[0] == 7, "what is written is written to the game"


@pytest.fixture(scope="module")
def mario():
    pytest.importorskip("gym_super_mario_bros")
    from pufferlib.environments import mario

    return mario


@pytest.mark.bench
def test_the_way_to_the_right_is_rewarded_and_the_summary_says_how_far(mario):
    env = mario.make_env("SuperMarioBros-1-1-v0", max_episode_steps=10)
    first, _ = env.reset()
    assert (first.shape, first.dtype) == ((4, 84, 84), np.uint8)
    before = env.render()
    steps = [env.step(RIGHT) for _ in range(10)]
    assert (before != env.render()).any(), "a picture that was taken stays"
    *_, truncation, info = steps[-1]
    assert truncation
    ticks = 2  # of the clock, in 40 frames
    assert info["x_pos"] - 40 == info["episode_return"] + ticks == 46
    assert info["episode_return"] == pytest.approx(10 * sum(step[1] for step in steps), rel=1e-5)
    assert set(info) == {*mario.environment.REPORTED, "episode_return", "episode_length"}
    env.close()
    env.close()


@pytest.mark.bench
def test_goombas_end_a_stage(mario):
    env = mario.make_env("SuperMarioBros-1-1-v0", movement="right")
    env.reset()
    terminal, steps = False, 0
    while not terminal:
        _, _, terminal, _, info = env.step(RIGHT)
        steps += 1
    assert (info["flag_get"], info["stage"], info["episode_length"]) == (0.0, 1.0, steps)
    assert 200 < info["x_pos"] < 400
    env.close()
