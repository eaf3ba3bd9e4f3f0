"""The examples run, and do what they say."""

import importlib
import re
import sys
from pathlib import Path

import pytest
import torch

EXAMPLES = Path(__file__).parents[1] / "examples"


@pytest.fixture
def load(monkeypatch):
    """A function that imports an example; it is forgotten afterwards."""
    monkeypatch.syspath_prepend(str(EXAMPLES))
    yield importlib.import_module
    for path in EXAMPLES.glob("*.py"):
        sys.modules.pop(path.stem, None)


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.py")), ids=lambda path: path.name)
def test_an_example_is_short_and_says_what_it_shows(path):
    source = path.read_text()
    assert len(source.splitlines()) <= 60
    assert source.startswith('"""')
    assert f"python examples/{path.name}" in source


def test_emulate(load, capsys):
    pytest.importorskip("mpe2")
    load("emulate").main()
    printed = capsys.readouterr().out
    assert "a Tuple is one row: Box(0, [31 10  1], (3,), int64), [17 10  0]" in printed
    assert "unpacked again: {'f0': [17], 'f1': [10], 'f2': [0]}" in printed
    assert "{'episode_return': -1.0, 'episode_length': 1}" in printed
    assert "rows of agent_0, agent_1, agent_2: (18,)" in printed


def test_vectorize(load, capsys):
    seconds = iter(range(6))
    load("vectorize").main(steps=20, clock=lambda: next(seconds))
    assert re.findall(r"(\w+) +(\d+) steps, +(\d+) a second", capsys.readouterr().out) == [
        ("serial", "160", "160"),
        ("workers", "160", "160"),
        ("pool", "80", "80"),
    ]


def test_train_ocean(load, tmp_path, capsys):
    score = load("train_ocean").main(steps=2_000, run_dir=str(tmp_path))
    assert 0 <= score < 1
    assert f"saved {tmp_path}" in capsys.readouterr().out
    assert len(list(tmp_path.glob("checkpoints/0*.pt"))) == 1


# Training Squared to its end is what `test_learning.py` does.
@pytest.mark.slow
@pytest.mark.parametrize(("name", "least"), [("custom_env", 35.0), ("custom_policy", 0.9)])
def test_what_is_trained_has_learnt(load, tmp_path, name, least):
    assert load(name).main(run_dir=str(tmp_path)) >= least


def test_a_policy_with_memory_trains_too(load, tmp_path):
    assert load("custom_policy").main(steps=2_048, memory=True, run_dir=str(tmp_path)) >= 0.4


@pytest.mark.slow
def test_nethack(load, tmp_path, capsys):
    pytest.importorskip("nle")
    example = load("nethack")
    policy = example.train(steps=1_024, run_dir=str(tmp_path))
    assert example.show_a_game(policy, max_steps=20)["episode_length"] <= 20
    assert "Dlvl" in re.sub(r"\x1b\[[\d;]*m", "", capsys.readouterr().out)


def test_cleanrl_ppo(load, capsys):
    torch.manual_seed(1)
    load("cleanrl_ppo").main("cartpole", updates=1, num_envs=2)
    assert re.fullmatch(r"update 0, mean return [12]\d\.\d\n", capsys.readouterr().out)


def test_cleanrl_ppo_knows_several_agents_and_says_when_no_episode_ended(load, capsys, monkeypatch):
    example = load("cleanrl_ppo")
    example.main("multiagent", updates=1, num_envs=2)
    monkeypatch.setattr(example, "STEPS", 4)
    example.main("cartpole", updates=1, num_envs=2)
    several, none = re.findall(r"mean return (\S+)", capsys.readouterr().out)
    assert 0 < float(several) < 1
    assert none == "nan"


@pytest.mark.slow
def test_cleanrl_ppo_learns_and_plays_what_the_flag_says(load, capsys, monkeypatch):
    torch.manual_seed(1)
    example = load("cleanrl_ppo")
    example.main("cartpole", updates=16, lr=2.5e-3)
    assert float(capsys.readouterr().out.split()[-1]) >= 50
    monkeypatch.setattr(example, "STEPS", 8)
    for env in ("atari", "nethack"):
        example.main(env, updates=1, num_envs=2)
        assert "update 0" in capsys.readouterr().out


@pytest.mark.slow
def test_sb3(load):
    model = load("sb3").main(steps=256, num_envs=2)
    assert model.num_timesteps == 256
    assert model.rollout_buffer.observations.shape == (256, 1, 84, 84)
