"""Emulation of PettingZoo: what it refuses, at construction, at the first step, or always.

Tests named `test_oNN_…` answer public reports about other libraries, by their number there.
"""

import numpy as np
import pytest
from gymnasium.spaces import Box
from toys import PAIR, Lives, emulate, vectorize

from pufferlib.exceptions import APIUsageError, InvalidAgentError, SpaceError, WorkerError


class Odd(Lives):
    """Lives with one thing changed by the test."""

    def __init__(self):
        super().__init__([("ab", "", "")] * 3, possible="ab")


class UnequalSpaces(Odd):
    def observation_space(self, agent):
        return PAIR if agent == "a" else Box(0, 1, (3,), np.float32)


class NoAgents(Odd):
    possible_agents = property(lambda self: [], lambda self, value: None)


class Seedless(Odd):
    def reset(self):
        return super().reset()


@pytest.mark.parametrize(
    ("cls", "error", "message"),
    [
        (UnequalSpaces, SpaceError, r"UnequalSpaces.observation_space: .* for 'a' and .* for 'b'"),
        (NoAgents, APIUsageError, "expected a list of possible_agents, got none"),
        (Seedless, APIUsageError, "reset without seed; .*PettingZooTruncatedWrapper"),
    ],
)
def test_what_cannot_be_emulated_is_refused_at_construction(cls, error, message):
    with pytest.raises(error, match=message):
        emulate(cls())


class ObservationsOnly(Odd):
    def reset(self, seed=None, options=None):
        return super().reset(seed, options)[0]


class FourTuple(Odd):
    def step(self, actions):
        observations, rewards, terminals, _, infos = super().step(actions)
        return observations, rewards, terminals, infos


class Buggy(Odd):
    def reset(self, seed=None, options=None):
        raise TypeError("unexpected keyword argument 'seed'")


class Stranger(Odd):
    def step(self, actions):
        result = super().step(actions)
        self.agents.append("z")
        return result


class Blind(Odd):
    def step(self, actions):
        observations, *rest = super().step(actions)
        return {"a": observations["a"]}, *rest


class WrongShape(Odd):
    def step(self, actions):
        observations, *rest = super().step(actions)
        return observations | {"b": np.zeros(3, np.float32)}, *rest


class OutOfBounds(Odd):
    def step(self, actions):
        observations, *rest = super().step(actions)
        return observations | {"b": np.float32([0, 1e7])}, *rest


@pytest.mark.parametrize(
    ("cls", "error", "message"),
    [
        (
            ObservationsOnly,
            APIUsageError,
            r"reset\(\): expected \(observations, infos\)",
        ),
        (FourTuple, APIUsageError, r"step\(\): expected .*, got tuple of 4; .*TruncatedWrapper"),
        (Buggy, TypeError, "unexpected keyword argument 'seed'"),
        (Stranger, InvalidAgentError, "unknown agent 'z'"),
        (
            Blind,
            SpaceError,
            r"Blind: expected an observation of .* 'b', got .*\['a'\]",
        ),
        (WrongShape, SpaceError, r"agent 'b' of WrongShape: observation: expected shape \(2,\)"),
        (OutOfBounds, SpaceError, "agent 'b' of OutOfBounds: observation: .*10000000.0"),
    ],
)
def test_o15_what_does_not_speak_todays_api_is_refused(cls, error, message):
    env = emulate(cls())
    with pytest.raises(error, match=message):
        env.reset(seed=1) and env.step({"a": 0, "b": 0})
    with vectorize(cls) as vecenv, pytest.raises(WorkerError, match=message):
        vecenv.reset() and vecenv.step([0, 0])


def test_bounds_are_checked_as_often_as_asked():
    class LaterOutOfBounds(Odd):
        def step(self, actions):
            observations, *rest = super().step(actions)
            bad = np.float32([0, 1e7 if self.clock == 2 else 0])
            return observations | {"b": bad}, *rest

    for check, raises in (("first", False), ("never", False), ("always", True)):
        env = emulate(LaterOutOfBounds(), check=check)
        env.reset()
        env.step([0, 0])
        if raises:
            with pytest.raises(SpaceError, match="agent 'b' of LaterOutOfBounds"):
                env.step([0, 0])
        else:
            env.step([0, 0])
