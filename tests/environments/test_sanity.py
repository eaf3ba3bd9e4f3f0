"""What the seven sanity checks have in common."""

import copy
import dataclasses
import inspect
import pickle

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium.utils.env_checker import check_env as gymnasium_check

from pufferlib import environments, testing
from pufferlib.environments import ocean
from pufferlib.environments.ocean import environment, sanity
from pufferlib.environments.ocean import ocean as old_names

CLASSES = {
    "squared": sanity.Squared,
    "password": sanity.Password,
    "stochastic": sanity.Stochastic,
    "memory": sanity.Memory,
    "multiagent": sanity.Multiagent,
    "spaces": sanity.Spaces,
    "bandit": sanity.Bandit,
}
SINGLE = [name for name in CLASSES if name != "multiagent"]


def play(env, actions):
    """What `actions` give, one after the other, with resets between episodes."""
    found = []
    for action in actions:
        observation, reward, ended, _, info = env.step(action)
        if ended:
            observation, _ = env.reset()
        leaves = observation.values() if isinstance(observation, dict) else [observation]
        found.append(([leaf.tolist() for leaf in leaves], reward, ended, info))
    return found


def test_there_are_seven_and_each_has_a_best_score():
    assert CLASSES.keys() == sanity.BEST_SCORES.keys()
    assert all(0 < score <= 1 for score in sanity.BEST_SCORES.values())


@pytest.mark.parametrize("name", CLASSES)
def test_every_name_leads_to_it(name):
    assert getattr(old_names, CLASSES[name].__name__) is CLASSES[name]
    make = getattr(ocean, f"make_{name}")
    assert ocean.env_creator(name) is make is getattr(environment, f"make_{name}")
    assert environments.resolve(name).task == name


@pytest.mark.parametrize("name", CLASSES)
def test_every_setting_is_an_argument_of_the_class_with_the_same_default(name):
    config = {field.name: field.default for field in dataclasses.fields(ocean.CONFIGS[name])}
    arguments = inspect.signature(CLASSES[name]).parameters.values()
    assert config == {argument.name: argument.default for argument in arguments}


@pytest.mark.parametrize("name", CLASSES)
def test_its_docstring_says_what_it_exposes_and_its_best_score(name):
    text = inspect.getdoc(CLASSES[name])
    assert "What it tests." in text
    assert "Score." in text


@pytest.mark.parametrize("name", CLASSES)
def test_the_made_environment_keeps_the_contract(name):
    testing.check_env(ocean.env_creator(name), steps=60)


@pytest.mark.parametrize("name", SINGLE)
def test_gymnasium_accepts_it(name):
    gymnasium_check(CLASSES[name](), skip_render_check=True)


@pytest.mark.parametrize("name", SINGLE)
def test_copies_and_pickles_continue_the_same_way(name):
    env = CLASSES[name]()
    env.reset(seed=1)
    env.action_space.seed(1)
    actions = [env.action_space.sample() for _ in range(12)]
    play(env, actions[:2])
    twins = [env, copy.deepcopy(env), pickle.loads(pickle.dumps(env))]
    runs = [play(twin, actions) for twin in twins]
    assert runs[0] == runs[1] == runs[2]


@pytest.mark.parametrize("name", SINGLE)
def test_seeds_leave_the_global_generators_alone(name):
    np.random.seed(1)  # noqa: NPY002 - the global generator is what must be left alone
    before = np.random.get_state()[1].tolist()  # noqa: NPY002
    env = CLASSES[name]()
    env.reset(seed=5)
    env.step(env.action_space.sample())
    assert np.random.get_state()[1].tolist() == before  # noqa: NPY002


@pytest.mark.parametrize("name", CLASSES)
def test_policies_act_on_it(name):
    env = ocean.make_env(name)
    space = env.single_observation_space
    batch = torch.from_numpy(np.stack([np.zeros(space.shape, space.dtype)] * 2))
    sizes = getattr(env.single_action_space, "nvec", [getattr(env.single_action_space, "n", 0)])
    policies = ocean.Policy(env), ocean.Recurrent(env, ocean.Policy(env, hidden_size=32))
    for policy in policies:
        logits, value = policy(batch)[:2]
        logits = logits if isinstance(logits, tuple | list) else [logits]
        assert [tuple(leaf.shape) for leaf in logits] == [(2, size) for size in sizes]
        assert value.shape == (2, 1)


@pytest.mark.parametrize("name", CLASSES)
def test_rendering_is_coloured_text(name):
    env = CLASSES[name]()
    env.reset(seed=0)
    lines = env.render().splitlines()
    assert lines
    assert all(line.startswith("\033[48;5;") and line.endswith("\033[0m") for line in lines)


def test_spaces_are_what_the_page_says():
    boxes = {
        name: CLASSES[name]().observation_space for name in ("password", "stochastic", "bandit")
    }
    assert boxes["password"] == gymnasium.spaces.Box(-1, 1, (5,), np.float32)
    assert boxes["stochastic"] == gymnasium.spaces.Box(0, 1, (1,), np.float32)
    assert boxes["bandit"] == gymnasium.spaces.Box(0, 1, (1,), np.float32)
