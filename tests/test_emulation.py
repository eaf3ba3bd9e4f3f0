"""Emulated Gymnasium environments: kinds of rows, the calls of one alone, real environments."""

import copy
import dataclasses
import inspect
import pickle
import warnings

import cloudpickle
import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete, MultiDiscrete, Tuple
from gymnasium.utils import EzPickle
from gymnasium.utils.env_checker import check_env
from pettingzoo import ParallelEnv
from toys import PAIR, Echo, Lives, Scripted, acting, emulate, pair_game, vectorize

import pufferlib.vector
from pufferlib.buffers import Buffers
from pufferlib.emulation import GymnasiumPufferEnv, PettingZooPufferEnv
from pufferlib.exceptions import APIUsageError

F32 = Box(-1, 1, (2,), np.float32)
U8 = Box(0, 255, (2,), np.uint8)
ZERO = np.zeros(2, np.float32)
MIXTURE = Dict(a=F32, b=Discrete(100))


def bind(env):
    """The poisoned buffers of one emulated environment, and what steps them."""
    buffers = Buffers.allocate(env.single_observation_space, env.single_action_space, 1)
    rows = env.bind(buffers)
    buffers.poison()
    return buffers, rows


# -- row kinds -----------------------------------------------------------------------------------


@pytest.mark.smoke
@pytest.mark.parametrize(("truncates", "end"), [(False, (1, 0)), (True, (0, 1))])
def test_every_kind_of_row(truncates, end):
    buffers, rows = bind(emulate(Echo(7, length=2, truncates=truncates)))
    table = []

    def look():
        row = (
            a[0] for a in (buffers.rewards, buffers.terminals, buffers.truncations, buffers.masks)
        )
        table.append((buffers.observations[0].tolist(), *map(float, row)))
        buffers.observations.fill(np.nan)
        buffers.rewards.fill(np.nan)

    rows.reset(seed=0)
    look()
    for action in (1, 2, 3, 4):
        buffers.actions[:] = action
        rows.step(buffers.actions)
        look()
    assert table == [
        # observation, reward, terminal, truncation, mask
        ([7, -1], 0, 0, 0, 1),  # after the reset
        ([7, 1], 1, 0, 0, 1),  # normal
        ([7, 2], 1, *end, 1),  # last of the episode
        ([7, -1], 0, 0, 0, 1),  # auto-reset: the action 3 is not used
        ([7, 4], 1, 0, 0, 1),  # normal
    ]


def test_a_reset_in_mid_episode_begins_anew():
    buffers, rows = bind(emulate(Echo(length=2)))
    rows.reset(seed=0)
    buffers.actions[:] = 1
    rows.step(buffers.actions)
    rows.reset(seed=1)
    assert (rows.env.env.clock, buffers.rewards[0]) == (0, 0)
    rows.step(buffers.actions)
    assert not buffers.terminals[0]


def test_rows_take_actions_from_any_array():
    buffers, rows = bind(emulate(Echo()))
    rows.reset()
    rows.step(np.array([3]))
    assert buffers.observations[0].tolist() == [0, 3]


def test_seeds_reach_resets_and_auto_resets_pass_none():
    buffers, rows = bind(emulate(Echo(length=1)))
    rows.reset(seed=11, options={"level": 2})
    for _ in range(3):
        rows.step(buffers.actions * 0)
    assert rows.env.env.seeds == [11, None]
    assert rows.env.env.options == [{"level": 2}, None]


# -- what you see --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "space", [F32, U8, Discrete(3), Discrete(3, start=2), MultiDiscrete([2, 3])]
)
def test_plain_observation_spaces_stay_the_same_object(space):
    env = emulate(Scripted(space, []))
    assert env.observation_space is env.single_observation_space is space
    assert env.emulated is None


@pytest.mark.parametrize("space", [Discrete(3), MultiDiscrete([2, 3]), F32])
def test_plain_action_spaces_stay_the_same_object(space):
    env = emulate(acting(space))
    assert env.action_space is env.single_action_space is space


def test_emulated_says_how_and_is_frozen():
    emulated = emulate(Scripted(MIXTURE, [], Tuple([Discrete(3), F32]))).emulated
    assert emulated.observation_dtype.names == ("a", "b")
    assert emulated.emulated_observation_dtype == np.uint8
    assert emulated.action_dtype.names == ("f0", "f1")
    with pytest.raises(dataclasses.FrozenInstanceError):
        emulated.action_dtype = None
    assert pickle.loads(pickle.dumps(emulated)) == emulated


def test_only_actions_may_be_emulated():
    emulated = emulate(acting(Discrete(3, start=1))).emulated
    assert emulated.observation_dtype.names is None
    assert emulated.emulated_observation_dtype == np.float32


# -- construction and the calls of an environment alone ------------------------------------------


@pytest.mark.parametrize("cls", [GymnasiumPufferEnv, PettingZooPufferEnv])
def test_both_kinds_are_made_alike(cls):
    parameters = inspect.signature(cls).parameters.values()
    assert [(p.name, p.default) for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD] == [
        ("env", None),
        ("env_creator", None),
        ("env_args", ()),
        ("env_kwargs", None),
        ("check", "first"),
    ]
    features = {p.name: p.default for p in parameters if p.kind is p.KEYWORD_ONLY}
    several = {"teams": None, "pad_agents": True} if cls is PettingZooPufferEnv else {}
    assert features == several | {
        "postprocessor": None,
        "flatten_observations": True,
        "flatten_actions": True,
        "suppress_output": False,
    }
    assert issubclass(cls, {GymnasiumPufferEnv: gymnasium.Env}.get(cls, ParallelEnv))


@pytest.mark.parametrize(
    "arguments",
    [
        {"env": pair_game()},
        {"env": pair_game},
        {"env_creator": pair_game, "env_args": [2]},
        {"env": Lives, "env_kwargs": {"script": [("ab", "", "")] * 2, "possible": "ab"}},
    ],
    ids=["object", "function", "arguments", "class as env"],
)
def test_many_agents_from_an_object_a_class_or_a_creator(arguments):
    env = PettingZooPufferEnv(**arguments)
    assert {agent: row.tolist() for agent, row in env.reset()[0].items()} == {
        "a": [10, 0],
        "b": [11, 0],
    }
    assert env.num_agents == 2


@pytest.mark.parametrize(
    "arguments",
    [
        {"env": Echo(3)},
        {"env": lambda: Echo(3)},
        {"env_creator": Echo, "env_args": [3]},
        {"env": Echo, "env_kwargs": {"ident": 3}},
        {"env_creator": lambda **kwargs: Echo(**kwargs), "env_kwargs": {"ident": 3}},
    ],
    ids=["object", "function", "class", "class as env", "keywords"],
)
def test_an_object_a_class_or_a_creator(arguments):
    env = GymnasiumPufferEnv(**arguments)
    assert env.reset()[0].tolist() == [3, -1]
    assert env.num_agents == 1
    assert env.unwrapped is env.env


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "expected either env or env_creator, got neither"),
        ({"env": Echo(), "env_creator": Echo}, "expected either env or env_creator, got both"),
        ({"env": Echo(), "env_args": [1]}, "env_args and env_kwargs go with env_creator"),
        ({"env_creator": "Echo"}, "expected a class or a function .* got str"),
        ({"env": 3}, "expected a class or a function .* got int"),
    ],
)
def test_other_constructions_are_refused(arguments, message):
    with pytest.raises(APIUsageError, match=message):
        GymnasiumPufferEnv(**arguments)


def test_calls_out_of_order_are_refused():
    env = emulate(Echo(length=1))
    assert env.done
    with pytest.raises(APIUsageError, match="before reset"):
        env.step(0)
    env.reset()
    assert not env.done
    assert env.step(0)[2]
    assert env.done
    with pytest.raises(APIUsageError, match="after the episode ended; call reset"):
        env.step(0)
    env.reset()
    env.step(0)


class Paying(Echo):
    """Pays one thing after the other."""

    rewards = (1, True, 0.1, np.float64(0.1), np.float32(3), np.int8(-2), np.array(0.5))

    def step(self, action):
        observation, _, *rest = super().step(action)
        return observation, self.rewards[self.clock - 1], *rest


def test_rewards_of_any_numeric_type():
    env, (buffers, rows) = emulate(Paying()), bind(emulate(Paying()))
    env.reset()
    rows.reset()
    for reward in Paying.rewards:
        found = env.step(0)[1]
        assert (found, type(found)) == (float(reward), float)
        rows.step(buffers.actions * 0)
        assert buffers.rewards[0] == np.float32(reward)


@pytest.mark.parametrize("creator", [Echo, pair_game])
def test_options_pass_through(creator):
    class Asked(creator if isinstance(creator, type) else Lives):
        def reset(self, seed=None, options=None):
            self.asked = options
            return super().reset(seed=seed, options=options)

    arguments = [] if creator is Echo else [pair_game().script, "ab"]
    env = emulate(Asked(*arguments))
    env.reset(seed=1, options={"level": 2})
    assert env.env.asked == {"level": 2}
    with vectorize(lambda: Asked(*arguments), n=2) as vecenv:
        vecenv.reset(options={"level": 3})
        assert vecenv.get_attr("asked") == [{"level": 3}] * 2


def test_infos_rendering_and_closing_pass_through():
    class Informing(Echo):
        def reset(self, *, seed=None, options=None):
            return super().reset(seed=seed)[0], {"level": 1}

        def step(self, action):
            return *super().step(action)[:-1], {"hit": action}

    env = emulate(Informing(4))
    assert env.reset()[1] == {"level": 1}
    assert env.step(2)[-1] == {"hit": 2}
    assert env.render() == "4:1"
    assert env.render_mode is None
    assert env.metadata == {"render_modes": ["ansi"]}
    env.close()
    assert env.env.closes == 1


@pytest.mark.parametrize(
    "travel",
    [
        copy.deepcopy,
        lambda x: pickle.loads(pickle.dumps(x)),
        lambda x: pickle.loads(cloudpickle.dumps(x)),
    ],
    ids=["deepcopy", "pickle", "cloudpickle"],
)
def test_emulated_environments_travel(travel):
    actions = Tuple([Discrete(3, start=1), F32])
    env = emulate(Scripted(MIXTURE, [{"a": ZERO, "b": 3}], actions, length=2))
    assert travel(env).done
    env.reset(seed=1)
    env.step(np.zeros(3, np.float32))
    twin = travel(env)
    assert twin.single_observation_space == env.single_observation_space
    assert twin.single_action_space == env.single_action_space
    assert twin.emulated == env.emulated
    assert not twin.done
    assert twin.step(np.float32([2, 0, 0]))[1:4] == (1.0, True, False)
    assert twin.env.received[-1][0] == 3
    assert len(env.env.received) == 1
    assert travel(twin).done
    np.testing.assert_array_equal(twin.reset()[0], env.reset()[0])


class Remade(EzPickle, Echo):
    """Its copies are made anew, from the arguments of the constructor."""

    def __init__(self, ident):
        EzPickle.__init__(self, ident)
        Echo.__init__(self, ident)


@pytest.mark.parametrize("travel", [copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))])
def test_a_copy_whose_environment_is_made_anew_begins_with_a_reset(travel):
    env = emulate(Remade(3))
    env.reset()
    twin = travel(env)
    assert (twin.done, env.done) == (True, False)
    with pytest.raises(APIUsageError, match="before reset"):
        twin.step(0)
    assert twin.reset()[0].tolist() == [3, -1]


# -- real environments ---------------------------------------------------------------------------


def play_randomly(env, steps):
    """Rows of the flat space and the same steps of a twin that is not emulated, leaf by leaf."""
    twin = copy.deepcopy(env.env)
    env.action_space.seed(0)
    row, _ = env.reset(seed=7)
    observation, _ = twin.reset(seed=7)
    for _ in range(steps):
        assert env.observation_space.contains(row)
        assert_equal(env.observation_plan.decode(np.asarray(row)), observation)
        action = env.action_space.sample()
        row, reward, terminal, truncation, _ = env.step(action)
        observation, *others, _ = twin.step(env.action_plan.decode(np.asarray(action)))
        assert [reward, terminal, truncation] == others
        if terminal or truncation:
            row, _ = env.reset()
            observation, _ = twin.reset()


def assert_equal(found, expected):
    if isinstance(expected, dict):
        for key, value in expected.items():
            assert_equal(found[key], value)
    elif isinstance(expected, tuple):
        for one, other in zip(found, expected, strict=True):
            assert_equal(one, other)
    else:
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("name", ["CartPole-v1", "Pendulum-v1", "Blackjack-v1", "Taxi-v3"])
def test_real_environments_behave_as_without_emulation(name):
    play_randomly(GymnasiumPufferEnv(gymnasium.make(name, disable_env_checker=True)), steps=300)


class Recording(gymnasium.Wrapper):
    """Keeps a copy of what the environment returned last."""

    def reset(self, **keywords):
        result = self.env.reset(**keywords)
        self.last = copy.deepcopy(result)
        return result

    def step(self, action):
        result = self.env.step(action)
        self.last = copy.deepcopy(result)
        return result


@pytest.mark.parametrize("keys", [("glyphs", "blstats", "message", "inv_strs"), ("glyphs",), None])
def test_nethack_rows_hold_what_the_game_shows(keys):
    pytest.importorskip("nle")
    import nle  # noqa: F401 - registers the tasks

    options = {} if keys is None else {"observation_keys": keys}
    env = GymnasiumPufferEnv(
        Recording(gymnasium.make("NetHackScore-v0", **options)), check="always"
    )
    row, _ = env.reset(seed=1)
    rng = np.random.default_rng(0)
    for _ in range(50):
        assert_equal(env.observation_plan.decode(row), env.env.last[0])
        row, *others = env.step(int(rng.integers(env.action_space.n)))
        assert others[:3] == list(env.env.last[1:4])
        if env.done:
            row, _ = env.reset()
    assert row.dtype == (np.int16 if keys == ("glyphs",) else np.uint8)
    env.close()


@pytest.mark.parametrize(
    "creator",
    [
        lambda: gymnasium.make("CartPole-v1").unwrapped,
        lambda: gymnasium.make("Blackjack-v1").unwrapped,
        lambda: Scripted(
            Dict(a=F32, b=Tuple([Discrete(3, start=1), U8])),
            [{"a": ZERO, "b": (2, np.uint8([1, 2]))}],
            Dict(c=Discrete(3, start=-1), d=F32),
        ),
    ],
    ids=["CartPole", "Blackjack", "nested"],
)
def test_gymnasiums_own_check_passes(creator):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # advice about rendering and registration
        check_env(emulate(creator()), skip_render_check=True)


def test_gymnasiums_wrappers_go_outside_too():
    env = gymnasium.wrappers.TimeLimit(emulate(Echo()), max_episode_steps=2)
    env.reset()
    assert env.step(0)[3] is False
    assert env.step(0)[3] is True


def test_a_real_environment_in_a_vecenv():
    creator = lambda: GymnasiumPufferEnv(gymnasium.make("Taxi-v3"))  # noqa: E731
    with pufferlib.vector.make(creator, num_envs=2, seed=3) as vecenv:
        assert vecenv.single_observation_space == Discrete(500)
        observations, _ = vecenv.reset()
        assert observations.shape == (2,)
        assert observations.dtype == np.int64


def test_the_row_of_a_plain_pair_is_the_pair():
    buffers, rows = bind(emulate(Echo(3)))
    rows.reset()
    assert buffers.observations.shape == (1, *PAIR.shape)
    assert buffers.observations[0].tolist() == [3, -1]
