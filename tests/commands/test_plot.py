"""`puffer plot`: groups of seeds, what is left out, and the picture."""

import builtins
import json

import numpy as np
import pytest
from run_dirs import make_run

from pufferlib.cli import main
from pufferlib.commands.plot import make_lines
from pufferlib.trainer.summary import find_runs, summarize


@pytest.fixture
def runs(tmp_path, monkeypatch):
    """Two seeds of one setting, and another setting."""
    monkeypatch.chdir(tmp_path)
    data = tmp_path / "runs"
    make_run(data, "squared-20260101T000000-0001", points=[(0, 0.0), (100, 1.0)])
    make_run(data, "squared-20260101T000000-0002", points=[(0, 0.0), (200, 1.0)], seed=2)
    make_run(data, "squared-20260101T000000-0003", points=[(0, 0.5), (50, 0.5)], gamma=0.9)
    return data


def lines_of(data, x="step", metric="score", weight=0.0):
    return make_lines([summarize(path) for path in find_runs(data)], x, metric, weight)


def test_seeds_of_equal_settings_become_one_line_with_a_band(runs):
    seeds, alone = lines_of(runs)
    assert (seeds.label, seeds.runs) == ("squared, gamma 0.99 (2 runs: mean, min to max)", 2)
    assert (alone.label, alone.runs) == ("squared, gamma 0.9", 1)
    assert (seeds.band.x[0], seeds.band.x[-1]) == (0.0, 100.0)
    assert seeds.band.low[-1] == pytest.approx(0.5)
    assert seeds.band.high[-1] == pytest.approx(1.0)
    assert seeds.band.mean[-1] == pytest.approx(0.75)
    assert alone.band.mean.tolist() == [0.5, 0.5]


def test_a_run_from_before_a_setting_existed_is_not_drawn_apart(runs):
    path = runs / "squared-20260101T000000-0002" / "config.json"
    config = json.loads(path.read_text())
    path.write_text(json.dumps(config | {"vec": {"restart": 3}}))
    assert [line.runs for line in lines_of(runs)] == [2, 1]
    # Where the others differ in it, nobody knows which of them it belongs to.
    del config["train"]["gamma"]
    path.write_text(json.dumps(config))
    assert [line.runs for line in lines_of(runs)] == [1, 1, 1]


def test_time_and_other_metrics(runs):
    seeds, _ = lines_of(runs, "seconds", "entropy")
    assert seeds.band.x[-1] == pytest.approx(1.0)
    assert np.unique(seeds.band.mean).tolist() == [0.5]


@pytest.mark.slow  # matplotlib's first import looks for fonts
def test_a_picture_of_the_asked_kind(runs, capsys):
    assert main(["plot", "squared", "--output", "out.svg", "--smooth", "0.5"]) == 0
    assert capsys.readouterr().out == "out.svg\n"
    text = (runs.parent / "out.svg").read_text()
    assert text.startswith("<?xml")
    assert main(["plot", "squared-20260101T000000-0001"]) == 0
    assert (runs.parent / "curves.png").read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    capsys.readouterr()
    for wrong in ("missing/x.png", "x.wrong"):
        assert main(["plot", "squared", "--output", wrong]) == 2
        assert f"--output: cannot write {wrong}" in capsys.readouterr().err


def test_damaged_and_empty_runs_are_left_out_and_named(runs, capsys):
    with (runs / "squared-20260101T000000-0001" / "metrics.jsonl").open("a") as file:
        file.write("\0\0\0\n{")
    (runs / "squared-20260101T000000-0003" / "metrics.jsonl").unlink()
    (line,) = lines_of(runs)
    assert line.runs == 2
    told = capsys.readouterr().err
    assert "0001: 2 damaged lines of metrics.jsonl are left out" in told
    assert "0003: left out, it has logged no score" in told


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        ([], 2, "puffer plot needs a run"),
        (["squared", "--smooth", "1"], 2, "--smooth: expected 0 <= smooth < 1, got 1.0"),
        (["squared", "--metric", "entropi"], 2, "did you mean train/entropy"),
        (["nothing"], 2, "no run and no environment"),
    ],
)
def test_what_cannot_be_drawn_says_why(runs, capsys, options, code, message):
    assert main(["plot", *options]) == code
    assert message in capsys.readouterr().err


def test_no_points_at_all(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    make_run(tmp_path / "runs", "squared-20260101T000000-0001")
    assert main(["plot", "squared"]) == 2
    assert "none of these runs has logged score" in capsys.readouterr().err


def test_without_matplotlib_the_line_that_installs_it(runs, monkeypatch, capsys):
    real = builtins.__import__

    def without(name, *args, **kwargs):
        if name.split(".")[0] == "matplotlib":
            raise ModuleNotFoundError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without)
    assert main(["plot", "squared"]) == 1
    assert "pip install 'pufferlib[plot]'" in capsys.readouterr().err
