"""Checkpoints: whole or absent, loadable without trust, and bit-equal on resume."""

import errno
import functools
import json
import os
import random
import subprocess

import numpy as np
import pytest
import torch
from resumable import Walk
from small_runs import update, weights
from torch import nn

import pufferlib
import pufferlib.vector
from pufferlib import clean_pufferl
from pufferlib.exceptions import CheckpointError
from pufferlib.models import Default, LSTMWrapper
from pufferlib.trainer import checkpoint
from pufferlib.trainer.config import TrainConfig


def start_walk(tmp_path, seed=1, recurrent=False, **changes):
    torch.manual_seed(0)
    vecenv = pufferlib.vector.make(Walk, num_envs=2, seed=seed)
    policy = Default(vecenv.driver_env, 8)
    if recurrent:
        policy = LSTMWrapper(vecenv.driver_env, policy, 8, 8)
    options = {"device": "cpu", "total_timesteps": 2_000, "learning_rate": 0.01} | changes
    config = TrainConfig(seed=seed, **options)
    record = {"env_name": "walk", "train": {"seed": seed}}
    return clean_pufferl.create(config, vecenv, policy, run_dir=tmp_path, record=record)


@pytest.mark.smoke
def test_what_a_checkpoint_holds(tmp_path):
    trainer = start_walk(tmp_path)
    update(trainer, 2)
    path = clean_pufferl.save_checkpoint(trainer)
    assert path == tmp_path / "checkpoints" / "000002.pt"
    content = torch.load(path, weights_only=True)
    assert content["pufferlib"] == pufferlib.__version__
    assert content["env_name"] == "walk"
    assert content["spaces"]["action"] == "Discrete(2)"
    assert json.loads(content["config"]) == {"env_name": "walk", "train": {"seed": 1}}
    assert (content["epoch"], content["global_step"]) == (2, trainer.global_step)
    assert content["policy"].keys() == trainer.policy.state_dict().keys()
    assert content["optimizer"]["param_groups"][0]["lr"] == trainer.learning_rate
    assert torch.equal(content["rng"]["torch"], torch.get_rng_state())
    clean_pufferl.close(trainer)


def test_latest_is_the_newest_and_no_debris_is_left(tmp_path):
    trainer = start_walk(tmp_path)
    for _ in range(2):
        update(trainer)
        clean_pufferl.save_checkpoint(trainer)
    clean_pufferl.save_checkpoint(trainer)  # again, over an existing file
    directory = tmp_path / "checkpoints"
    assert sorted(path.name for path in directory.iterdir()) == [
        "000001.pt",
        "000002.pt",
        "latest.pt",
    ]
    assert checkpoint.read(directory / "latest.pt")["epoch"] == 2
    assert checkpoint.read(directory / "000001.pt")["epoch"] == 1
    clean_pufferl.close(trainer)


def test_latest_is_a_copy_where_there_are_no_links(tmp_path, monkeypatch):
    def refuse(*_):
        raise OSError(errno.EPERM, "no links here")

    monkeypatch.setattr(os, "link", refuse)
    trainer = start_walk(tmp_path)
    path = clean_pufferl.save_checkpoint(trainer)
    assert path.with_name("latest.pt").read_bytes() == path.read_bytes()
    assert len(list(path.parent.iterdir())) == 2
    clean_pufferl.close(trainer)


@pytest.mark.parametrize("recurrent", [False, True])
def test_resume_equals_an_uninterrupted_run_that_resets_its_environments(tmp_path, recurrent):
    start = functools.partial(start_walk, recurrent=recurrent, resume_episodes=False)
    original = start(tmp_path)
    update(original, 3)
    path = clean_pufferl.save_checkpoint(original)
    clean_pufferl.reset(original)
    update(original, 2)
    results = [(weights(original), original.global_step, original.losses, original.learning_rate)]
    for _ in range(2):
        resumed = start(tmp_path)
        update(resumed)  # whatever it did before
        clean_pufferl.load_checkpoint(resumed, path)
        assert resumed.epoch == 3
        update(resumed, 2)
        results.append(
            (weights(resumed), resumed.global_step, resumed.losses, resumed.learning_rate)
        )
        clean_pufferl.close(resumed)
    for other in results[1:]:
        assert torch.equal(other[0], results[0][0])
        assert other[1:] == results[0][1:]
    clean_pufferl.close(original)


def test_the_environments_seed_follows_from_seed_and_epoch(tmp_path):
    seeds = set()
    for seed, epoch in ((1, 0), (1, 1), (2, 0)):
        trainer = start_walk(tmp_path, seed=seed)
        trainer.epoch = epoch
        clean_pufferl.reset(trainer)
        seeds.add(trainer.env_seed)
        clean_pufferl.close(trainer)
    assert len(seeds) == 3
    assert all(0 <= seed < 2**31 for seed in seeds)


def test_random_generators_are_restored():
    state = checkpoint.rng_state()
    first = torch.rand(3).tolist(), np.random.rand(3).tolist(), random.random()  # noqa: NPY002
    checkpoint.set_rng_state(state)
    second = torch.rand(3).tolist(), np.random.rand(3).tolist(), random.random()  # noqa: NPY002
    assert first == second


def test_keys_do_not_depend_on_wrappers():
    plain = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    compiled = torch.compile(plain, backend="eager")
    inner = nn.Sequential(torch.compile(plain[0], backend="eager"), plain[1])
    distributed = nn.ModuleDict({"module": plain})
    keys = list(plain.state_dict())
    for wrapped in (compiled, inner, distributed, nn.ModuleDict({"module": compiled})):
        assert list(checkpoint.canonical_state(wrapped)) == keys
        fresh = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
        checkpoint.load_policy(fresh, wrapped.state_dict())
        assert torch.equal(fresh[0].weight, plain[0].weight)
        checkpoint.load_policy(
            wrapped, nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2)).state_dict()
        )
        assert not torch.equal(fresh[0].weight, plain[0].weight)


@pytest.mark.parametrize(("save_compiled", "load_compiled"), [(True, False), (False, True)])
def test_compiled_and_plain_runs_exchange_checkpoints(
    tmp_path, monkeypatch, save_compiled, load_compiled
):
    original = torch.compile
    monkeypatch.setattr(torch, "compile", lambda module, mode: original(module, backend="eager"))
    saver = start_walk(tmp_path, compile=save_compiled)
    update(saver)
    path = clean_pufferl.save_checkpoint(saver)
    assert not any("_orig_mod" in key for key in checkpoint.read(path)["policy"])
    loader = start_walk(tmp_path, compile=load_compiled)
    clean_pufferl.load_checkpoint(loader, path)
    assert torch.equal(weights(loader), weights(saver))
    for trainer in (saver, loader):
        clean_pufferl.close(trainer)


def test_weights_that_do_not_fit_are_listed(tmp_path):
    policy = nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 1))
    before = policy[0].weight.clone()
    state = {
        "0.weight": torch.ones(3, 2),
        "0.bias": torch.ones(4),
        "1.weight": torch.ones(1, 3),
        "x": torch.ones(1),
    }
    with pytest.raises(CheckpointError) as error:
        checkpoint.load_policy(policy, state, source="some.pt")
    message = str(error.value)
    for part in ("some.pt", "missing 1.bias", "unknown x", "0.bias has shape (4,), expected (3,)"):
        assert part in message
    assert torch.equal(policy[0].weight, before)


def test_a_checkpoint_of_another_policy_changes_nothing(tmp_path):
    trainer = start_walk(tmp_path)
    path = clean_pufferl.save_checkpoint(trainer)
    other = start_walk(tmp_path, recurrent=True)
    before, epoch = weights(other), other.epoch
    with pytest.raises(CheckpointError, match=r"missing recurrent.weight_ih_l0"):
        clean_pufferl.load_checkpoint(other, path)
    assert torch.equal(weights(other), before)
    assert other.epoch == epoch
    clean_pufferl.close(trainer)
    clean_pufferl.close(other)


@pytest.mark.parametrize("keep", [0, 100, 0.5, 0.99])
def test_a_damaged_file_is_named_with_the_others(tmp_path, keep):
    trainer = start_walk(tmp_path)
    update(trainer)
    clean_pufferl.save_checkpoint(trainer)
    update(trainer)
    path = clean_pufferl.save_checkpoint(trainer)
    content = path.read_bytes()
    path.write_bytes(content[: keep if isinstance(keep, int) else int(keep * len(content))])
    with pytest.raises(CheckpointError, match=r"000002.pt: the file is damaged.*000001.pt"):
        clean_pufferl.load_checkpoint(trainer, path)
    clean_pufferl.close(trainer)


def test_a_missing_file_and_a_foreign_one_are_named(tmp_path):
    with pytest.raises(CheckpointError, match="nowhere.pt: no such checkpoint"):
        checkpoint.read(tmp_path / "nowhere.pt")
    torch.save({"weights": torch.ones(2)}, tmp_path / "foreign.pt")
    with pytest.raises(
        CheckpointError, match="expected a pufferlib checkpoint of format 1, got None"
    ):
        checkpoint.read(tmp_path / "foreign.pt")
    torch.save(nn.Linear(1, 1), tmp_path / "module.pt")  # a pickled module, which could run code
    with pytest.raises(CheckpointError, match=r"module.pt: the file is damaged or no checkpoint"):
        checkpoint.read(tmp_path / "module.pt")


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 64 kB."""
    mount = tmp_path / "disk"
    mount.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(mount)]
    if os.geteuid() != 0 or subprocess.run(command, capture_output=True).returncode != 0:
        pytest.skip("mounting a small file system needs root")
    yield mount
    subprocess.run(["umount", str(mount)], check=True)


def test_a_full_disk_leaves_the_older_checkpoint(small_disk):
    trainer = start_walk(small_disk)
    update(trainer)
    path = clean_pufferl.save_checkpoint(trainer)
    content = path.read_bytes()
    (small_disk / "filler").write_bytes(b"x" * (64 * 1024 - 4096 - -(-len(content) // 4096) * 4096))
    update(trainer)
    with pytest.raises(CheckpointError, match=r"000002.pt: could not write.*No space left"):
        clean_pufferl.save_checkpoint(trainer)
    assert sorted(file.name for file in path.parent.iterdir()) == ["000001.pt", "latest.pt"]
    assert path.read_bytes() == content
    assert checkpoint.read(path.with_name("latest.pt"))["epoch"] == 1
    clean_pufferl.close(trainer)


@pytest.mark.parametrize("failing", ["fsync", "replace"])
def test_a_write_that_fails_half_way_leaves_the_older_checkpoint(tmp_path, monkeypatch, failing):
    trainer = start_walk(tmp_path)
    path = clean_pufferl.save_checkpoint(trainer)
    content = path.read_bytes()

    def fail(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, failing, fail)
    update(trainer)
    with pytest.raises(CheckpointError, match="No space left"):
        clean_pufferl.save_checkpoint(trainer)
    monkeypatch.undo()
    assert sorted(file.name for file in path.parent.iterdir()) == ["000000.pt", "latest.pt"]
    assert path.read_bytes() == content
    clean_pufferl.close(trainer)
