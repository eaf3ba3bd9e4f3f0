"""The dashboard on a terminal, in a narrow one and in a file; the numbers behind it."""

import dataclasses
import io
import re

import pytest
from rich.console import Console

from pufferlib.trainer import monitor
from pufferlib.trainer.dashboard import Dashboard, duration, line, number, render
from pufferlib.trainer.monitor import Monitor, Usage
from pufferlib.trainer.progress import (
    EpisodeWindow,
    ScoreHistory,
    Snapshot,
    Speedometer,
    numbers,
    time_left,
)

SNAPSHOT = Snapshot(
    title="puffer train nethack",
    run="runs/nethack-20250101T101112-ab12",
    score_key="score",
    steps=500_000,
    total_steps=1_000_000,
    updates=201,
    elapsed=110.0,
    time_left=70.0,
    fraction=0.5,
    steps_per_second=5512.3,
    parameters=812_341,
    timings={"env": 60.0, "copy": 0.0, "forward": 20.0, "learn": 20.0, "other": 0.0},
    losses={"entropy": 2.123, "value_loss": 1.23e-5, "mine": float("nan"), "approx_kl": 0.25},
    episodes=128,
    stats={"depth": 1.5, "episode_return": 12.4, "score": 233.1},
    counts={"depth": 7, "episode_return": 128, "score": 128},
    usage=Usage(97.5, 4.1, 23.5),
)


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


def text_of(snapshot, width):
    console = Console(width=width, file=io.StringIO(), legacy_windows=False)
    console.print(render(snapshot, width))
    return console.file.getvalue()


@pytest.mark.parametrize(
    ("terminal", "width"), [(200, 100), (120, 100), (100, 100), (80, 80), (60, 60), (44, 44)]
)
def test_panel_shows_everything_and_keeps_its_width(terminal, width):
    text = text_of(SNAPSHOT, terminal)
    lines = text.splitlines()
    assert {len(line) for line in lines} == {width}
    for part in (
        *("500,000", "1,000,000", "5,512", "201", "812,341", "50%", "1:50 elapsed", "1:10 left"),
        *("env", "60%", "learn", "20%", "98%", "4.1/24 GiB", "Last 128 episodes"),
        *("entropy", "2.123", "1.2e-05", "nan", "score", "233.10", "episode return", "12.40"),
        "depth (7)",
    ):
        assert part in text
    assert "VRAM" not in text


def test_panel_shows_the_gpu_where_there_is_one():
    usage = Usage(10.0, 1.0, 8.0, gpu_percent=None, vram_used=2.0, vram_total=80.0)
    text = text_of(dataclasses.replace(SNAPSHOT, usage=usage), 100)
    assert "2.0/80 GiB" in text
    assert "–" in text  # load unknown without NVML


@pytest.mark.parametrize("height", [24, 20, 18])
@pytest.mark.parametrize("width", [100, 80, 60, 44])
def test_panel_fits_into_low_terminals(width, height):
    losses = {f"loss_{index}": 1.0 for index in range(12)}
    usage = Usage(10.0, 1.0, 8.0, gpu_percent=1.0, vram_used=2.0, vram_total=80.0)
    full = dataclasses.replace(SNAPSHOT, losses=losses, usage=usage, stats=losses)
    console = Console(width=width, height=height, file=io.StringIO())
    console.print(render(full, width, height))
    assert len(console.file.getvalue().splitlines()) <= height
    assert "score" in text_of(SNAPSHOT, width)


def test_score_and_known_losses_come_first():
    text = text_of(SNAPSHOT, 100)
    assert text.index("score") < text.index("episode return") < text.index("depth")
    assert text.index("value loss") < text.index("entropy") < text.index("mine")


def test_panel_before_the_first_update():
    empty = dataclasses.replace(
        SNAPSHOT, timings={}, losses={}, stats={}, episodes=0, usage=None, time_left=None
    )
    text = text_of(empty, 100)
    assert "No episode yet" in text
    assert "left" not in text


def test_without_a_terminal_a_line_is_printed_every_few_seconds():
    clock, file = Clock(), io.StringIO()
    with Dashboard(Console(file=file, width=80), clock) as dashboard:
        for clock.now in (0.0, 1.0, 4.9, 5.0, 6.0):
            dashboard.update(dataclasses.replace(SNAPSHOT, steps=int(clock.now * 10)))
    lines = file.getvalue().splitlines()
    assert [line.split()[1] for line in lines] == ["0", "50", "60"]  # the last one is never lost
    assert "\x1b" not in file.getvalue()
    assert "score 233.10 (last 128 episodes)" in lines[0]


def test_on_a_terminal_the_panel_is_drawn_at_most_four_times_a_second():
    clock = Clock()
    console = Console(file=io.StringIO(), width=120, height=40, force_terminal=True)
    drawn = []
    with Dashboard(console, clock) as dashboard:
        for tick in range(101):  # one second
            clock.now = tick / 100
            before = console.file.tell()
            dashboard.update(SNAPSHOT)
            drawn.append(console.file.tell() > before)
    assert 1 < sum(drawn) <= 5
    assert "puffer train nethack" in console.file.getvalue()


def test_without_colours_there_are_none():
    console = Console(
        file=io.StringIO(),
        width=80,
        force_terminal=True,
        _environ={"NO_COLOR": "1", "TERM": "xterm"},
    )
    with Dashboard(console) as dashboard:
        dashboard.update(SNAPSHOT)
    text = console.file.getvalue()
    assert "puffer train nethack" in text
    assert re.findall(r"\x1b\[[0-9;]*m", text), "bold and dim stay"
    assert not re.findall(r"\x1b\[(?:\d+;)*(?:3\d|4\d|9\d)(?:;\d+)*m", text)


def test_dumb_terminals_get_lines():
    console = Console(file=io.StringIO(), force_terminal=True, _environ={"TERM": "dumb"})
    with Dashboard(console) as dashboard:
        dashboard.update(SNAPSHOT)
    assert "500,000 steps" in console.file.getvalue()
    assert "╭" not in console.file.getvalue()


def test_line_leaves_out_what_is_unknown():
    text = line(dataclasses.replace(SNAPSHOT, time_left=None, stats={}))
    assert text.startswith(" 50%  500,000 steps  5,512 steps/s")
    assert "left" not in text
    assert "score" not in text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0.000"),
        (3, "3"),
        (1234567, "1,234,567"),
        (0.5, "0.500"),
        (-12.345, "-12.35"),
        (1234.56, "1,234.6"),
        (123456.7, "123,457"),
        (0.00025, "2.5e-04"),
        (0.0025, "0.0025"),
        (float("inf"), "inf"),
        (float("nan"), "nan"),
    ],
)
def test_numbers_are_short(value, text):
    assert number(value) == text


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "0:00"), (59.6, "1:00"), (3599, "59:59"), (3661, "1:01:01")]
)
def test_durations(seconds, text):
    assert duration(seconds) == text


def test_window_weighs_by_episodes_and_forgets_old_updates():
    window = EpisodeWindow(size=10)
    window.add({"score": 100.0}, {"score": 50})
    window.add({"score": 1.0, "rare": 5.0}, {"score": 6, "rare": 1})
    window.add({}, {})
    window.add({"score": 3.0}, {"score": 4})
    assert window.episodes == 10
    assert window.means() == {"score": pytest.approx((6 * 1 + 4 * 3) / 10), "rare": 5.0}
    assert window.counts() == {"score": 10, "rare": 1}


def test_history_compares_the_first_part_with_the_last():
    history = ScoreHistory()
    assert history.start() == history.end()
    assert history.start().mean is None
    for step, mean, episodes in [(100, 1.0, 10), (200, 2.0, 30), (201, 9.0, 5), (1100, 7.0, 20)]:
        history.add(step, mean, episodes)
    history.add(1200, 1000.0, 0)  # no episode ended: no record
    assert (history.start().mean, history.start().episodes) == (1.75, 40)
    assert (history.end().mean, history.end().episodes) == (7.0, 20)


def test_history_takes_in_more_of_the_run_where_episodes_are_few():
    history = ScoreHistory()
    for step, mean in [(0, 1.0), (300, 2.0), (500, 3.0), (501, 9.0), (1000, 9.0)]:
        history.add(step, mean, 5)
    assert (history.start().mean, history.start().episodes) == (2.0, 15)  # up to the middle
    assert (history.end().mean, history.end().episodes) == (7.0, 15)


def test_history_of_one_update():
    history = ScoreHistory()
    history.add(100, 4.0, 3)
    assert (history.start().mean, history.start().episodes) == (4.0, 3)
    assert history.start() == history.end()


def test_speed_is_that_of_the_last_seconds():
    clock = Clock()
    speed = Speedometer(window=10.0, clock=clock)
    assert speed.mark(0) == 0.0
    clock.now = 5.0
    assert speed.mark(50) == 10.0
    clock.now = 15.0
    assert speed.mark(1050) == 100.0  # since the mark at 5 s
    clock.now = 16.0
    assert speed.mark(1150) == 100.0


def test_time_left():
    assert time_left(0.25, 10.0) == 30.0
    assert time_left(0.0, 10.0) is None


def test_only_numbers_are_numbers():
    assert numbers({"a": 1, "b": 2.0, "c": True, "d": "x", "e": None}) == {"a": 1, "b": 2.0}


def test_monitor_measures_and_repeats_within_its_interval(monkeypatch):
    watcher = Monitor(interval=60.0)
    usage = watcher.sample()
    assert 0 <= usage.cpu_percent <= 100
    assert 0 < usage.ram_used < usage.ram_total
    assert watcher.sample() is usage


def test_gpu_without_nvml_has_memory_but_no_load(monkeypatch):
    import torch

    def missing(*_):
        raise ModuleNotFoundError("pynvml")

    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda: (6 * monitor.GIB, 8 * monitor.GIB))
    monkeypatch.setattr(torch.cuda, "utilization", missing)
    usage = Monitor().sample()
    assert (usage.gpu_percent, usage.vram_used, usage.vram_total) == (None, 2.0, 8.0)
