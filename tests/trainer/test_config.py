"""Precedence, conversion of values, and messages of the configuration."""

import dataclasses
import json
from typing import Literal

import pytest

from pufferlib.exceptions import ConfigError
from pufferlib.models import LSTMWrapper, MinGRUWrapper
from pufferlib.trainer.config import (
    Config,
    TrainConfig,
    VecConfig,
    config_type,
    merge,
    options_of,
    read_toml,
)
from pufferlib.trainer.options import describe, did_you_mean, flatten, parse
from pufferlib.trainer.setup import (
    canonical_name,
    config_from_dict,
    load_config,
    make_policy,
    make_vecenv,
)


@dataclasses.dataclass(frozen=True)
class Task:
    keys: tuple[str, ...] = ("glyphs",)
    size: int = 3


class Network:
    def __init__(self, env, policy, width: int = 8, gain=1.5, *, name: str = "a", **rest):
        pass


def test_sources_override_each_other_in_order(tmp_path):
    file = tmp_path / "mine.toml"
    file.write_text("score_key = 'mine'\n[train]\nlearning_rate = 0.5\ngamma = 0.5\n")
    packaged = load_config("squared")
    assert packaged.score_key == "score"  # from the packaged file
    assert packaged.train.vf_clip_coef == TrainConfig().vf_clip_coef  # from the dataclass
    config = load_config("squared", file, {"train": {"gamma": 0.25}})
    assert config.score_key == "mine"
    assert config.train.learning_rate == 0.5
    assert config.train.gamma == 0.25


@pytest.mark.parametrize("name", ["squared", "ocean", "ocean/squared"])
def test_names_of_one_task_share_its_configuration(name):
    assert canonical_name(name) == "squared"
    assert load_config(name) == load_config("squared")


def test_task_without_own_file_takes_the_family_file():
    pytest.importorskip("nle")
    config = load_config("nethack/NetHackGold-v0")
    assert config.env_name == "nethack/NetHackGold-v0"
    assert config.score_key == load_config("nethack").score_key != Config().score_key


def test_config_survives_json():
    config = load_config("squared", overrides={"train": {"target_kl": 0.1}, "use_rnn": True})
    restored = config_from_dict(json.loads(json.dumps(config.to_dict())))
    assert restored == config


@pytest.mark.parametrize(
    ("name", "names", "hint"),
    [
        ("lr", ["loggers", "learning_rate"], "; did you mean learning_rate?"),
        ("--train.lr", ["--train.loggers", "--train.learning-rate"], "--train.learning-rate?"),
        ("gama", ["gamma", "gae_lambda"], "; did you mean gamma?"),
        ("zzz", ["b", "a"], "; known: a, b"),
        ("zzz", [], "; nothing can be set here"),
    ],
)
def test_a_mistyped_name_gets_the_nearest(name, names, hint):
    assert did_you_mean(name, names).endswith(hint)


def test_groups_are_laid_flat_by_joined_names():
    nested = {"train": {"seed": 1, "loggers": ()}, "env": {}, "use_rnn": False}
    assert list(flatten(nested)) == [("train.seed", 1), ("train.loggers", ()), ("use_rnn", False)]
    assert dict(flatten({"a": {"b": {"c": 3}}}, ": ")) == {"a: b: c": 3}


def test_integral_float_becomes_int_and_int_becomes_float():
    config = merge(Config(), {"train": {"total_timesteps": 1e6, "gamma": 1}}, "file")
    assert config.train.total_timesteps == 1_000_000
    assert type(config.train.total_timesteps) is int
    assert type(config.train.gamma) is float


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (
            {"train": {"learning_rat": 1.0}},
            r"my\.toml: unknown key 'train\.learning_rat'; did you "
            r"mean train\.learning_rate\?",
        ),
        ({"trian": {}}, "did you mean train"),
        ({"train": {"total_timesteps": 1.5}}, "train.total_timesteps: expected int, got 1.5"),
        ({"train": {"total_timesteps": float("nan")}}, "expected int, got nan"),
        ({"train": {"seed": True}}, "train.seed: expected int, got True"),
        ({"train": {"anneal_lr": 1}}, "train.anneal_lr: expected bool, got 1"),
        ({"train": 3}, "train: expected a table of options, got 3"),
        ({"vec": {"backend": "rya"}}, "expected 'serial'/'multiprocessing'/'ray', got 'rya'"),
        ({"vec": {"num_workers": "many"}}, "expected int or 'auto', got 'many'"),
        ({"env": {"size": 1}}, "unknown key 'env.size'; nothing can be set here"),
    ],
)
def test_bad_value_is_refused_with_its_place(values, message):
    with pytest.raises(ConfigError, match=message):
        merge(Config(), values, "my.toml")


def test_lists_become_tuples_and_their_items_are_checked():
    config = config_type(env=Task)()
    assert merge(config, {"env": {"keys": ["a", "b"]}}, "file").env.keys == ("a", "b")
    with pytest.raises(ConfigError, match="env.keys"):
        merge(config, {"env": {"keys": [1]}}, "file")


def test_options_come_from_the_constructor():
    kind = options_of(Network)
    assert {f.name: (f.type, f.default) for f in dataclasses.fields(kind)} == {
        "width": (int, 8),
        "gain": (float, 1.5),
        "name": (str, "a"),
    }


@pytest.mark.parametrize(
    ("text", "kind", "value"),
    [
        ("1e6", int, 1_000_000),
        ("-3", int, -3),
        ("9007199254740993", int, 2**53 + 1),  # not through a float
        ("1", float, 1.0),
        ("False", bool, False),
        ("true", bool, True),
        ("0", bool, False),
        ("None", float | None, None),
        ("none", str | None, None),
        ("0.1", float | None, 0.1),
        ("auto", int | Literal["auto"], "auto"),
        ("4", int | Literal["auto"], 4),
        ("a b", str, "a b"),
    ],
)
def test_text_is_read_by_type(text, kind, value):
    result = parse(text, kind)
    assert result == value
    assert type(result) is type(value)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("1.5", int),
        ("inf", int),
        ("nan", int),
        ("maybe", bool),
        ("2", bool),
        ("None", float),
        ("x", float | None),
        ("x", Literal["a", "b"]),
    ],
)
def test_text_of_the_wrong_type_names_both(text, kind):
    with pytest.raises(ConfigError) as error:
        parse(text, kind)
    assert text in str(error.value)
    assert describe(kind) in str(error.value)


@pytest.mark.parametrize(
    ("options", "num_agents", "sizes"),
    [
        ({}, 8, (128, 32)),
        ({"bptt_horizon": 10}, 3, (30, 10)),
        ({"bptt_horizon": 10}, 7, (70, 70)),
        ({"batch_size": 1024, "minibatch_size": 256}, 8, (1024, 256)),
    ],
)
def test_sizes_are_resolved(options, num_agents, sizes):
    config = TrainConfig(**options).resolve(num_agents)
    assert (config.batch_size, config.minibatch_size) == sizes


def test_minibatches_without_memory_may_be_smaller_than_a_segment():
    """As Stable-Baselines3 has by default: 2,048 steps of one environment, minibatches of 64."""
    config = TrainConfig(bptt_horizon=2048, minibatch_size=64)
    resolved = config.resolve(1, recurrent=False)
    assert (resolved.batch_size, resolved.minibatch_size) == (2048, 64)
    with pytest.raises(
        ConfigError, match=r"minibatch_size \(64\) must be a multiple of .*\(2048\)"
    ):
        config.resolve(1, recurrent=True)
    with pytest.raises(ConfigError, match="multiple of"):
        dataclasses.replace(config, prio_alpha=0.5).resolve(1, recurrent=False)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"batch_size": 100}, r"batch_size \(100\) must be a multiple of .*\(16\).*96 or 112"),
        ({"batch_size": 8}, r"batch_size \(8\) must be a multiple of .*\(16\); nearest: 16"),
        ({"minibatch_size": 24}, r"minibatch_size \(24\) must be a multiple of .*\(16\)"),
        ({"minibatch_size": 48}, r"batch_size \(128\) must be a multiple of .*\(48\)"),
        ({"gamma": 1.5}, "gamma: expected 0 <= gamma <= 1, got 1.5"),
        ({"gamma": float("nan")}, "gamma.*nan"),
        ({"learning_rate": 0.0}, "learning_rate: expected more than 0, got 0.0"),
        ({"seed": -1}, "seed: expected at least 0, got -1"),
        ({"max_seconds": 0.0}, "max_seconds: expected more than 0"),
    ],
)
def test_impossible_numbers_are_named(options, message):
    with pytest.raises(ConfigError, match=message):
        TrainConfig(**options).resolve(8)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_envs": 0}, "vec.num_envs: expected at least 1, got 0"),
        ({"timeout": 0.0}, "vec.timeout: expected more than 0, got 0.0"),
        ({"timeout": float("nan")}, "vec.timeout: expected more than 0, got nan"),
        ({"restart": -1}, "vec.restart: expected at least 0, got -1"),
    ],
)
def test_impossible_vec_options_are_named(options, message):
    with pytest.raises(ConfigError, match=message):
        VecConfig(**options).validate()


def test_every_vec_option_reaches_make(monkeypatch):
    given = {
        "backend": "multiprocessing",
        "num_envs": 6,
        "num_workers": 3,
        "batch_size": 4,
        "zero_copy": False,
        "seed": 5,
        "timeout": 2.5,
        "restart": 7,
    }
    monkeypatch.setattr("pufferlib.vector.make", lambda creator, **arguments: arguments)
    made = make_vecenv(load_config("squared", overrides={"vec": given}))
    assert {name: made[name] for name in given} == given
    assert {*given, "auto"} == {field.name for field in dataclasses.fields(VecConfig)}


def test_unreadable_files_are_named(tmp_path):
    with pytest.raises(ConfigError, match="missing.toml: No such file"):
        read_toml(tmp_path / "missing.toml")
    broken = tmp_path / "broken.toml"
    broken.write_text("[train")
    with pytest.raises(ConfigError, match="broken.toml is not valid TOML"):
        read_toml(broken)


@pytest.mark.parametrize(("kind", "wrapper"), [("lstm", LSTMWrapper), ("mingru", MinGRUWrapper)])
def test_the_kind_of_memory(kind, wrapper):
    changes = {"use_rnn": True, "rnn_kind": kind, "rnn": {"num_layers": 2}}
    config = load_config("squared", overrides=changes)
    with make_vecenv(config, backend="serial", num_envs=1) as vecenv:
        policy = make_policy(config, vecenv.driver_env)
    assert isinstance(policy, wrapper)
    assert policy.num_layers == 2
    assert policy.hidden_size == policy.policy.hidden_size
