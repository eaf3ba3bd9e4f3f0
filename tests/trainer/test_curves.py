"""Reading metrics.jsonl back, and what is computed of curves."""

import json

import numpy as np
import pytest

from pufferlib.exceptions import ConfigError
from pufferlib.trainer.curves import band, curve, last_point, metric_key, read_points, smooth


def write(path, *lines):
    texts = [line if isinstance(line, str) else json.dumps(line) for line in lines]
    path.write_text("".join(text + "\n" for text in texts))
    return path


def point(step, **metrics):
    return {"step": step, "seconds": step / 10, **metrics}


def test_points_come_back_without_what_a_resumed_run_has_lost(tmp_path):
    path = write(tmp_path / "m", *(point(step) for step in (1, 2, 3, 4, 2, 5)))
    assert [entry["step"] for entry in read_points(path).points] == [1, 2, 5]


def test_damaged_lines_are_counted_and_left_out(tmp_path):
    lines = [point(1), "\0\0\0", '{"step": 2, "sec', "[1, 2]", '{"step": "x", "seconds": 1}', ""]
    path = write(tmp_path / "m", *lines, point(3))
    with path.open("ab") as file:
        file.write(b"\xff\xfe\n")
    read = read_points(path)
    assert [entry["step"] for entry in read.points] == [1, 3]
    assert read.damaged == 5
    assert read_points(tmp_path / "missing").points == []


@pytest.mark.parametrize("padding", [0, 1, 5_000, 100_000])
def test_the_last_point_is_found_from_the_end(tmp_path, padding):
    path = write(tmp_path / "m", point(1), point(2, text="x" * padding), "torn " * padding)
    assert last_point(path)["step"] == 2
    assert last_point(tmp_path / "missing") is None
    assert last_point(write(tmp_path / "n", "garbage")) is None


def test_metrics_may_be_called_by_the_end_of_their_name():
    points = [point(1, **{"train/entropy": 1.0, "a/count": 1, "b/count": 2})]
    assert metric_key("entropy", points) == "train/entropy"
    assert metric_key("train/entropy", points) == "train/entropy"
    with pytest.raises(ConfigError, match="'count' may be a/count or b/count"):
        metric_key("count", points)
    with pytest.raises(ConfigError, match="'train/entropi'; did you mean train/entropy"):
        metric_key("train/entropi", points)


def test_a_curve_leaves_out_points_without_a_number():
    points = [point(1, a=1.0), point(2), point(3, a=None), point(4, a=4.0)]
    x, y = curve(points, "step", "a")
    assert (x.tolist(), y.tolist()) == ([1.0, 4.0], [1.0, 4.0])
    x, y = curve(points, "seconds", "missing")
    assert (x.shape, y.shape) == ((0,), (0,))


def test_smoothing_by_hand():
    values = np.array([8.0, 0.0, 4.0])
    assert smooth(values, 0.0).tolist() == [8.0, 0.0, 4.0]
    # (8), (4 + 0) / 1.5, (2 + 0 + 4) / 1.75
    assert smooth(values, 0.5) == pytest.approx([8.0, 4 / 1.5, 6 / 1.75])
    assert smooth(np.full(50, 3.0), 0.9) == pytest.approx(np.full(50, 3.0))


def test_a_band_covers_what_all_have():
    first = (np.array([0.0, 10.0]), np.array([0.0, 10.0]))
    second = (np.array([4.0, 8.0, 20.0]), np.array([2.0, 6.0, 6.0]))
    made = band([first, second], size=4)
    assert made.x.tolist() == [4.0, 6.0, 8.0, 10.0]
    assert made.low == pytest.approx([2.0, 4.0, 6.0, 6.0])
    assert made.high == pytest.approx([4.0, 6.0, 8.0, 10.0])
    assert made.mean == pytest.approx([3.0, 5.0, 7.0, 8.0])
    alone = band([second])
    assert alone.x is second[0]
    assert alone.low is alone.high


def test_curves_without_a_common_part_are_refused():
    one, other = (np.array([0.0, 1.0]), np.zeros(2)), (np.array([5.0, 9.0]), np.zeros(2))
    with pytest.raises(ConfigError, match="one begins at 5, another ends at 1"):
        band([one, other])
