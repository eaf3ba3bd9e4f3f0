"""Picture of what a command shows on a real terminal, as SVG.

    python docs/screenshot.py docs/pages/dashboard.svg --after 30 -- puffer train cartpole

The command runs in tmux (which must be installed), in a window of its own size; what the terminal
has on its screen after so many seconds becomes the picture. The command is then interrupted.
"""

from __future__ import annotations

import argparse
import shlex
import subprocess
import time
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import MONOKAI
from rich.text import Text

SESSION = "puffer-screenshot"


def main() -> None:
    """Read the command line, run, and write the picture."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("output", type=Path)
    parser.add_argument("command", nargs="+")
    parser.add_argument("--after", type=float, default=10.0, help="seconds")
    parser.add_argument("--columns", type=int, default=100)
    parser.add_argument("--lines", type=int, default=24)
    options = parser.parse_args()
    screen = capture(options.command, options.after, options.columns, options.lines)
    console = Console(record=True, width=options.columns)
    with console.capture():
        console.print(Text.from_ansi(screen.rstrip()))
    svg = console.export_svg(title=shlex.join(options.command), theme=MONOKAI)
    options.output.write_text(svg, encoding="utf-8")


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


def tmux(*words: str) -> str:
    """What a command of tmux prints."""
    return subprocess.run(["tmux", *words], check=True, capture_output=True, text=True).stdout


if __name__ == "__main__":
    main()
