"""Picture of what a command shows on a real terminal, as PNG.

    python docs/screenshot.py docs/pages/dashboard.png --after 60 -- puffer train cartpole

The command runs in tmux (which must be installed), in a window of its own size; what the terminal
has on its screen after so many seconds becomes the picture. The command is then interrupted.
"""

from __future__ import annotations

import argparse
import shlex
import subprocess
import time
from pathlib import Path

import matplotlib as mpl
from PIL import Image, ImageDraw, ImageFont
from rich.console import Console
from rich.terminal_theme import MONOKAI
from rich.text import Text

SESSION = "puffer-screenshot"
FONT = Path(mpl.get_data_path(), "fonts", "ttf", "DejaVuSansMono.ttf")
CELL = (10, 20)
MARGIN = 12


def main() -> None:
    """Read the command line, run, and write the picture."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("output", type=Path)
    parser.add_argument("command", nargs="+")
    parser.add_argument("--after", type=float, default=10.0, help="seconds")
    parser.add_argument("--columns", type=int, default=100)
    parser.add_argument("--lines", type=int, default=18)
    options = parser.parse_args()
    screen = capture(options.command, options.after, options.columns, options.lines)
    draw(screen.rstrip(), options.columns).save(options.output, optimize=True)


def capture(command: list[str], seconds: float, columns: int, lines: int) -> str:
    """The screen with its escape sequences, `seconds` after the start of `command`."""
    size = ["-x", str(columns), "-y", str(lines)]
    tmux("new-session", "-d", "-s", SESSION, *size, shlex.join(command))
    try:
        time.sleep(seconds)
        screen = tmux("capture-pane", "-e", "-p", "-t", SESSION)
        tmux("send-keys", "-t", SESSION, "C-c")
        time.sleep(3)  # for the command to end by itself
    finally:
        subprocess.run(["tmux", "kill-session", "-t", SESSION], capture_output=True)
    return screen


def draw(screen: str, columns: int) -> Image.Image:
    """The screen, a character in each cell; grey where the terminal dims."""
    width, height = CELL
    lines = Console(width=columns, color_system="truecolor").render_lines(Text.from_ansi(screen))
    size = (columns * width + 2 * MARGIN, len(lines) * height + 2 * MARGIN)
    image = Image.new("RGB", size, MONOKAI.background_color)
    pen, font = ImageDraw.Draw(image), ImageFont.truetype(str(FONT), 16)
    for row, segments in enumerate(lines):
        column = 0
        for text, style, _ in segments:
            colour = MONOKAI.foreground_color
            if style and style.color:
                colour = style.color.get_truecolor(MONOKAI)
            if style and style.dim:
                colour = tuple(channel * 6 // 10 for channel in colour)
            for character in text:
                place = MARGIN + column * width, MARGIN + row * height
                pen.text(place, character, fill=tuple(colour), font=font)
                column += 1
    return image


def tmux(*words: str) -> str:
    """What a command of tmux prints."""
    return subprocess.run(["tmux", *words], check=True, capture_output=True, text=True).stdout


if __name__ == "__main__":
    main()
