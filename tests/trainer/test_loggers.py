"""Curves come back as they were logged, and no logger ends a run."""

import builtins
import json
import math
import resource

import pytest

from pufferlib.exceptions import ConfigError, EnvironmentSetupError
from pufferlib.trainer.curves import read_points
from pufferlib.trainer.loggers import Loggers, RunInfo, make_loggers
from pufferlib.trainer.loggers.metrics_file import MetricsFile
from pufferlib.trainer.loggers.tensorboard import TensorBoardLogger

CONFIG = {"env_name": "squared", "train": {"seed": 3}}


def run_info(directory, first_step=0):
    return RunInfo(directory=directory, config=CONFIG, first_step=first_step)


def log_all(loggers, directory, points, state="finished", first_step=0):
    loggers.open(run_info(directory, first_step))
    for step, metrics in points:
        loggers.log(metrics, step)
    loggers.close(state)


def read_lines(directory):
    return [json.loads(line) for line in (directory / "metrics.jsonl").read_text().splitlines()]


def scalars(directory, name):
    """What TensorBoard's own reader finds."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(directory))
    events.Reload()
    return events.Scalars(name)


class Faulty:
    """Fails when told to."""

    def __init__(self, fail_at=(), fail_close=False):
        self.fail_at, self.fail_close = fail_at, fail_close
        self.calls = []

    def open(self, run):
        self.calls.append("open")

    def log(self, metrics, step):
        self.calls.append(step)
        if step in self.fail_at:
            raise OSError(28, "No space left on device")

    def close(self, state):
        self.calls.append(state)
        if self.fail_close:
            raise TimeoutError("no answer")


def test_tensorboard_file_is_readable_and_a_resumed_run_hides_what_it_lost(tmp_path):
    points = [(10, {"train/entropy": 1.5, "episodes/count": 3}), (20, {"train/entropy": 0.5})]
    log_all(TensorBoardLogger(), tmp_path, points)
    resumed = [(25, {"train/entropy": 0.25})]
    log_all(TensorBoardLogger(), tmp_path, resumed, first_step=15)
    entropy = [(event.step, event.value) for event in scalars(tmp_path, "train/entropy")]
    assert entropy == [(10, 1.5), (25, 0.25)]
    assert [event.value for event in scalars(tmp_path, "episodes/count")] == [3.0]


def test_metrics_file_has_a_line_per_point(tmp_path):
    log_all(MetricsFile(), tmp_path, [(10, {"a/b": 1.5, "n": math.nan}), (20, {"a/b": 2})])
    first, second = read_lines(tmp_path)
    assert (first["step"], first["a/b"], first["n"]) == (10, 1.5, None)
    assert (second["step"], second["a/b"]) == (20, 2)
    assert 0 <= first["seconds"] <= second["seconds"]


def test_a_resumed_run_goes_on_with_its_time(tmp_path):
    lines = [{"step": 10, "seconds": 100.0}, {"step": 20, "seconds": 200.0}]
    text = "".join(json.dumps(line) + "\n" for line in lines)
    (tmp_path / "metrics.jsonl").write_text(text + '{"step": 30, "sec')  # killed while it wrote
    log_all(MetricsFile(), tmp_path, [(12, {"a": 1.0})], first_step=10)
    read = read_points(tmp_path / "metrics.jsonl")
    assert [point["step"] for point in read.points] == [10, 12]
    assert 100.0 <= read.points[-1]["seconds"] < 150.0
    assert read.damaged == 1


def test_a_full_disk_costs_points_and_nothing_else(tmp_path):
    """RLIMIT_FSIZE stands for the disk: writing beyond it fails as writing to a full one does."""
    told = []
    loggers = make_loggers(["tensorboard"], told.append)
    loggers.open(run_info(tmp_path))
    metrics = {f"train/metric_{index}": 1.0 for index in range(30)}
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (2_000, limits[1]))
        for step in range(1, 6):
            loggers.log(metrics, step)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    loggers.log(metrics, 6)
    loggers.close("finished")
    steps = [point["step"] for point in read_points(tmp_path / "metrics.jsonl").points]
    assert steps == [1, 2, 6]  # 660 bytes a line; at the end there is space again
    in_tensorboard = {event.step for event in scalars(tmp_path, "train/metric_7")}
    assert in_tensorboard >= {1, 6}
    assert told[0].startswith("metrics.jsonl: cannot log at step 3: OSError: [Errno 27]")
    assert "metrics.jsonl: 3 of 6 points are missing" in told
    assert sum("cannot log" in text for text in told) == len({text.split(":")[0] for text in told})


def test_a_failing_logger_is_warned_about_once_and_others_go_on():
    told = []
    broken, good = Faulty(fail_at=(2, 3), fail_close=True), Faulty()
    log_all(
        Loggers({"broken": broken, "good": good}, told.append),
        None,
        [(step, {"a": 1.0}) for step in (1, 2, 3, 4)],
        "interrupted",
    )
    assert broken.calls == good.calls == ["open", 1, 2, 3, 4, "interrupted"]
    assert told == [
        "broken: cannot log at step 2: OSError: [Errno 28] No space left on device; "
        "training goes on",
        "broken: 2 of 4 points are missing",
        "broken: its last points may be missing: TimeoutError: no answer",
    ]


def test_a_logger_that_cannot_begin_is_an_error_and_what_is_open_is_closed():
    class Refused(Faulty):
        def open(self, run):
            raise ConnectionError("no route to host\nand more")

    before, after = Faulty(), Faulty()
    loggers = Loggers({"before": before, "refused": Refused(), "after": after})
    with pytest.raises(ConfigError, match="refused cannot be opened: ConnectionError: no route to"):
        loggers.open(run_info(None))
    loggers.close("crashed")
    loggers.close("crashed")
    assert (before.calls, after.calls) == (["open", "crashed"], [])


def test_none_keeps_only_the_runs_own_file(tmp_path):
    log_all(make_loggers(["none"], print), tmp_path, [(1, {"a": 1.0})])
    assert [path.name for path in tmp_path.iterdir()] == ["metrics.jsonl"]


def test_unknown_logger_is_refused_with_the_nearest():
    with pytest.raises(ConfigError, match="did you mean tensorboard"):
        make_loggers(["tensorbord"], print)


@pytest.mark.parametrize("name", ["wandb", "mlflow"])
def test_a_missing_package_is_named_with_the_line_that_installs_it(name, monkeypatch):
    real = builtins.__import__

    def without(wanted, *args, **kwargs):
        if wanted.split(".")[0] == name:
            raise ModuleNotFoundError(f"No module named '{name}'")
        return real(wanted, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without)
    monkeypatch.setattr("importlib.import_module", without)
    with pytest.raises(EnvironmentSetupError, match=rf"pip install 'pufferlib\[{name}\]'"):
        make_loggers([name], print)
