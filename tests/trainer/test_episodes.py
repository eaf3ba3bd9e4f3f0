"""A resumed run goes on with its episodes, bit by bit, or says why it cannot."""

import pickle
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import resumable
import torch

from pufferlib import clean_pufferl
from pufferlib.cli import main
from pufferlib.emulation import GymnasiumPufferEnv
from pufferlib.trainer import checkpoint

FRESH = [name for name in resumable.RUNS if name != "squared"]


def assert_equal(ours, theirs, path="checkpoint"):
    assert type(ours) is type(theirs), path
    if isinstance(ours, torch.Tensor):
        assert torch.equal(ours, theirs), path
    elif isinstance(ours, dict):
        assert ours.keys() == theirs.keys(), path
        for key in ours:
            assert_equal(ours[key], theirs[key], f"{path}/{key}")
    elif isinstance(ours, list | tuple):
        assert len(ours) == len(theirs), path
        for i, (one, other) in enumerate(zip(ours, theirs, strict=True)):
            assert_equal(one, other, f"{path}/{i}")
    else:
        assert ours == theirs, path


@pytest.fixture(scope="module")
def resumed_runs(tmp_path_factory):
    """Every run straight through four updates, and the second half of it in a fresh process."""
    directory = tmp_path_factory.mktemp("runs")
    told = {}
    for name in FRESH:
        trainer = resumable.start(name, directory)
        resumable.update(trainer, 2)
        shutil.copy(clean_pufferl.save_checkpoint(trainer), directory / name / "half.pt")
        told[name] = resumable.update(trainer, 2)
        clean_pufferl.save_checkpoint(trainer)
        clean_pufferl.close(trainer)
    command = [sys.executable, resumable.__file__, str(directory), *FRESH]
    subprocess.run(command, check=True, timeout=100)
    return directory, told


@pytest.mark.slow
@pytest.mark.parametrize("name", FRESH)
def test_a_fresh_process_goes_on_as_if_nothing_had_happened(resumed_runs, name):
    directory, told = resumed_runs
    why_new, results = torch.load(directory / name / "told", weights_only=True)
    assert why_new is None
    assert_equal(results, told[name], "results")
    straight, resumed = (
        checkpoint.read(where / name / "checkpoints" / "000004.pt")
        for where in (directory, directory / "fresh")
    )
    for content in (straight, resumed):
        del content["episodes"]["environments"]  # pickles of equal objects may differ
    assert_equal(resumed, straight)


@pytest.mark.slow
def test_these_runs_have_episodes_under_way(resumed_runs):
    # Else a reset would do: the first rewards of new episodes are not those that were pending.
    directory, told = resumed_runs
    for name in ("squared-memory", "walk", "shift-memory"):
        source = directory / name / "half.pt"
        why_new, results, _ = resumable.resume(
            name, directory / "reset", source, 2, resume_episodes=False
        )
        assert why_new == "train.resume_episodes is off"
        assert results != told[name]


class Lock(resumable.GlobalDice):
    """Cannot be pickled."""

    def __init__(self):
        self.key = sys.stdout


@pytest.fixture
def with_locks(monkeypatch):
    monkeypatch.setitem(
        resumable.RUNS, "lock", (lambda: GymnasiumPufferEnv(env=Lock()), {"num_envs": 2}, False)
    )


def missing(trainer):
    return checkpoint.read(clean_pufferl.save_checkpoint(trainer))["episodes"]["missing"]


def test_environments_without_a_state_start_new_episodes(tmp_path, with_locks):
    trainer = resumable.start("lock", tmp_path)
    resumable.update(trainer, 1)
    path = clean_pufferl.save_checkpoint(trainer)
    clean_pufferl.close(trainer)
    why_new, results, _ = resumable.resume("lock", tmp_path / "again", path, 1)
    assert "the state of Lock cannot be pickled (TypeError: " in why_new
    assert len(results) == 1


def test_batches_smaller_than_the_pool_start_new_episodes(tmp_path, monkeypatch):
    monkeypatch.setitem(resumable.RUNS, "pool", (resumable.make_squared, {"batch_size": 2}, False))
    trainer = resumable.start("pool", tmp_path)
    resumable.update(trainer, 1)
    assert "batches have 2 of 4 agents" in missing(trainer)
    clean_pufferl.close(trainer)


def test_only_the_time_between_two_batches_can_be_gone_back_to(tmp_path):
    trainer = resumable.start("squared", tmp_path)
    reason = "the checkpoint was not written between two batches"
    assert missing(trainer) == reason  # before the first
    clean_pufferl.evaluate(trainer)
    assert missing(trainer) == reason  # collected, not learnt from
    clean_pufferl.train(trainer)
    assert "missing" not in checkpoint.describe(trainer)["episodes"]
    trainer.vecenv.close()
    with pytest.raises(Exception, match="closed"):
        clean_pufferl.evaluate(trainer)
    assert missing(trainer) == reason  # broken off


def test_a_vecenv_that_fails_does_not_cost_the_weights(tmp_path):
    trainer = resumable.start("squared", tmp_path)
    resumable.update(trainer, 1)
    trainer.vecenv.close()
    assert "closed" in missing(trainer)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_envs": 2}, "the checkpoint has 4 agents"),
        ({}, "generators: expected 0, got 2"),
    ],
)
def test_another_vecenv_starts_new_episodes(resumed_runs, tmp_path, monkeypatch, options, message):
    monkeypatch.setitem(resumable.RUNS, "other", (resumable.make_squared, options, False))
    source = resumed_runs[0] / "squared-processes" / "half.pt"
    why_new, results, _ = resumable.resume("other", tmp_path, source, 1)
    assert message in why_new
    assert len(results) == 1


class Bomb:
    """Leaves a mark where it is unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return Path.touch, (self.path,)


def test_only_a_resumption_that_trusts_the_file_unpickles(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    main(
        [
            "train",
            "squared",
            "--train.total-timesteps",
            "2e3",
            "--train.loggers",
            "none",
            "--train.device",
            "cpu",
        ]
    )
    (path,) = tmp_path.glob("runs/*/checkpoints/latest.pt")
    content = checkpoint.read(path)
    mark = tmp_path / "mark"
    data = bytearray(pickle.dumps({"envs": [], "bomb": Bomb(mark)}))
    content["episodes"]["environments"] = torch.frombuffer(data, dtype=torch.uint8)
    path = path.with_name("bomb.pt")
    torch.save(content, path)
    more = ["--resume", str(path), "--train.total-timesteps", "3e3"]

    assert main(["eval", "squared", "--checkpoint", str(path), "--episodes", "8"]) == 0
    assert main(["train", "squared", *more, "--train.resume-episodes", "False"]) == 0
    assert (
        "environments start new episodes: train.resume_episodes is off" in capsys.readouterr().out
    )
    assert not mark.exists()
    assert main(["train", "squared", *more]) == 0
    assert mark.exists()
    assert "environments start new episodes: envs: expected 64, got 0" in capsys.readouterr().out
