"""What a training leaves in its directory, and how it gets along with a disk that is full."""

import io
import json
import os
import subprocess
import sys
from contextlib import suppress

import pytest
import torch

from pufferlib import clean_pufferl
from pufferlib.cli import main
from pufferlib.commands import train as train_command
from pufferlib.exceptions import CheckpointError
from pufferlib.trainer import record
from pufferlib.trainer.curves import read_points
from pufferlib.trainer.summary import summarize

SMALL = (
    *("--train.bptt-horizon", "8", "--vec.backend", "serial", "--vec.num-envs", "4"),
    *("--train.device", "cpu", "--train.loggers", "none"),
)
UPDATE = 28
"""Steps in an update of `SMALL` at least: 32 rows, some of them the last of an episode."""


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def only_run(directory):
    (run_dir,) = directory.glob("runs/squared-*")
    return run_dir


def train(updates, *options):
    steps = ["--train.total-timesteps", f"{updates * UPDATE}"]
    return main(["train", "squared", *SMALL, *steps, *options])


@pytest.mark.slow
def test_a_run_and_its_resumption_are_recorded(here):
    assert train(2) == 0
    run_dir = only_run(here)
    first = summarize(run_dir)
    assert (first.env, first.state, first.score_key) == ("squared", "finished", "score")
    assert {path.name for path in run_dir.iterdir()} == {
        "checkpoints",
        "config.json",
        "metrics.jsonl",
        "run.json",
    }
    latest = torch.load(run_dir / "checkpoints" / "latest.pt", weights_only=True)
    assert first.steps == latest["global_step"]  # the last update is logged, however soon it came
    assert main(["train", "squared", "--resume", "latest", "--train.total-timesteps", "200"]) == 0
    second = summarize(run_dir)
    assert second.steps >= 200 > first.steps
    assert second.seconds > first.seconds
    written = record.read(run_dir)
    assert [entry["state"] for entry in written["earlier"]] == ["finished"]
    assert written["result"]["steps"] == second.steps
    assert main(["eval", "squared", "--episodes", "1", "--save-video", "run"]) == 0
    assert [path.stem for path in run_dir.glob("videos/*.mp4")] == [second.checkpoint.stem]
    for name in ("train/explained_variance", "train/learning_rate", "train/ent_coef"):
        assert name in second.metrics


def test_an_error_is_recorded(here, monkeypatch):
    def broken(trainer):
        raise ZeroDivisionError("the dice are gone")

    monkeypatch.setattr(clean_pufferl, "train", broken)
    with pytest.raises(ZeroDivisionError):
        train(2)
    written = record.read(only_run(here))
    assert written["state"] == "crashed"
    assert written["result"]["error"] == "ZeroDivisionError: the dice are gone"


class Gone(io.StringIO):
    """A pipe whose reader has left."""

    def write(self, text):
        raise BrokenPipeError


def test_a_run_that_nobody_reads_any_more_ends_with_a_checkpoint(here, monkeypatch):
    monkeypatch.setattr(sys, "stdout", Gone())
    with pytest.raises(BrokenPipeError, match="nobody reads what the run prints any more"):
        train_command.train(["squared", *SMALL, "--train.total-timesteps", "1000"])
    monkeypatch.undo()
    assert summarize(only_run(here)).checkpoint.name == "000001.pt"
    assert "BrokenPipeError" in record.read(only_run(here))["result"]["error"]


def test_a_logger_whose_package_is_missing_costs_no_environment(here, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "wandb", None)
    monkeypatch.setattr("pufferlib.commands.session.make_vecenv", pytest.fail)
    assert train(2, "--train.loggers", "tensorboard", "wandb") == 1
    assert "pip install 'pufferlib[wandb]'" in capsys.readouterr().err


def test_a_checkpoint_that_cannot_be_written_midway_does_not_end_the_run(here, monkeypatch, capsys):
    real, calls = clean_pufferl.save_checkpoint, []

    def save(trainer):
        calls.append(trainer.epoch)
        if trainer.epoch < 3:
            raise CheckpointError("no space")
        return real(trainer)

    monkeypatch.setattr(clean_pufferl, "save_checkpoint", save)
    assert train(4, "--train.checkpoint-interval", "1") == 0
    assert calls[:3] == [1, 2, 3]
    out = capsys.readouterr().out
    assert "no checkpoint of update 1: no space" in out
    assert summarize(only_run(here)).checkpoint.name == f"{calls[-1]:06d}.pt"


def test_a_last_checkpoint_that_cannot_be_written_is_a_failure(here, monkeypatch, capsys):
    def save(trainer):
        raise CheckpointError("no space")

    monkeypatch.setattr(clean_pufferl, "save_checkpoint", save)
    assert train(2) == 1
    assert "no space" in capsys.readouterr().err
    assert record.read(only_run(here))["state"] == "crashed"


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0, reason="mounts a small disk")
def test_a_disk_that_fills_and_empties_again(here, monkeypatch, capsys):
    disk = here / "runs"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=2m", "puffer-test", str(disk)]
    if subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("may not mount a tmpfs here")
    real, updates = clean_pufferl.train, []

    def train_and_fill(trainer):
        updates.append(trainer.epoch)
        if len(updates) == 3:
            with suppress(OSError), (disk / "filler").open("wb", buffering=0) as file:
                while True:
                    file.write(b"x" * 4096)
        if len(updates) == 6:
            (disk / "filler").unlink()
        return real(trainer)

    monkeypatch.setattr(clean_pufferl, "train", train_and_fill)
    monkeypatch.setattr("pufferlib.commands.session.LOG_SECONDS", 0.0)
    try:
        options = ["--train.checkpoint-interval", "1", "--train.loggers", "tensorboard"]
        assert train(9, *options) == 0
        run_dir = only_run(here)
        names = [path.stem for path in sorted(run_dir.glob("checkpoints/0*.pt"))]
        assert names[:2] == ["000001", "000002"]
        assert "000004" not in names
        assert names[-1] == f"{len(updates):06d}"
        torch.load(run_dir / "checkpoints" / "latest.pt", weights_only=True)
        points = read_points(run_dir / "metrics.jsonl").points
        assert points[-1]["performance/updates"] == len(updates)
        assert json.loads((run_dir / "run.json").read_text())["state"] == "finished"
        assert capsys.readouterr().out.count("no checkpoint of update") >= 3
    finally:
        subprocess.run(["umount", str(disk)], check=True)
