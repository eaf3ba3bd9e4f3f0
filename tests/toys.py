"""Small environments whose every number can be worked out by hand. All of them pickle.

Test modules import them with `from toys import …` (`tests` is on pytest's `pythonpath`).
"""

import random

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Discrete
from gymnasium.vector import AutoresetMode
from pettingzoo import ParallelEnv

import pufferlib
import pufferlib.vector
from pufferlib.emulation import GymnasiumPufferEnv, PettingZooPufferEnv

PAIR = Box(-1e6, 1e6, (2,), np.float32)
FOUR = Discrete(4)


class Echo(gymnasium.Env):
    """Observes `[ident, last action]` (-1 after a reset), pays 1 a step, ends after `length` steps.

    It never ends by default. `truncates` says by which flag it ends. `clock` counts the steps of
    the episode, `resets`, `seeds`, `options` and `closes` what it was asked.
    """

    metadata = {"render_modes": ["ansi"]}
    observation_space = PAIR
    action_space = Discrete(5)
    render_mode = None

    def __init__(self, ident=0, length=None, truncates=False):
        self.ident, self.length, self.truncates = ident, length, truncates
        self.clock = self.resets = self.closes = 0
        self.seeds, self.options = [], []

    def observe(self, action=-1):
        return np.array([self.ident, action], np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.clock = 0
        self.resets += 1
        self.seeds.append(seed)
        self.options.append(options)
        return self.observe(), {}

    def step(self, action):
        self.clock += 1
        over = self.clock == self.length
        return self.observe(action), 1.0, over and not self.truncates, over and self.truncates, {}

    def render(self):
        return f"{self.ident}:{self.clock}"

    def close(self):
        self.closes += 1


class OwnRandom(Echo):
    """Observes two numbers of its own generator, which `reset(seed=…)` seeds."""

    def observe(self, action=-1):
        return self.np_random.random(2).astype(np.float32)


class GlobalRandom(Echo):
    """Observes a number of NumPy's global generator and one of Python's."""

    def observe(self, action=-1):
        return np.array([np.random.random(), random.random()], np.float32)  # noqa: NPY002


class Scripted(gymnasium.Env):
    """Shows `observations` in turn, the first one after each reset, and keeps what it `received`.

    The last observation stays. It pays 0, 1, 2, … and ends after `length` steps, if at all.
    """

    render_mode = None

    def __init__(self, observation_space, observations, action_space=None, length=None):
        self.observation_space = observation_space
        self.observations = observations
        self.action_space = Discrete(2) if action_space is None else action_space
        self.length = length
        self.clock = 0
        self.received = []

    def observe(self):
        return self.observations[min(self.clock, len(self.observations) - 1)]

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.clock = 0
        return self.observe(), {}

    def step(self, action):
        self.received.append(action)
        self.clock += 1
        return self.observe(), self.clock - 1.0, self.clock == self.length, False, {}


def acting(space):
    """An environment with this action space, which keeps the actions it `received`."""
    return Scripted(PAIR, [np.zeros(2, np.float32)], space)


class Lives(ParallelEnv):
    """Agents that come and go by a script, for any number of episodes.

    `script[t]` is what holds after step t, `script[0]` after a reset: the agents that are in the
    game then, and with what flags others (or the same, if it does not take them away) end. Agents
    observe `[10 + place in possible_agents, t]` and are paid `t`. A step must bring an action for
    exactly the agents in the game; `received` keeps them.

    Args:
        script: list of `(agents, terminal agents, truncated agents)`, strings of one-letter names.
        possible: all agents, a string of one-letter names.
        last_observation: whether an agent that leaves gets a last observation and reward.
    """

    metadata = {"name": "lives_v0"}
    render_mode = None

    def __init__(self, script, possible="abc", last_observation=True):
        self.script = script
        self.possible_agents = list(possible)
        self.agents = []
        self.last_observation = last_observation
        self.clock = 0
        self.received = []
        self.closes = 0

    def observation_space(self, agent):
        return PAIR

    def action_space(self, agent):
        return FOUR

    def observe(self, agents):
        places = {agent: 10 + self.possible_agents.index(agent) for agent in agents}
        return {agent: np.array([place, self.clock], np.float32) for agent, place in places.items()}

    def reset(self, seed=None, options=None):
        self.clock = 0
        self.agents = list(self.script[0][0])
        return self.observe(self.agents), {agent: {} for agent in self.agents}

    def step(self, actions):
        assert set(actions) == set(self.agents), (set(actions), self.agents)
        self.received.append(dict(actions))
        self.clock += 1
        before, (after, terminal, truncated) = self.agents, self.script[self.clock]
        self.agents = list(after)
        seen = [a for a in before if self.last_observation or a in after]
        shown = seen + [a for a in self.agents if a not in seen]
        flags = ({a: a in ended for a in before} for ended in (terminal, truncated))
        rewards = {a: float(self.clock) for a in seen}
        return self.observe(shown), rewards, *flags, {a: {"clock": self.clock} for a in seen}

    def render(self):
        return "".join(self.agents)

    def close(self):
        self.closes += 1


# Report O16: b dies at step 2, c appears at step 3, the rest ends at step 4.
COMINGS_AND_GOINGS = [
    ("ab", "", ""),
    ("ab", "", ""),
    ("a", "b", ""),
    ("ac", "", ""),
    ("", "ac", ""),
]


def pair_game(length=3, truncates=False, empties=True):
    """Agents `a` and `b` together for `length` steps; `empties` its list of agents at the end."""
    flags = ("", "ab") if truncates else ("ab", "")
    end = ("" if empties else "ab", *flags)
    return Lives([("ab", "", "")] * length + [end], possible="ab")


class Counters(pufferlib.PufferEnv):
    """Native: agent i observes `[i, steps of the episode]` and is paid its action.

    Every agent's episode ends after `length` steps. Resets in the next step.
    """

    def __init__(self, num_agents=2, length=3, truncates=False):
        self.single_observation_space = PAIR
        self.single_action_space = FOUR
        self.num_agents = num_agents
        self.length, self.truncates = length, truncates
        self.clock = 0
        self.closes = 0
        super().__init__()

    def reset(self, seed=None, options=None):
        self.clock = 0
        self._write(np.zeros(self.num_agents))
        return []

    def step(self, actions):
        if self.clock == self.length:
            return self.reset()
        self.clock += 1
        self._write(actions)
        return self._end() if self.clock == self.length else []

    def _write(self, rewards):
        self.observations[:, 0] = np.arange(self.num_agents)
        self.observations[:, 1] = self.clock
        self.rewards[:] = rewards
        self.terminals[:] = self.truncations[:] = False

    def _end(self):
        (self.truncations if self.truncates else self.terminals)[:] = True
        return [{"episode_length": self.length}]

    def close(self):
        self.closes += 1


class SameStepCounters(Counters):
    """The same, but the step that ends an episode shows the first observation of the next."""

    autoreset_mode = AutoresetMode.SAME_STEP

    def _end(self):
        infos = super()._end()
        if self.truncates:
            self.final_observations[:] = self.observations
        self.clock = 0
        self.observations[:, 1] = 0
        return infos


def emulate(env, **options):
    """`env` emulated, whichever of the two APIs it speaks."""
    multi = isinstance(env, ParallelEnv)
    return (PettingZooPufferEnv if multi else GymnasiumPufferEnv)(env, **options)


def vectorize(creator, n=1, backend="serial", **options):
    """A vecenv of `n` emulated environments; for options see `pufferlib.vector.make`."""
    return pufferlib.vector.make(lambda: emulate(creator()), num_envs=n, backend=backend, **options)
