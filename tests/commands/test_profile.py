"""`puffer profile`: phases that make up the whole."""

import itertools
import json
import time

import pytest

from pufferlib.cli import main
from pufferlib.commands import profile as command
from pufferlib.exceptions import ConfigError
from pufferlib.trainer.setup import load_config

pytestmark = pytest.mark.slow
SMALL = {"vec": {"backend": "serial", "num_envs": 4}, "train": {"bptt_horizon": 8}}


def test_the_phases_sum_to_the_whole(monkeypatch):
    ticks = itertools.count()
    monkeypatch.setattr(time, "perf_counter", lambda: next(ticks) / 1000)  # each look is a tick
    config = load_config("squared", overrides=SMALL)
    clock, steps, elapsed = command.measure(config, 0.3)
    assert elapsed >= 0.3
    assert set(clock.seconds) == set(command.PHASES)
    assert sum(clock.seconds.values()) == pytest.approx(elapsed, abs=0.0021)
    assert all(clock.seconds[phase] > 0 for phase in ("env", "forward", "copy", "learn"))
    assert steps > 0


def test_the_table_and_the_trace(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    options = ["--vec.backend", "serial", "--seconds", "0.1", "--trace", "trace.json"]
    assert main(["profile", "squared", *options]) == 0
    out = capsys.readouterr().out
    shares = [float(word.rstrip("%")) for word in out.split() if word.endswith("%")]
    assert len(shares) == len(command.PHASES) + 1
    assert sum(shares[:-1]) == pytest.approx(100, abs=0.3)
    assert "steps/s" in out
    names = {
        event.get("name")
        for event in json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    }
    assert "aten::linear" in names
    assert not (tmp_path / "runs").exists(), "nothing is kept"


def test_a_trace_that_cannot_be_written_is_named(tmp_path):
    options = [
        "--vec.backend",
        "serial",
        "--seconds",
        "0.1",
        "--trace",
        f"{tmp_path}/no/trace.json",
    ]
    with pytest.raises(ConfigError, match=f"--trace: cannot write {tmp_path}/no/trace.json"):
        command.profile(["squared", *options])


def test_no_time_is_refused():
    with pytest.raises(ConfigError, match="--seconds: expected more than 0, got 0"):
        command.profile(["squared", "--seconds", "0"])
