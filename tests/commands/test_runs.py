"""`puffer runs`: the list, the comparison, JSON; damaged runs among them."""

import json
import subprocess
import sys

import pytest
from run_dirs import make_run

from pufferlib.cli import main
from pufferlib.commands import runs as command
from pufferlib.trainer.summary import summarize


@pytest.fixture
def three(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    data = tmp_path / "runs"
    make_run(data, "squared-20260101T000000-aaaa", state="finished", points=[(4000, 0.25)])
    make_run(data, "squared-20260102T000000-bbbb", state="crashed", points=[(500, 0.5)], gamma=0.9)
    make_run(data, "cartpole-20260103T000000-cccc", env="cartpole", state="interrupted")
    return data


def listed(out):
    """The first word of each row."""
    return [line.split()[0].rpartition("-")[2] for line in out.splitlines()[1:]]


def test_the_list_has_what_is_known_of_each(three, capsys):
    assert main(["runs"]) == 0
    rows = {line.split()[0]: line.split()[1:] for line in capsys.readouterr().out.splitlines()}
    assert rows["squared-20260101T000000-aaaa"] == (
        ["finished", "4,000", "0.250", "100.00", "0:40", "01234567+", "000007.pt"]
    )
    assert rows["cartpole-20260103T000000-cccc"] == (
        ["interrupted", "–", "–", "–", "–", "01234567+", "000007.pt"]
    )


@pytest.mark.parametrize(
    ("options", "order"),
    [
        ([], ["aaaa", "bbbb", "cccc"]),
        (["--sort", "score"], ["cccc", "aaaa", "bbbb"]),
        (["--sort", "steps"], ["cccc", "bbbb", "aaaa"]),
        (["--sort", "name"], ["cccc", "aaaa", "bbbb"]),
        (["--env", "squared"], ["aaaa", "bbbb"]),
    ],
)
def test_order_and_selection(three, capsys, options, order):
    assert main(["runs", *options]) == 0
    assert listed(capsys.readouterr().out) == order


def test_json_has_everything(three, capsys):
    assert main(["runs", "--json", "--env", "squared"]) == 0
    first, second = json.loads(capsys.readouterr().out)
    assert (first["steps"], first["score"], first["state"]) == (4000, 0.25, "finished")
    assert first["metrics"]["train/entropy"] == 0.5
    assert second["config"]["train"]["gamma"] == 0.9
    assert second["record"]["lock"] == "abcdefabcdef"


@pytest.mark.slow  # a process of its own
def test_a_reader_that_has_seen_enough_is_no_error(three):
    for number in range(100):  # more than a pipe holds
        make_run(three, f"squared-20260104T000000-{number:04x}", points=[(1, 0.5)])
    command = [sys.executable, "-m", "pufferlib", "runs", "--json", "--data-dir", str(three)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"[\n"
        process.stdout.close()
        assert b"BrokenPipeError" not in process.stderr.read()
    assert process.returncode == 1


def test_runs_side_by_side(three, capsys):
    assert main(["runs", "squared"]) == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert rows[0] == ["squared-20260101T000000-aaaa", "squared-20260102T000000-bbbb"]
    for row in (
        ["state", "finished", "crashed"],
        ["score", "0.250", "0.500"],
        ["train.gamma", "0.99", "0.9"],
        ["train/entropy", "0.500", "0.500"],
    ):
        assert row in rows
    assert "train.seed" not in {row[0] for row in rows if row}


def test_where_outputs_go_is_no_difference(three):
    found = [summarize(path) for path in sorted(three.glob("squared-*"))]
    for number, run in enumerate(found):
        run.config["train"] |= {"data_dir": str(number), "loggers": [str(number)]}
    assert command.differences(found) == {"train.gamma": [0.99, 0.9]}


def test_a_damaged_run_is_listed_with_what_is_left_of_it(three, capsys):
    broken = three / "squared-20260101T000000-aaaa"
    (broken / "run.json").write_text('{"env_na')
    (broken / "metrics.jsonl").write_text('{"step": 9, "seconds": 1.0}\n{"st')
    assert main(["runs"]) == 0
    row = next(line for line in capsys.readouterr().out.splitlines() if "aaaa" in line)
    assert row.split()[1:3] == ["unknown", "9"]
    assert main(["runs", "squared"]) == 0
    assert "unknown" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--data-dir", "nowhere"], "no runs in"),
        (["--env", "snake"], "no run of snake; there are runs of cartpole, squared"),
        (["squared-20260101T000000-aaab"], "did you mean squared-20260101T000000-aaaa"),
    ],
)
def test_nothing_found_says_what_there_is(three, capsys, options, message):
    assert main(["runs", *options]) == 2
    assert message in capsys.readouterr().err
