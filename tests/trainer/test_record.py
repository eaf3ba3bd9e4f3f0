"""run.json, and runs at a glance: whole, interrupted, killed, damaged."""

import os
import secrets
import subprocess

import pytest
from run_dirs import make_run

from pufferlib.exceptions import ConfigError
from pufferlib.trainer import record
from pufferlib.trainer.summary import find_runs, runs_called, summarize


def git(directory, *words):
    identity = ["-c", "user.name=n", "-c", "user.email=e@x"]
    subprocess.run(["git", *identity, *words], cwd=directory, check=True, capture_output=True)


def test_the_record_says_where_a_run_comes_from(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "run").mkdir()
    record.begin(tmp_path / "run", "squared", "score", ["puffer", "train", "squared"])
    written = record.read(tmp_path / "run")
    assert written["command"] == ["puffer", "train", "squared"]
    assert written["directory"] == str(tmp_path)
    assert (written["state"], written["env_name"]) == ("running", "squared")
    assert len(written["lock"]) == 12
    assert set(written["versions"]) >= {"python", "torch", "numpy", "gymnasium"}
    assert written["process"]["id"] == os.getpid()
    assert record.is_running(written)


def test_a_resumed_run_keeps_its_older_records(tmp_path):
    for number, state in enumerate(["crashed", "interrupted", "finished"]):
        record.begin(tmp_path, "squared", "score", [str(number)])
        record.finish(tmp_path, state, {"steps": number})
    written = record.read(tmp_path)
    assert (written["state"], written["result"]["steps"]) == ("finished", 2)
    assert [entry["command"] for entry in written["earlier"]] == [["0"], ["1"]]
    assert [entry["state"] for entry in written["earlier"]] == ["crashed", "interrupted"]
    assert not any("earlier" in entry for entry in written["earlier"])


def test_git_revision_and_whether_files_differ(tmp_path):
    assert record.revision(tmp_path) is None
    git(tmp_path, "init", "-q")
    (tmp_path / "file").write_text("1")
    git(tmp_path, "add", "file")
    git(tmp_path, "commit", "-qm", "one")
    git(tmp_path, "tag", "v1.0-rc")  # a tag must not stand for the commit
    clean = record.revision(tmp_path)
    assert len(clean["commit"]) == 40
    assert not clean["dirty"]
    (tmp_path / "file").write_text("2")
    assert record.revision(tmp_path) == {"commit": clean["commit"], "dirty": True}


def test_a_record_that_cannot_be_written_is_said_and_leaves_the_older(tmp_path, monkeypatch):
    record.begin(tmp_path, "squared", "score", [])
    monkeypatch.setattr(secrets, "token_hex", lambda count: "0")
    (tmp_path / ".run.json.0.tmp").mkdir()  # in the way of the new one
    with pytest.raises(ConfigError, match="cannot write .*run.json: Is a directory; free some"):
        record.finish(tmp_path, "finished", {})
    assert record.read(tmp_path)["state"] == "running"


def test_a_run_at_a_glance(tmp_path):
    run_dir = make_run(tmp_path, "squared-1", state="finished", points=[(50, 0.0), (200, 1.0)])
    run = summarize(run_dir)
    assert (run.name, run.env, run.state, run.commit) == (
        "squared-1",
        "squared",
        "finished",
        "01234567+",
    )
    assert (run.steps, run.score, run.seconds, run.steps_per_second) == (200, 1.0, 2.0, 100.0)
    assert run.checkpoint == run_dir / "checkpoints" / "000007.pt"


def test_states(tmp_path):
    record.begin(tmp_path, "squared", "score", [])
    here = {name: record.read(tmp_path)[name] for name in ("machine", "process")}
    assert summarize(make_run(tmp_path, "a", **here)).state == "running"
    dead = {"id": 2**22 + 1, "started": 0.0}  # above the largest id
    assert summarize(make_run(tmp_path, "b", **here | {"process": dead})).state == "crashed"
    again = {"id": os.getpid(), "started": 1.0}  # the id of a dead one was given again
    assert summarize(make_run(tmp_path, "c", **here | {"process": again})).state == "crashed"
    elsewhere = make_run(tmp_path, "d", **here | {"machine": {"name": "another machine"}})
    assert summarize(elsewhere).state == "running"
    for path in elsewhere.glob("*.json*"):
        os.utime(path, (0, 0))
    assert summarize(elsewhere).state == "crashed"


@pytest.mark.parametrize("content", ["", "{", "[]", "{}", '{"state": "running"}', "\0\xff"])
def test_damaged_files_are_no_obstacle(tmp_path, content):
    run_dir = make_run(tmp_path, "run", state="finished", points=[(50, 1.0)])
    for name in ("run.json", "config.json", "metrics.jsonl"):
        (run_dir / name).write_text(content)
    run = summarize(run_dir)
    assert run.state in ("unknown", "crashed")
    assert (run.env, run.steps, run.score, run.steps_per_second) == (None, None, None, None)
    assert find_runs(tmp_path) == [run_dir]


def test_runs_are_found_by_name_directory_and_environment(tmp_path):
    newer = make_run(tmp_path, "a-20260102T000000-0001")
    older = make_run(tmp_path, "b-20260101T000000-0001")
    other = make_run(tmp_path, "c-20260103T000000-0001", env="cartpole")
    (tmp_path / "notes").mkdir()
    assert find_runs(tmp_path) == [older, newer, other]
    assert runs_called(["squared"], tmp_path) == [older, newer]
    assert runs_called([str(other), newer.name, "cartpole"], tmp_path) == [other, newer]
    with pytest.raises(ConfigError, match="'cartpol'; did you mean cartpole"):
        runs_called(["cartpol"], tmp_path)
    with pytest.raises(ConfigError, match="holds no runs"):
        runs_called(["cartpole"], tmp_path / "nowhere")
