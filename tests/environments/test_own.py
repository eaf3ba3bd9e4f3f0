"""Environments of users' own, `module:maker`: what is found, what is set, and every mistake."""

import dataclasses
import json
import sys
from pathlib import Path

import pytest

from pufferlib import environments
from pufferlib.cli import main
from pufferlib.environments import ocean, own
from pufferlib.exceptions import ConfigError
from pufferlib.trainer.runs import find_checkpoint
from pufferlib.trainer.setup import canonical_name, load_config, make_policy, make_vecenv

LINE = '''
from __future__ import annotations

import functools

import numpy as np
from gymnasium.spaces import Box, Discrete

from pufferlib import PufferEnv

NOTHING = None
ANSWER = 42


class Line(PufferEnv):
    """Five steps, each with the chosen number as reward."""

    def __init__(self, agents: int = 8, scale=1.0, render_mode: str | None = "ansi") -> None:
        self.single_observation_space = Box(0, 1, (2,), np.float32)
        self.single_action_space = Discrete(2)
        self.num_agents, self.scale = agents, scale
        super().__init__()

    def reset(self, seed=None, options=None):
        self.tick = 0
        self.observations[:] = self.rewards[:] = 0
        self.terminals[:] = self.truncations[:] = False
        return []

    def step(self, actions):
        if self.tick == 5:
            return self.reset()
        self.tick += 1
        self.observations[:] = self.tick / 5
        self.rewards[:] = actions * self.scale
        self.terminals[:] = self.tick == 5
        return []

    def render(self):
        return f"step {self.tick}\\n"


def needy(agents, scale=2.0):
    return Line(agents, scale)


twice = functools.partial(Line, scale=2.0)
'''


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A working directory with the module `own_line`, forgotten afterwards."""
    (tmp_path / "own_line.py").write_text(LINE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [path for path in sys.path if path])
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        if name.startswith("own_"):
            del sys.modules[name]


def test_a_name_is_its_own_shortest_form(here):
    assert canonical_name("own_line:Line") == "own_line:Line"
    assert environments.resolve("own_line:Line").task == "own_line:Line"


def test_options_are_the_makers_arguments_with_their_types(here):
    config = load_config("own_line:Line")
    options = {spec.name: (spec.type, spec.default) for spec in dataclasses.fields(config.env)}
    assert options == {
        "agents": (int, 8),
        "scale": (float, 1.0),
        "render_mode": (str | None, "ansi"),
    }
    with make_vecenv(config, backend="serial", num_envs=2, agents=3) as vecenv:
        assert vecenv.num_agents == 6


def test_a_partial_function_is_a_maker(here):
    assert load_config("own_line:twice").env.scale == 2.0


def test_the_file_beside_the_module_is_below_the_users(here):
    (here / "own_line.toml").write_text("score_key = 'score'\n[env]\nagents = 5\nscale = 3\n")
    (here / "mine.toml").write_text("[env]\nscale = 4\n")
    config = load_config("own_line:Line", "mine.toml")
    assert (config.score_key, config.env.agents, config.env.scale) == ("score", 5, 4.0)


def test_the_file_of_a_package_lies_in_it(here):
    (here / "own_pack").mkdir()
    (here / "own_pack" / "__init__.py").write_text("from own_line import Line\n")
    (here / "own_pack" / "own_pack.toml").write_text("score_key = 'score'\n")
    assert load_config("own_pack:Line").score_key == "score"


def test_a_mistake_in_that_file_names_it(here):
    (here / "own_line.toml").write_text("[env]\nagent = 5\n")
    message = r"own_line\.toml: unknown key 'env\.agent'; did you mean env\.agents\?"
    with pytest.raises(ConfigError, match=message):
        load_config("own_line:Line")


def test_without_a_policy_of_its_own_it_is_oceans(here):
    face = own.load("own_line:Line")
    assert (face.Policy, face.Recurrent) == (ocean.Policy, ocean.Recurrent)
    config = load_config("own_line:Line", overrides={"use_rnn": True, "policy": {"hidden_size": 8}})
    with make_vecenv(config, backend="serial", num_envs=1) as vecenv:
        assert make_policy(config, vecenv.driver_env).hidden_size == 8
    with pytest.raises(AttributeError, match="has no attribute 'Polcy'"):
        face.Polcy  # noqa: B018


def test_a_policy_of_its_own_is_taken_with_its_options(here):
    policy = (
        "from own_line import Line\n"
        "from pufferlib.models import Default\n"
        "class Policy(Default):\n"
        "    def __init__(self, env, hidden_size: int = 4):\n"
        "        super().__init__(env, hidden_size)\n"
    )
    (here / "own_policy.py").write_text(policy)
    config = load_config("own_policy:Line")
    assert config.policy.hidden_size == 4
    assert "input_size" in {spec.name for spec in dataclasses.fields(config.rnn)}  # LSTMWrapper's


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("own_lien:Line", "found no module 'own_lien' in .*puffer new-env NAME"),
        ("own_line.deep:Line", "found no module 'own_line.deep'"),
        ("own-line:Line", "expected module:maker with dots in the module's name, got 'own-line'"),
        (":Line", "expected module:maker .*, got ''"),
        ("own_line:Lin", r"expected a class or function 'Lin' in .*; it has Line, needy$"),
        ("own_line:", "expected a class or function ''"),
        ("own_line:NOTHING", "expected a class or function that makes an environment, got None"),
        ("own_line:ANSWER", "expected a class or function that makes an environment, got 42"),
        ("own_line:needy", "'agents' has none; give it one, so that it is an option --env.agents"),
    ],
)
def test_mistakes_say_what_is_right(here, name, message):
    with pytest.raises(ConfigError, match=message):
        load_config(name)


def test_a_module_that_misses_another_says_which(here):
    (here / "own_needy.py").write_text("import own_missing\n")
    with pytest.raises(ModuleNotFoundError, match="own_missing"):
        load_config("own_needy:Line")


def test_a_plain_unknown_name_hears_of_the_other_form(here, capsys):
    assert main(["train", "own_line"]) == 2
    assert "(one of your own: module:maker)" in capsys.readouterr().err


def test_nothing_is_installed_for_it(here, capsys):
    assert main(["install", "own_line:Line"]) == 2
    assert "own_line:Line is your own; install what it needs with pip" in capsys.readouterr().err


@pytest.mark.slow
def test_it_is_trained_watched_and_found_again(here, capsys):
    options = ["--train.total-timesteps", "256", "--vec.backend", "serial", "--vec.num-envs", "2"]
    assert main(["train", "own_line:Line", *options, "--train.loggers", "none"]) == 0
    path = find_checkpoint("latest", "own_line:Line", "runs")
    assert path.parents[1].name.startswith("own_line-Line-")
    record = json.loads(Path(path.parents[1], "run.json").read_text())
    assert record["env_name"] == "own_line:Line"
    assert main(["eval", "own_line:Line", "--episodes", "1", "--render", "--fps", "9999"]) == 0
    out = capsys.readouterr().out
    assert "step 5" in out
    assert "episode_length 5.00" in out
