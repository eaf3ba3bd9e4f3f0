"""`puffer export`: from a checkpoint to a file that plays without torch."""

import re
from pathlib import Path

import gymnasium
import numpy as np
import pytest
import torch

from pufferlib.cli import main
from pufferlib.environments import classic_control
from pufferlib.trainer import checkpoint
from pufferlib.trainer.evaluate import greedy_actions
from pufferlib.trainer.runs import find_checkpoint
from pufferlib.trainer.setup import config_of_checkpoint, make_policy

PAGE = Path(__file__).parents[2] / "docs" / "pages" / "policies.md"
SHORT = ["--train.device", "cpu", "--train.total-timesteps", "4096", "--vec.num-envs", "8"]


def trained_policy():
    path = find_checkpoint("latest", "cartpole", "runs")
    content = checkpoint.read(path)
    env = classic_control.make_env()
    policy = make_policy(config_of_checkpoint(content, str(path), "cartpole"), env)
    checkpoint.load_policy(policy, content["policy"])
    return policy.eval(), str(path)


def play(act, seed):
    """Observations and actions of one episode of Gymnasium's own CartPole."""
    env = gymnasium.make("CartPole-v1")
    observation, _ = env.reset(seed=seed)
    observations, actions, over = [], [], False
    while not over:
        action = act(observation, is_first=not actions)
        observations.append(observation)
        actions.append(action)
        observation, _, terminated, truncated, _ = env.step(action)
        over = terminated or truncated
    return np.stack(observations), actions


@pytest.mark.slow
def test_the_exported_policy_plays_cartpole_as_the_trained_one_does(tmp_path, monkeypatch, capsys):
    pytest.importorskip("onnxscript")
    onnxruntime = pytest.importorskip("onnxruntime")
    monkeypatch.chdir(tmp_path)
    assert main(["train", "cartpole", "--use-rnn", *SHORT]) == 0
    assert main(["export", "cartpole"]) == 0
    policy, source = trained_policy()
    assert capsys.readouterr().out.splitlines()[-2] == source
    session = onnxruntime.InferenceSession("cartpole.onnx", providers=["CPUExecutionProvider"])
    properties = session.get_modelmeta().custom_metadata_map
    assert (properties["env"], properties["checkpoint"]) == ("cartpole", source)
    shapes = {entry.name: entry.shape for entry in session.get_inputs()}
    state = {name: np.zeros((1, 1, shapes[name][2]), np.float32) for name in ("state.0", "state.1")}

    def by_onnx(observation, is_first):
        feed = {"observations": observation[None], "starts": np.array([is_first]), **state}
        logits, _, *after = session.run(None, feed)
        state.update(zip(state, after, strict=True))
        return int(logits.argmax())

    memory = None

    @torch.no_grad()
    def by_torch(observation, is_first):
        nonlocal memory
        inputs = torch.from_numpy(observation[None]), memory, torch.tensor([is_first])
        logits, _, memory = policy(*inputs)
        return int(greedy_actions(logits))

    observations, actions = play(by_onnx, seed=5)
    expected_observations, expected_actions = play(by_torch, seed=5)
    assert actions == expected_actions
    assert (observations == expected_observations).all()
    assert len(set(actions)) == 2


@pytest.mark.slow
def test_the_example_of_the_documentation_plays(tmp_path, monkeypatch):
    pytest.importorskip("onnxscript")
    pytest.importorskip("onnxruntime")
    monkeypatch.chdir(tmp_path)
    assert main(["train", "cartpole", *SHORT]) == 0
    assert main(["export", "cartpole"]) == 0
    (source,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    namespace = {}
    exec(source, namespace)
    assert namespace["done"]
    assert namespace["session"].get_outputs()[0].shape == ["batch", 2]


def test_a_directory_that_does_not_exist_is_named(tmp_path, capsys):
    assert main(["export", "cartpole", "--onnx", str(tmp_path / "no" / "a.onnx")]) == 2
    assert "--onnx: expected a file in a directory that exists, got" in capsys.readouterr().err


def test_a_run_is_needed(tmp_path, capsys):
    assert main(["export", "cartpole", "--data-dir", str(tmp_path)]) == 1
    assert "no checkpoint of cartpole" in capsys.readouterr().err
