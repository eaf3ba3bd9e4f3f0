"""States of environments: complete, or refused with a reason."""

import gymnasium
import numpy as np
import pytest
from gymnasium.utils import EzPickle

from pufferlib import snapshot
from pufferlib.exceptions import SnapshotError
from pufferlib.postprocess import EpisodeStats


class Counter(gymnasium.Env):
    """Counts its steps; the observation is the count and a random number."""

    observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (2,))
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.count = 0
        return np.array([0, self.np_random.random()]), {}

    def step(self, action):
        self.count += 1
        return np.array([self.count, self.np_random.random()]), 1.0, self.count == 5, False, {}


class Stateful(Counter):
    """Says itself what its state is, and holds what cannot be pickled."""

    def __init__(self):
        self.resource = lambda: None

    def get_state(self):
        return {"count": self.count, "random": self.np_random}

    def set_state(self, state):
        self.count, self.np_random = state["count"], state["random"]


def play(env, steps):
    results = []
    for _ in range(steps):
        observation, *rest = env.step(0)
        results.append((observation.tolist(), *rest))
        if rest[1]:
            results.append(env.reset()[0].tolist())
    return results


def wrapped(env):
    return EpisodeStats(gymnasium.wrappers.TimeLimit(EpisodeStats(env), 100))


@pytest.mark.parametrize("kind", [Counter, Stateful])
@pytest.mark.parametrize("wrap", [lambda env: env, wrapped])
def test_a_restored_environment_goes_on_with_its_episode(kind, wrap):
    env = wrap(kind())
    env.reset(seed=4)
    play(env, 3)
    taken = snapshot.take(env)
    expected = play(env, 9)
    for _ in range(2):  # the bytes are not used up
        other = wrap(kind())
        other.reset(seed=8)
        assert play(snapshot.put_back(other, taken), 9) == expected


def test_a_layer_with_a_state_of_its_own_stays_the_same_object():
    env, other = wrapped(Stateful()), wrapped(Stateful())
    env.reset(seed=1)
    resource = other.unwrapped.resource
    restored = snapshot.put_back(other, snapshot.take(env))
    assert restored is not other
    assert restored.unwrapped is other.unwrapped
    assert restored.unwrapped.resource is resource


class Again(EzPickle, Counter):
    def __init__(self):
        EzPickle.__init__(self)


class InItsOwnWay(Counter):
    def __getstate__(self):
        return {}


class SharedMemory(Counter):
    def __init__(self):
        self.board = np.zeros((3, 3))
        self.row = self.board[1]


class ForeignMemory(Counter):
    def __init__(self):
        self.screen = np.frombuffer(memoryview(bytearray(8)), np.uint8)


class Pair(Counter):
    def __init__(self):
        self.both = [Stateful(), Stateful()]
        for env in self.both:
            env.reset(seed=0)


class Unpicklable(Counter):
    def __init__(self):
        self.function = lambda: None


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        (Again, r"Again pickles as its constructor's arguments \(EzPickle\)"),
        (InItsOwnWay, "InItsOwnWay pickles in its own way"),
        (SharedMemory, r"two arrays, \(3, 3\) and \(3,\), share memory"),
        (ForeignMemory, r"an array \(8,\) lies in the memory of memoryview"),
        (Pair, "Stateful has a state of its own beside Stateful"),
        (Unpicklable, "Unpicklable cannot be pickled .*<lambda>"),
    ],
)
def test_what_would_be_lost_is_refused(kind, message):
    env = wrapped(kind())
    env.reset(seed=1)
    with pytest.raises(SnapshotError, match=rf"{message}[\s\S]*get_state\(\) and set_state\(state"):
        snapshot.take(env)


def test_a_class_that_only_has_a_setter_is_pickled():
    # MuJoCo's environments have a set_state(qpos, qvel).
    class Setter(Counter):
        set_state = None

    assert not snapshot.has_state(Setter())
    assert snapshot.has_state(Stateful())
    assert not snapshot.has_state(EpisodeStats(Stateful()))
    assert not snapshot.has_state(np.random.RandomState())


def test_damaged_bytes_are_refused():
    env = Counter()
    env.reset(seed=1)
    with pytest.raises(SnapshotError, match="the state of Counter cannot be restored"):
        snapshot.put_back(env, snapshot.take(env)[:-20])
