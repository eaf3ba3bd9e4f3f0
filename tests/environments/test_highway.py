"""highway-env: what an episode's summary tells, and traffic by option."""

import pytest

from pufferlib.environments import highway
from pufferlib.exceptions import ConfigError

pytestmark = pytest.mark.slow

FASTER = 3


def test_the_summary_of_a_crash():
    env = highway.make_env(vehicles_count=10)
    assert len(env.env.unwrapped.road.vehicles) == 11, "those and one's own"
    env.reset(seed=3)
    ended = False
    while not ended:
        *_, terminal, truncation, info = env.step(FASTER)
        ended = terminal or truncation
    assert terminal
    assert info["crashed"] == 1
    assert info["speed"] > 25
    assert set(info) == {"crashed", "speed", "episode_return", "episode_length"}
    env.close()


def test_games_of_several_agents_are_unknown():
    with pytest.raises(ConfigError, match="unknown highway task 'intersection-multi-agent-v0'"):
        highway.env_creator("intersection-multi-agent-v0")
