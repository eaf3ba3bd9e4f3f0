"""Memory: its rules worked out by hand, its stream of digits, its best player."""

import copy
import pickle

import gymnasium
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pufferlib import environments
from pufferlib.environments import ocean
from pufferlib.environments.ocean import sanity
from pufferlib.environments.ocean.memory import Memory
from pufferlib.environments.ocean.ocean import Memory as MemoryByItsOldName
from pufferlib.environments.ocean.splitmix import SplitMix64
from pufferlib.exceptions import ConfigError


def memory_with(monkeypatch, digits, delay=0):
    """A reset Memory that shows the given digits, and its first observation."""
    env, stream = Memory(len(digits), delay), iter(digits)
    monkeypatch.setattr(SplitMix64, "below", lambda self, n: next(stream))
    return env, env.reset(seed=0)[0]


def play(env, actions):
    """The observations, rewards and ends of an episode, and its last info."""
    steps = [env.step(action) for action in actions]
    observations, rewards, ends = ([step[i] for step in steps] for i in range(3))
    return [float(o[0]) for o in observations], rewards, ends, steps[-1][4]


@pytest.mark.smoke
def test_digits_are_shown_once_and_recited_after_the_pause(monkeypatch):
    env, first = memory_with(monkeypatch, [1, 0], delay=2)
    assert first.tolist() == [1]
    assert first.dtype == np.float32
    observations, rewards, ends, info = play(env, [0, 1, 1, 0, 1, 0])
    assert observations == [-1, 0, 0, 0, 0, 0]
    assert rewards == [0, 0, 0, 0, 0.5, 0.5]
    assert ends == [False] * 5 + [True]
    assert info == {"score": 1.0}


def test_half_of_it_right_earns_half_and_scores_nothing(monkeypatch):
    env, _ = memory_with(monkeypatch, [1, 1], delay=1)
    _, rewards, ends, info = play(env, [1, 1, 1, 0, 1])
    assert rewards == [0, 0, 0, 0, 0.5]
    assert ends[-1]
    assert info == {"score": 0.0}


def test_without_a_delay_the_first_digit_is_out_of_sight_when_it_is_asked(monkeypatch):
    env, first = memory_with(monkeypatch, [0])
    assert first.tolist() == [-1]
    assert play(env, [1, 0]) == ([0, 0], [0, 1], [False, True], {"score": 1.0})


@settings(max_examples=50, deadline=None)
@given(length=st.integers(1, 5), delay=st.integers(0, 4), seed=st.integers(0, 2**31))
def test_a_player_that_remembers_reaches_the_best_score(length, delay, seed):
    env = Memory(length, delay)
    observation, _ = env.reset(seed=seed)
    for _ in range(3):
        seen, total, done, steps = [], 0.0, False, 0
        while not done:
            assert env.observation_space.contains(observation)
            seen.append(float(observation[0]))
            recited = steps - length - delay
            action = int(seen[recited] > 0) if recited >= 0 else 0
            observation, reward, done, truncated, info = env.step(action)
            total, steps = total + reward, steps + 1
            assert done == (info != {})
            assert not truncated
        assert 0.0 not in seen[:length]
        assert set(seen[length:]) == {0.0}
        assert steps == 2 * length + delay
        assert total == pytest.approx(1)
        assert info == {"score": 1.0}
        observation, _ = env.reset()


def test_a_player_without_memory_scores_what_chance_gives():
    """All sequences come equally often, so that one fixed answer is right once in 2^length."""
    env = Memory(length=2, delay=0)
    env.reset(seed=0)
    scores = []
    for _ in range(2_000):
        env.reset()
        scores.append(play(env, [0, 0, 1, 0])[3]["score"])
    assert abs(np.mean(scores) - 0.25) < 0.04  # four standard deviations


def test_digits_of_a_seed():
    """Fixed for ever: another implementation of these rules must give the same."""
    env = Memory(length=8)
    env.reset(seed=7)
    assert env._digits == [0, 0, 1, 1, 0, 0, 0, 0]
    env.reset()
    assert env._digits == [0, 0, 0, 1, 1, 1, 1, 1]


def test_seeds_give_streams_and_no_seed_continues_them():
    streams = []
    for seed in (5, 5, 6):
        env = Memory(length=6)
        env.reset(seed=seed)
        streams.append([tuple(env._digits) for _ in range(20) if env.reset()])
    assert streams[0] == streams[1] != streams[2]
    assert len(set(streams[0])) > 5
    unseeded = Memory()
    assert abs(unseeded.reset()[0][0]) == 1


def test_copies_pickles_and_states_continue_the_same_way():
    env = Memory(length=3)
    env.reset(seed=1)
    env.step(0)
    restored = Memory(length=3)
    restored.set_state(env.get_state())
    twins = [env, restored, copy.deepcopy(env), pickle.loads(pickle.dumps(env))]
    runs = [play(twin, [1] * 7) + (twin.reset()[0].tolist(), twin._digits) for twin in twins]
    assert runs[0] == runs[1] == runs[2] == runs[3]


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"length": 0}, "length: expected at least 1, got 0"),
        ({"delay": -1}, "delay: expected at least 0, got -1"),
    ],
)
def test_impossible_sizes_are_refused(kwargs, message):
    with pytest.raises(ConfigError, match=message):
        Memory(**kwargs)


def test_rendering_shows_digits_and_verdicts(monkeypatch):
    env, _ = memory_with(monkeypatch, [1, 0])
    assert env.render() == "\033[48;5;220m  \033[48;5;236m  \033[0m\n" + "\033[48;5;236m  " * 2 + (
        "\033[0m\n"
    )
    play(env, [0, 0, 1, 1])
    shown, verdicts = env.render().splitlines()
    assert shown == "\033[48;5;220m  \033[48;5;37m  \033[0m"
    assert verdicts == "\033[48;5;34m  \033[48;5;160m  \033[0m"


def test_import_paths():
    assert sanity.Memory is MemoryByItsOldName is Memory
    env = ocean.make_memory(length=3, delay=1)
    assert env.single_observation_space == gymnasium.spaces.Box(-1, 1, (1,), np.float32)
    assert env.single_action_space == gymnasium.spaces.Discrete(2)
    assert environments.resolve("memory") == environments.Task(
        "memory", environments.ROWS["ocean"], "memory"
    )
    assert ocean.env_creator("memory") is ocean.make_memory


def test_made_environment_reports_the_score(monkeypatch):
    monkeypatch.setattr(SplitMix64, "below", lambda self, n: 1)
    env = ocean.make_env("memory")
    env.reset(seed=0)
    info = play(env, [1] * 6)[3]
    assert info == {"score": 1.0, "episode_return": pytest.approx(1.0), "episode_length": 6}
