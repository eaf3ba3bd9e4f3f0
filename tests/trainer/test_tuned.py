"""What `puffer autotune` stores: where, for whom, and what is said when it cannot be used."""

import dataclasses
import json

import pytest

import pufferlib
from pufferlib.exceptions import ConfigError
from pufferlib.trainer import tuned
from pufferlib.trainer.config import VecConfig
from pufferlib.trainer.setup import config_from_dict, config_of_files, load_config

FOUND = {"backend": "multiprocessing", "num_envs": 16, "num_workers": 2, "batch_size": 8}
SQUARED = config_of_files("squared")


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    """A cache of this test, on a machine of two cores."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    use_machine(monkeypatch)
    return tmp_path / "cache"


def use_machine(monkeypatch, cores=2, quota=None):
    monkeypatch.setattr(tuned, "available_cores", lambda: cores)
    monkeypatch.setattr(tuned, "cgroup_quota", lambda root: quota)


def with_env(**changes):
    return dataclasses.replace(SQUARED, env=dataclasses.replace(SQUARED.env, **changes))


# -- where and for whom ------------------------------------------------------------------------


def test_it_is_in_the_users_cache(cache, monkeypatch, tmp_path):
    path = tuned.file_of(SQUARED)
    assert path.parent == cache / "pufferlib" / "autotune"
    assert path.name.startswith("squared-")
    task = dataclasses.replace(SQUARED, env_name="nethack/NetHackGold-v0")
    assert tuned.file_of(task).parent == path.parent
    assert tuned.file_of(task).name.startswith("nethack-NetHackGold-v0-")
    monkeypatch.setenv("HOME", str(tmp_path))
    for unusable in ("", "relative/path"):  # the specification wants these ignored
        monkeypatch.setenv("XDG_CACHE_HOME", unusable)
        assert tuned.file_of(SQUARED) == tmp_path / ".cache/pufferlib/autotune" / path.name


def test_it_belongs_to_the_arguments_and_the_machine_and_to_nothing_else(monkeypatch):
    path = tuned.file_of(SQUARED)
    train = dataclasses.replace(SQUARED.train, learning_rate=0.5)
    vec = dataclasses.replace(SQUARED.vec, num_envs=3)
    assert tuned.file_of(dataclasses.replace(SQUARED, train=train, vec=vec)) == path
    others = {tuned.file_of(with_env(num_targets=2))}
    use_machine(monkeypatch, cores=4)
    others.add(tuned.file_of(SQUARED))
    use_machine(monkeypatch, quota=1.5)
    others.add(tuned.file_of(SQUARED))
    assert len(others | {path}) == 4


def test_what_is_saved_comes_back(cache):
    path = tuned.save(SQUARED, FOUND, 1234.56)
    assert [file.name for file in path.parent.iterdir()] == [path.name]  # no temporary one
    content = json.loads(path.read_text())
    assert content["pufferlib"] == pufferlib.__version__
    assert content["environment"] == "squared"
    assert content["machine"] == {"cores": 2, "quota": None}
    assert content["arguments"] == dataclasses.asdict(SQUARED.env)
    assert content["steps_per_second"] == 1234.6
    assert content["vec"] == {**FOUND, "zero_copy": True}
    before = dataclasses.replace(SQUARED, vec=VecConfig(seed=7, zero_copy=False))
    assert tuned.with_tuned_sizes(before, "").vec == VecConfig(seed=7, zero_copy=True, **FOUND)
    tuned.save(SQUARED, {"backend": "serial", "num_envs": 4}, 1.0)
    assert tuned.with_tuned_sizes(before, "").vec == VecConfig(
        seed=7, backend="serial", num_envs=4, num_workers="auto", batch_size="auto"
    )


def test_a_place_that_cannot_be_written_is_named(cache):
    cache.write_text("a file")
    with pytest.raises(ConfigError, match=r"cannot write .*squared-.*let XDG_CACHE_HOME name"):
        tuned.save(SQUARED, FOUND, 1.0)


# -- what is said ------------------------------------------------------------------------------


def test_without_a_result_the_command_is_told():
    command = tuned.command_of(with_env(num_targets=2), SQUARED)
    assert command == "puffer autotune squared --env.num-targets 2"
    assert tuned.command_of(SQUARED, SQUARED) == "puffer autotune squared"
    with pytest.raises(ConfigError) as error:
        load_config("squared", overrides={"vec": {"auto": True}, "env": {"num_targets": 2}})
    assert str(error.value) == (
        "vec.auto: nothing is stored for squared with these arguments on a machine with 2 cores; "
        f"measure once with: {command}"
    )


def test_options_of_several_words_are_quoted():
    @dataclasses.dataclass
    class Env:
        keys: tuple[str, ...] = ("a",)
        title: str = ""

    usual = dataclasses.replace(SQUARED, env=Env())
    config = dataclasses.replace(SQUARED, env=Env(("b", "c"), "two words"))
    assert tuned.command_of(config, usual) == (
        "puffer autotune squared --env.keys b c --env.title 'two words'"
    )


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("", "is damaged"),
        ('{"pufferlib": ', "is damaged"),
        ("[]", "is damaged"),
        (b"\xff\xfe", "is damaged"),
        ({"vec": {}}, "is damaged"),
        ({"pufferlib": pufferlib.__version__, "vec": 3}, "is damaged"),
        ({"pufferlib": pufferlib.__version__}, "is damaged"),
        ({"pufferlib": "0.0.1", "vec": {}}, "was measured with pufferlib 0.0.1, but this is"),
        (
            {"pufferlib": pufferlib.__version__, "vec": {"num_envs": "many"}},
            "vec.num_envs: expected int, got 'many'",
        ),
        (
            {"pufferlib": pufferlib.__version__, "vec": {"num_cores": 1}},
            "unknown key 'vec.num_cores'",
        ),
        (
            {"pufferlib": pufferlib.__version__, "vec": {"num_envs": 0}},
            "vec.num_envs: expected at least 1, got 0",
        ),
    ],
)
def test_what_cannot_be_used_says_so_and_how_to_measure_again(content, reason):
    path = tuned.save(SQUARED, FOUND, 1.0)
    text = json.dumps(content) if isinstance(content, dict) else content
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(ConfigError) as error:
        load_config("squared", overrides={"vec": {"auto": True}})
    assert str(error.value).startswith("vec.auto: ")
    assert reason in str(error.value)
    assert str(error.value).endswith("; measure once more with: puffer autotune squared")


# -- the order of the sources ------------------------------------------------------------------


def test_what_is_stored_goes_over_files_and_below_overrides(tmp_path):
    tuned.save(SQUARED, FOUND, 1.0)
    file = tmp_path / "mine.toml"
    file.write_text("[vec]\nnum_envs = 32\nzero_copy = false\nseed = 3\n[train]\ngamma = 0.5\n")
    assert load_config("squared", file).vec.num_envs == 32
    config = load_config("squared", file, {"vec": {"auto": True, "num_workers": 1}})
    assert config.vec == VecConfig(
        backend="multiprocessing",  # stored; the packaged file says serial
        num_envs=16,  # stored; mine.toml says 32
        num_workers=1,  # overrides; stored is 2
        batch_size=8,
        zero_copy=True,
        seed=3,  # not stored: mine.toml
        auto=False,
    )
    assert config.train.gamma == 0.5


def test_a_file_can_ask_for_it_and_an_override_decline(tmp_path):
    tuned.save(SQUARED, FOUND, 1.0)
    file = tmp_path / "mine.toml"
    file.write_text("[vec]\nauto = true\n")
    assert load_config("squared", file).vec.num_envs == 16
    declined = load_config("squared", file, {"vec": {"auto": False}})
    assert declined.vec == config_of_files("squared").vec


def test_the_arguments_that_count_are_the_final_ones(tmp_path):
    tuned.save(with_env(num_targets=2), FOUND, 1.0)
    overrides = {"vec": {"auto": True}, "env": {"num_targets": 2}}
    assert load_config("squared", overrides=overrides).vec.num_envs == 16


def test_the_record_of_a_run_has_the_sizes_themselves(cache):
    path = tuned.save(SQUARED, FOUND, 1.0)
    config = load_config("squared", overrides={"vec": {"auto": True}})
    path.unlink()
    assert config_from_dict(config.to_dict()) == config
