"""Frames: text and pictures, on a terminal and in a video."""

import io
import sys

import numpy as np
import pytest

from pufferlib.exceptions import APIUsageError, ConfigError, EnvironmentSetupError
from pufferlib.trainer.rendering import (
    PALETTE,
    TerminalPlayer,
    VideoWriter,
    parse_ansi,
    picture_text,
    text_image,
)


def read_frames(path):
    import imageio.v2 as imageio  # here, since images that run the smoke tests lack it

    return list(imageio.get_reader(path).iter_data())


@pytest.mark.parametrize("suffix", ["mp4", "gif"])
def test_video_has_the_frames_that_were_shown(tmp_path, suffix):
    path = tmp_path / "new" / f"film.{suffix}"
    with VideoWriter(path, fps=10) as video:
        for step in range(7):
            frame = np.full((31, 45, 3), 30 * step, np.uint8)  # odd sizes, as codecs dislike
            video.show(frame)
    frames = read_frames(path)
    assert len(frames) == video.frames == 7
    assert frames[0].shape[:2] == (32, 46)
    assert abs(int(frames[6][5, 5, 0]) - 180) < 12


def test_text_frames_can_be_filmed(tmp_path):
    path = tmp_path / "text.mp4"
    with VideoWriter(path) as video:
        for time in range(4):
            video.show(f"\x1b[31m{time}\x1b[0m\nx")
    frames = read_frames(path)
    assert len(frames) == video.frames == 4
    assert frames[0].max() > 100


def test_wrong_frames_are_refused(tmp_path):
    with (
        VideoWriter(tmp_path / "a.mp4") as video,
        pytest.raises(APIUsageError, match=r"uint8.*shape \(4, 4\).*float64"),
    ):
        video.show(np.zeros((4, 4)))


@pytest.mark.parametrize(
    "name",
    ["film", "film.xyz", "film.tiff", "film.webm", "file/film.mp4", "folder.mp4", "folder.gif"],
)
def test_a_file_that_cannot_be_written_is_named(tmp_path, name):
    (tmp_path / "file").write_text("no directory")
    for suffix in ("mp4", "gif"):
        (tmp_path / f"folder.{suffix}").mkdir()
    path = tmp_path / name

    def film():
        with VideoWriter(path) as video:
            video.show(np.zeros((4, 4, 3), np.uint8))

    with pytest.raises(ConfigError, match=f"cannot write the video {path}: .*choose another file"):
        film()


def test_missing_encoder_names_the_extra(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "imageio_ffmpeg", None)
    with pytest.raises(EnvironmentSetupError, match=r"pip install 'pufferlib\[video\]'"):
        VideoWriter(tmp_path / "a.mp4")


def test_ansi_colours_are_understood():
    text = "a\x1b[1;31mb\x1b[0m\x1b[7mc\x1b[27;48;5;196md\x1b[38;2;1;2;3me\x1b[2Kf\n\x1b[95mg\n"
    (a, b, c, d, e, f), (g,) = parse_ansi(text)
    assert "".join(character for character, _ in (a, b, c, d, e, f, g)) == "abcdefg"
    assert b[1].colors()[0] == PALETTE[9]  # bold red is bright
    assert c[1].colors() == a[1].colors()[::-1]
    assert d[1].colors()[1] == (255, 0, 0)
    assert e[1].colors() == ((1, 2, 3), (255, 0, 0)) == f[1].colors()
    assert g[1].colors()[0] == PALETTE[13]


def test_text_becomes_a_monospaced_picture():
    picture = text_image("ab\n\x1b[41m \x1b[0mé∀")
    height, width = picture.shape[0] // 2, picture.shape[1] // 3
    assert picture.dtype == np.uint8
    assert (picture[height:, :width] == PALETTE[1]).all()
    assert picture[:height, :width].any()
    assert not picture[:height, 2 * width :].any()  # the first line has two characters


def test_terminal_frames_are_drawn_over_each_other_at_the_frame_rate():
    stream, naps = io.StringIO(), []
    with TerminalPlayer(fps=0.01, stream=stream, sleep=naps.append) as player:
        player.show("one\ntwo\n")
        player.show(np.zeros((4, 3, 3), np.uint8))
        text = stream.getvalue()
    assert text.startswith("\x1b[2J\x1b[Hone\x1b[K\ntwo\x1b[K\x1b[J\x1b[H")
    assert text.count("▀") == 2 * 3
    assert naps == [pytest.approx(100, rel=0.01)]
    assert stream.getvalue() == text + "\n"


@pytest.mark.parametrize("lines", [1, 24, 60])
def test_a_text_as_high_as_the_terminal_does_not_scroll(lines):
    stream = io.StringIO()
    TerminalPlayer(stream=stream).show("\n".join("x" * lines) + "\n")
    assert stream.getvalue().count("\n") == lines - 1


@pytest.mark.parametrize(
    ("shape", "cells"),
    [((210, 160), (21, 32)), ((720, 1280), (23, 80)), ((24, 24), (12, 24)), ((3, 81), (1, 41))],
)
def test_a_picture_is_made_as_small_as_the_terminal(monkeypatch, shape, cells):
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("LINES", "24")
    stream = io.StringIO()
    TerminalPlayer(stream=stream).show(np.zeros((*shape, 3), np.uint8))
    lines = stream.getvalue().split("\n")
    assert (len(lines), *{line.count("▀") for line in lines}) == cells


def test_a_ball_of_one_pixel_is_seen_in_a_smaller_picture():
    picture = np.zeros((96, 96, 3), np.uint8)
    picture[5, 7] = 160
    assert ";10;10m" in picture_text(picture, columns=24, lines=12)
