"""MiniGrid and BabyAI: missions in numbers, what an episode's summary tells, the policy."""

import numpy as np
import pytest
import torch

from pufferlib.environments import minigrid
from pufferlib.environments.minigrid.environment import MISSION_LENGTH, UNKNOWN, WORDS
from pufferlib.exceptions import ConfigError
from pufferlib.pytorch import nativize_dtype, nativize_tensor

pytestmark = pytest.mark.slow

# Two squares ahead, round the wall: in MiniGrid-Empty-5x5-v0 the goal is in the opposite corner.
RIGHT, FORWARD = 1, 2
TO_THE_GOAL = (FORWARD, FORWARD, RIGHT, FORWARD, FORWARD)


def mission_of(env):
    """The words of the mission, read back from their numbers."""
    row = env.reset()[0]
    leaves = nativize_tensor(torch.from_numpy(row[None].copy()), nativize_dtype(env.emulated))
    numbers = [number for number in leaves["mission"][0].tolist() if number]
    assert UNKNOWN not in numbers
    return " ".join(WORDS[number - 1] for number in numbers)


@pytest.mark.parametrize(
    "name", ["MiniGrid-LavaCrossingS9N1-v0", "MiniGrid-PutNear-6x6-N2-v0", "BabyAI-BossLevel-v0"]
)
def test_a_mission_is_read_word_by_word(name, capfd):
    env = minigrid.make_env(name)
    env.reset(seed=4)
    for _ in range(10):
        assert mission_of(env) == env.env.unwrapped.mission.replace(",", " ,")
    env.close()
    assert capfd.readouterr().out == ""


def test_a_mission_as_long_as_they_get_fits():
    put = "put a grey ball in front of you next to a grey ball in front of you"
    assert len(f"{put} and {put} , then {put} and {put}".split()) == MISSION_LENGTH
    assert list(WORDS) == sorted(set(WORDS))


def test_a_summary_tells_whether_the_mission_was_fulfilled():
    env = minigrid.make_env("MiniGrid-Empty-5x5-v0", max_episode_steps=6)
    for actions, solved in ((TO_THE_GOAL, 1), ([RIGHT] * 6, 0)):
        env.reset(seed=1)
        for action in actions:
            _, reward, terminal, truncation, info = env.step(action)
        assert (terminal, truncation) == (bool(solved), not solved)
        assert info == {
            "solved": solved,
            "episode_return": pytest.approx(float(reward)),
            "episode_length": len(actions),
        }
    env.close()


def test_the_policy_reads_image_direction_and_mission():
    env = minigrid.make_env("BabyAI-GoToLocal-v0")
    torch.manual_seed(0)
    policy = minigrid.Policy(env)
    rows = torch.from_numpy(np.stack([env.reset(seed=2)[0]]))
    hidden = policy.encode_observations(rows)
    for key in ("image", "direction", "mission"):
        changed = rows.clone()
        leaf = nativize_tensor(changed, policy.native_dtype)[key]
        leaf.copy_((leaf + 1) % 3)
        assert not torch.equal(policy.encode_observations(changed), hidden), key
    env.close()


def test_tasks_that_cannot_be_made_are_unknown():
    with pytest.raises(ConfigError, match="unknown minigrid task 'MiniGrid-WFC-MazeSimple-v0'"):
        minigrid.env_creator("MiniGrid-WFC-MazeSimple-v0")
