"""Frames of an environment: shown in the terminal or written to a video file.

A frame is text (render mode 'ansi') or an array `(height, width, 3) uint8` ('rgb_array').
Videos need the extra `video`; text becomes pictures through Pillow.
"""

from __future__ import annotations

import math
import re
import shutil
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol, TextIO

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from pufferlib.exceptions import APIUsageError, ConfigError, EnvironmentSetupError
from pufferlib.pictures import half_blocks

Color = tuple[int, int, int]

BACKGROUND: Color = (0, 0, 0)
FOREGROUND: Color = (192, 192, 192)
PALETTE: tuple[Color, ...] = (
    *((0, 0, 0), (205, 49, 49), (13, 188, 121), (229, 229, 16)),
    *((36, 114, 200), (188, 63, 188), (17, 168, 205), (192, 192, 192)),
    *((118, 118, 118), (241, 76, 76), (35, 209, 139), (245, 245, 67)),
    *((59, 142, 234), (214, 112, 214), (41, 184, 219), (255, 255, 255)),
)
"""The sixteen named colours: eight normal ones, then their bright twins."""

_CLEAR = "\x1b[2J"
_HOME = "\x1b[H"
_CLEAR_LINE = "\x1b[K"
_CLEAR_BELOW = "\x1b[J"
_ESCAPE = re.compile(r"\x1b\[([0-9;?]*)([A-Za-z])")


class Player(Protocol):
    """Takes the frames of an evaluation, one after the other."""

    def show(self, frame: Any) -> None:
        """Take the next frame."""


class TerminalPlayer:
    """Draws frames over each other in the terminal, at most `fps` a second. A context manager.

    Pictures become coloured half blocks, two pixels a character, small enough for the terminal.
    """

    def __init__(
        self, fps: float = 30.0, stream: TextIO | None = None, sleep: Callable = time.sleep
    ) -> None:
        self._pause = 1.0 / fps
        self._stream = stream or sys.stdout
        self._sleep = sleep
        self._due: float | None = None

    def __enter__(self) -> TerminalPlayer:
        return self

    def __exit__(self, *_: object) -> None:
        if self._due is not None:
            self._stream.write("\n")  # what follows begins below the last frame

    def show(self, frame: Any) -> None:
        """Draw the frame at the top of the screen."""
        text = frame if isinstance(frame, str) else picture_text(_picture(frame), *_terminal_size())
        start = _CLEAR if self._due is None else ""
        self._wait()
        body = text.rstrip("\n").replace("\n", f"{_CLEAR_LINE}\n")
        # No line feed at the end: it would push the first line of a full screen out.
        self._stream.write(f"{start}{_HOME}{body}{_CLEAR_LINE}{_CLEAR_BELOW}")
        self._stream.flush()

    def _wait(self) -> None:
        now = time.monotonic()
        if self._due is not None and now < self._due:
            self._sleep(self._due - now)
        self._due = max(now, self._due or now) + self._pause


FORMATS = (".avi", ".gif", ".mkv", ".mov", ".mp4")
"""Suffixes of videos. Others are writable or not by what else is installed beside imageio."""


class VideoWriter:
    """Writes frames to a video file whose suffix chooses the format, one of `FORMATS`.

    Every frame gets the size of the first, made even as most codecs want it. A context manager.

    Raises:
        EnvironmentSetupError: the extra `video` is not installed.
        ConfigError: the file cannot be written, or its suffix is none of `FORMATS`.
    """

    def __init__(self, path: str | Path, fps: float = 30.0) -> None:
        try:
            import imageio.v2 as imageio
            import imageio_ffmpeg  # noqa: F401  (the encoder that imageio looks for)
        except ImportError as error:
            raise EnvironmentSetupError(
                f"writing a video needs imageio with its encoder ({error}): "
                "pip install 'pufferlib[video]'"
            ) from error
        self.frames = 0
        self._shape: tuple[int, int] | None = None
        self._path = Path(path)
        suffix = self._path.suffix.lower()
        if suffix not in FORMATS:
            raise self._unwritable(f"expected a suffix of {', '.join(FORMATS)}, got {suffix!r}")
        options: dict[str, Any] = {"fps": fps, "macro_block_size": 1}
        options = {"duration": 1000 / fps} if suffix == ".gif" else options
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._writer = imageio.get_writer(self._path, **options)
        except (OSError, ValueError) as error:
            raise self._unwritable(error) from error

    def __enter__(self) -> VideoWriter:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def show(self, frame: Any) -> None:
        """Append a frame: text, or an array `(height, width, 3) uint8`.

        Raises:
            APIUsageError: it is neither.
            ConfigError: the file cannot be written.
        """
        picture = text_image(frame) if isinstance(frame, str) else _picture(frame)
        if self._shape is None:
            self._shape = (_even(picture.shape[0]), _even(picture.shape[1]))
        try:
            self._writer.append_data(_fit(picture, *self._shape))
        except OSError as error:
            raise self._unwritable(error) from error
        self.frames += 1

    def close(self) -> None:
        """Finish the file.

        Raises:
            ConfigError: it cannot be written.
        """
        try:
            self._writer.close()
        except OSError as error:
            raise self._unwritable(error) from error
        if self.frames and not self._path.is_file():
            raise self._unwritable("the encoder has written nothing; it has said why")

    def _unwritable(self, reason: object) -> ConfigError:
        first = (str(reason).strip().splitlines() or [repr(reason)])[0]
        return ConfigError(
            f"cannot write the video {self._path}: {first}; choose another file, such as film.mp4 "
            "or film.gif"
        )


@dataclass(frozen=True)
class Style:
    """How a character of an ANSI text looks."""

    foreground: Color = FOREGROUND
    background: Color = BACKGROUND
    bold: bool = False
    reverse: bool = False

    def colors(self) -> tuple[Color, Color]:
        """Foreground and background as drawn; bold makes the eight normal colours bright."""
        foreground = self.foreground
        if self.bold and foreground in PALETTE[:8]:
            foreground = PALETTE[PALETTE.index(foreground) + 8]
        pair = (foreground, self.background)
        return pair[::-1] if self.reverse else pair


Cell = tuple[str, Style]


def parse_ansi(text: str) -> list[list[Cell]]:
    """Lines of characters with their style; escape sequences other than colours are dropped."""
    style = Style()
    lines = []
    for line in text.rstrip("\n").split("\n"):
        cells: list[Cell] = []
        end = 0
        for match in _ESCAPE.finditer(line):
            cells += [(character, style) for character in line[end : match.start()]]
            end = match.end()
            if match[2] == "m":
                style = _restyle(style, [int(code or 0) for code in match[1].split(";")])
        cells += [(character, style) for character in line[end:]]
        lines.append(cells)
    return lines


def text_image(text: str) -> np.ndarray:
    """A monospaced picture `(height, width, 3) uint8` of a text with ANSI colours."""
    font, width, height = _font()
    lines = parse_ansi(text)
    columns = max((len(line) for line in lines), default=0) or 1
    image = Image.new("RGB", (columns * width, len(lines) * height), BACKGROUND)
    draw = ImageDraw.Draw(image)
    for row, line in enumerate(lines):
        for column, (character, style) in enumerate(line):
            foreground, background = style.colors()
            left, top = column * width, row * height
            if background != BACKGROUND:
                draw.rectangle((left, top, left + width - 1, top + height - 1), background)
            if not character.isspace():
                draw.text((left, top), _drawable(character, font), foreground, font)
    return np.asarray(image)


def picture_text(picture: np.ndarray, columns: int, lines: int) -> str:
    """A picture `(height, width, 3) uint8` as ANSI text of at most so many characters a side.

    A larger one is made smaller by means over squares of pixels, in which a ball does not get lost.
    """
    height, width, _ = picture.shape
    factor = math.ceil(max(width / columns, height / (2 * lines)))
    return half_blocks(np.asarray(Image.fromarray(picture).reduce(factor)))


def _terminal_size() -> tuple[int, int]:
    """Columns and lines; those of a large terminal where the output is none."""
    return shutil.get_terminal_size((96, 48))


def _font() -> tuple[Any, int, int]:
    """A monospaced font with the width and height of its cell."""
    try:
        font: Any = ImageFont.truetype("DejaVuSansMono.ttf", 16)
        ascent, descent = font.getmetrics()
        return font, round(font.getlength("M")), ascent + descent
    except OSError:  # not on this machine: the bitmap font that Pillow carries
        font = ImageFont.load_default_imagefont()
        _, _, width, height = font.getbbox("M")
        return font, round(width), round(height)


def _drawable(character: str, font: Any) -> str:
    """The bitmap font holds Latin-1 only."""
    if isinstance(font, ImageFont.ImageFont) and ord(character) > 255:
        return "?"
    return character


def _restyle(style: Style, codes: list[int]) -> Style:
    """The style after a sequence of SGR codes (ECMA-48, with the usual 256 and RGB colours)."""
    while codes:
        code = codes.pop(0)
        if code in (38, 48):
            style = _paint(style, _extended(codes), background=code == 48)
        else:
            style = _simple(style, code)
    return style


def _simple(style: Style, code: int) -> Style:
    if code == 0:
        return Style()
    if code in (1, 22):
        return replace(style, bold=code == 1)
    if code in (7, 27):
        return replace(style, reverse=code == 7)
    if code == 39:
        return replace(style, foreground=FOREGROUND)
    if code == 49:
        return replace(style, background=BACKGROUND)
    for base, first in ((30, 0), (40, 0), (90, 8), (100, 8)):
        if base <= code < base + 8:
            return _paint(style, PALETTE[code - base + first], background=base in (40, 100))
    return style


def _paint(style: Style, color: Color, background: bool) -> Style:
    return replace(style, background=color) if background else replace(style, foreground=color)


def _extended(codes: list[int]) -> Color:
    """Takes the rest of a `38;5;n` or `38;2;r;g;b` sequence off `codes`."""
    kind = codes.pop(0) if codes else 0
    if kind == 2:
        red, green, blue = (*codes[:3], 0, 0, 0)[:3]
        del codes[:3]
        return red, green, blue
    index = codes.pop(0) if codes else 0
    if index < 16:
        return PALETTE[index]
    if index >= 232:
        grey = 8 + 10 * (index - 232)
        return grey, grey, grey
    steps = (0, 95, 135, 175, 215, 255)
    index -= 16
    return steps[index // 36], steps[index // 6 % 6], steps[index % 6]


def _picture(frame: Any) -> np.ndarray:
    picture = np.asarray(frame)
    if picture.ndim != 3 or picture.shape[2] != 3 or picture.dtype != np.uint8:
        raise APIUsageError(
            "a video frame must be an array (height, width, 3) of uint8, but render() returned "
            f"{type(frame).__name__} with shape {picture.shape} and dtype {picture.dtype}"
        )
    return picture


def _even(size: int) -> int:
    return size + size % 2


def _fit(picture: np.ndarray, height: int, width: int) -> np.ndarray:
    """The picture cut or padded with black at its right and bottom."""
    fitted = np.zeros((height, width, 3), np.uint8)
    part = picture[:height, :width]
    fitted[: part.shape[0], : part.shape[1]] = part
    return fitted
