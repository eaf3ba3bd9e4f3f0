"""W&B and MLflow for real, without a network: what is written to disk is read back."""

import json
import math
import resource
import struct

import pytest

from pufferlib.exceptions import ConfigError
from pufferlib.trainer.loggers import RunInfo, make_loggers

pytestmark = pytest.mark.slow

POINTS = [(10, {"train/entropy": 1.5}), (20, {"train/entropy": 0.5, "train/kl": math.nan})]


def log(names, directory, points=POINTS, state="finished", first_step=0):
    """What the user is told."""
    told = []
    loggers = make_loggers(names, told.append)
    config = {"env_name": "squared", "train": {"seed": 3}}
    loggers.open(RunInfo(directory=directory, config=config, first_step=first_step))
    for step, metrics in points:
        loggers.log(metrics, step)
    loggers.close(state)
    if "wandb" in names:
        import wandb

        wandb.teardown()  # as at the end of a program: its own process has then written everything
    return told


@pytest.fixture(scope="module")
def database(tmp_path_factory):
    """MLflow takes seconds to make one, so that all tests share it."""
    return tmp_path_factory.mktemp("mlflow") / "mlflow.db"


@pytest.fixture
def run_dir(database, tmp_path, monkeypatch):
    """A directory whose name, and so the name of the run, no other test has."""
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_SILENT", "true")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{database}")
    path = tmp_path / tmp_path.name
    path.mkdir()
    return path


def wandb_records(run_dir):
    """The records of all offline runs in a directory.

    A `.wandb` file has seven bytes of its own, then LevelDB's log format: blocks of 32 KiB, in
    which each piece has a checksum, a length, and whether it is whole (1), a first (2), a middle
    (3) or a last one (4).
    """
    from wandb.proto.wandb_internal_pb2 import Record

    for path in sorted(run_dir.rglob("*.wandb")):
        content, position, record = path.read_bytes(), 7, b""
        while position + 7 <= len(content):
            _, length, kind = struct.unpack_from("<IHB", content, position)
            record += content[position + 7 : position + 7 + length]
            position += 7 + length
            if kind in (1, 4):
                yield Record.FromString(record)
                record = b""
            left = -position % 32768
            position += left if left < 7 else 0


def test_wandb_offline_is_read_back(run_dir):
    pytest.importorskip("wandb")
    assert log(["wandb"], run_dir, state="interrupted") == []
    records = list(wandb_records(run_dir))
    histories = [record.history.item for record in records if record.HasField("history")]
    rows = [
        {item.key or item.nested_key[0]: json.loads(item.value_json) for item in items}
        for items in histories
    ]
    assert [(row["step"], row["train/entropy"]) for row in rows] == [(10, 1.5), (20, 0.5)]
    run = next(record.run for record in records if record.HasField("run"))
    assert (run.run_id, run.display_name, run.project) == (run_dir.name, run_dir.name, "pufferlib")
    config = {item.key: json.loads(item.value_json) for item in run.config.update}
    assert config["train"] == {"seed": 3}
    (end,) = [record.exit for record in records if record.HasField("exit")]
    assert end.exit_code == 130


def test_mlflow_in_sqlite_is_read_back_and_a_resumed_run_goes_on(run_dir):
    pytest.importorskip("mlflow")
    import mlflow

    assert log(["mlflow"], run_dir, state="crashed") == []
    assert log(["mlflow"], run_dir, [(30, {"train/entropy": 0.25})], first_step=20) == []
    client = mlflow.MlflowClient()
    experiment = client.get_experiment_by_name("pufferlib")
    named = f"tags.`mlflow.runName` = '{run_dir.name}'"
    (run,) = client.search_runs([experiment.experiment_id], named)
    assert (run.info.run_name, run.info.status) == (run_dir.name, "FINISHED")
    assert run.data.params == {"env_name": "squared", "train.seed": "3"}
    entropy = client.get_metric_history(run.info.run_id, "train/entropy")
    assert [(point.step, point.value) for point in entropy] == [(10, 1.5), (20, 0.5), (30, 0.25)]


def test_all_at_once(run_dir, database):
    pytest.importorskip("wandb")
    pytest.importorskip("mlflow")
    assert log(["tensorboard", "wandb", "mlflow"], run_dir) == []
    assert list(run_dir.glob("events.out.tfevents.*"))
    assert list(wandb_records(run_dir))
    assert run_dir.name.encode() in database.read_bytes()
    assert len((run_dir / "metrics.jsonl").read_text().splitlines()) == 2


def test_an_mlflow_server_that_is_away_costs_points_only(run_dir, monkeypatch):
    pytest.importorskip("mlflow")
    from mlflow import MlflowClient
    from mlflow.exceptions import MlflowException

    def refuse(*args, **kwargs):
        raise MlflowException("API request failed: connection refused")

    told = []
    loggers = make_loggers(["mlflow"], told.append)
    loggers.open(RunInfo(directory=run_dir, config={}))
    monkeypatch.setattr(MlflowClient, "log_batch", refuse)
    for step in (1, 2):
        loggers.log({"a": 1.0}, step)
    loggers.close("finished")
    assert "MlflowException: API request failed: connection refused" in told[0]
    assert not any(text.startswith("metrics.jsonl") for text in told)


def test_a_full_disk_does_not_end_a_run_that_wandb_logs(run_dir):
    """RLIMIT_FSIZE, which W&B's own process inherits, stands for the disk."""
    pytest.importorskip("wandb")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    points = [(step, {"train/entropy": 1.0, "text": float(step)}) for step in range(500)]
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (8_192, limits[1]))
        told = log(["wandb"], run_dir, points)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert told[0].startswith("metrics.jsonl: cannot log at step"), "the limit was felt"


def test_mlflow_without_a_server_to_begin_with_is_an_error(run_dir, monkeypatch):
    pytest.importorskip("mlflow")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:9")
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    with pytest.raises(ConfigError, match="mlflow cannot be opened: MlflowException"):
        log(["mlflow"], run_dir)
