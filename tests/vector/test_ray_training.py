"""The trainer over environments in Ray's actors."""

import pytest
import torch

from pufferlib.cli import main
from pufferlib.trainer import checkpoint

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("ray_session"), pytest.mark.timeout(300)]

OPTIONS = (
    *("--train.device", "cpu", "--train.loggers", "none", "--train.total-timesteps", "600"),
    *("--train.bptt-horizon", "8", "--vec.num-envs", "8", "--vec.num-workers"),
)


def trained(folder, backend, workers, monkeypatch):
    """The last checkpoint of a run."""
    folder.mkdir()
    monkeypatch.chdir(folder)
    assert main(["train", "squared", *OPTIONS, workers, "--vec.backend", backend]) == 0
    (path,) = folder.glob("runs/*/checkpoints/latest.pt")
    return checkpoint.read(path)


def test_actors_on_two_nodes_train_what_one_process_does(tmp_path, monkeypatch):
    here = trained(tmp_path / "serial", "serial", "1", monkeypatch)
    there = trained(tmp_path / "ray", "ray", "4", monkeypatch)
    assert here["global_step"] == there["global_step"] >= 600
    for name, weight in here["policy"].items():
        torch.testing.assert_close(there["policy"][name], weight, atol=0, rtol=0)
