"""What a running training looks like: a live panel on a terminal, plain lines elsewhere."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Sequence

from rich import box
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from pufferlib.trainer.progress import Snapshot

WIDTH = 100
"""Columns the panel takes where the terminal has them."""
WIDE = 92
"""Columns from which on the four blocks stand side by side."""
NARROW = 56
"""Columns below which they stand one above the other."""
ROWS = 9
"""Rows of each block of the panel."""
LOSSES = (
    "policy_loss",
    "value_loss",
    "entropy",
    "approx_kl",
    "clipfrac",
    "explained_variance",
    "grad_norm",
    "learning_rate",
    "ent_coef",
)
"""What the panel shows first of an update's numbers."""
LINE_LOSSES = ("entropy", "approx_kl", "explained_variance")
"""What a plain line shows of them."""
REFRESH_SECONDS = 0.25
LINE_SECONDS = 5.0
_ACCENT = "cyan"
_Block = tuple[str, list[tuple[str, str]]]
"""A title, and rows of names and values."""


class Dashboard:
    """Shows snapshots, at most four a second on a terminal and a line every five seconds elsewhere.

    A context manager; `update` may be called as often as convenient.
    """

    def __init__(
        self, console: Console | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._console = console or Console()
        self._clock = clock
        self._due = -math.inf
        self._latest: Snapshot | None = None
        self._live: Live | None = None
        if self._console.is_terminal and not self._console.is_dumb_terminal:
            self._live = Live(console=self._console, auto_refresh=False)

    def __enter__(self) -> Dashboard:
        if self._live:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._latest:
            self._show(self._latest)
        if self._live:
            self._live.stop()

    def update(self, snapshot: Snapshot) -> None:
        """Show `snapshot` now, or leave it to a later call when the last one is too recent."""
        self._latest = snapshot
        if self._clock() >= self._due:
            self._show(snapshot)

    def _show(self, snapshot: Snapshot) -> None:
        self._latest = None
        if self._live:
            self._due = self._clock() + REFRESH_SECONDS
            self._live.update(render(snapshot, *self._console.size), refresh=True)
        else:
            self._due = self._clock() + LINE_SECONDS
            self._console.print(line(snapshot), highlight=False, markup=False, soft_wrap=True)


def render(snapshot: Snapshot, width: int = WIDTH, height: int = 100) -> RenderableType:
    """The panel for a terminal of this size, at most `WIDTH` columns wide.

    In narrow terminals its blocks stand in pairs or alone, in low ones they are shorter.
    """
    width = min(width, WIDTH)
    across = 4 if width >= WIDE else 2 if width >= NARROW else 1
    down = 4 // across
    rows_of_block = max(1, min(ROWS, (height - 4) // down - 2))
    parts = (_run, _time, _losses, _episodes)
    blocks = [_block(title, rows[:rows_of_block]) for title, rows in (p(snapshot) for p in parts)]
    ratios = (22, 12, 27, 24) if across == 4 else (1,) * across
    rows: list[RenderableType] = []
    for start in range(0, len(blocks), across):
        rows += [Text(), _columns(blocks[start : start + across], ratios)]
    return Panel(
        Group(_progress(snapshot), *rows),
        title=Text(f" {snapshot.title} ", style=f"bold {_ACCENT}"),
        title_align="left",
        subtitle=Text(f" {snapshot.run} ", style="dim"),
        subtitle_align="right",
        border_style="dim",
        box=box.ROUNDED,
        width=width,
        padding=(1, 2, 0, 2),
    )


def line(snapshot: Snapshot) -> str:
    """The snapshot in one line of text."""
    parts = [
        f"{snapshot.fraction:4.0%}",
        f"{snapshot.steps:,} steps",
        f"{snapshot.steps_per_second:,.0f} steps/s",
        f"{duration(snapshot.elapsed)} elapsed",
    ]
    if snapshot.time_left is not None:
        parts.append(f"{duration(snapshot.time_left)} left")
    if snapshot.score_key in snapshot.stats:
        score = number(snapshot.stats[snapshot.score_key])
        parts.append(f"{snapshot.score_key} {score} (last {snapshot.episodes} episodes)")
    losses = (name for name in LINE_LOSSES if name in snapshot.losses)
    parts += [f"{_words(name)} {number(snapshot.losses[name])}" for name in losses]
    return "  ".join(parts)


def duration(seconds: float) -> str:
    """Seconds as `m:ss` or `h:mm:ss`."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def number(value: float) -> str:
    """A number in at most nine characters or so: separators for large, exponents for tiny ones."""
    if not math.isfinite(value):
        return str(value)
    size = abs(value)
    if isinstance(value, int) or size >= 10_000:
        return f"{value:,.0f}"
    if 0 < size < 0.001:
        return f"{value:.1e}"
    if size and size < 0.01:
        return f"{value:.2g}"
    return f"{value:,.{3 if size < 10 else 2 if size < 1000 else 1}f}"


def _progress(snapshot: Snapshot) -> RenderableType:
    left = "" if snapshot.time_left is None else f"   {duration(snapshot.time_left)} left"
    bar = ProgressBar(
        total=1.0,
        completed=min(snapshot.fraction, 1.0),
        style="bright_black",
        complete_style=_ACCENT,
        finished_style=_ACCENT,
    )
    table = Table.grid(expand=True, padding=(0, 2, 0, 0))
    table.add_column(ratio=1)
    table.add_column(justify="right", no_wrap=True)
    table.add_column(justify="right", no_wrap=True)
    times = f"{duration(snapshot.elapsed)} elapsed{left}"
    table.add_row(bar, Text(f"{snapshot.fraction:.0%}", style="bold"), Text(times, style="dim"))
    return table


def _columns(blocks: Sequence[Table], ratios: Sequence[int]) -> Table:
    table = Table.grid(expand=True, padding=(0, 3, 0, 0), pad_edge=False)
    for ratio in ratios:
        table.add_column(ratio=ratio)
    table.add_row(*blocks)
    return table


def _block(title: str, rows: Iterable[tuple[str, str]]) -> Table:
    """A titled list of names (left) and values (right)."""
    table = Table(
        box=None,
        expand=True,
        padding=0,
        pad_edge=False,
        title=Text(title, style=_ACCENT),
        title_justify="left",
        show_header=False,
        collapse_padding=True,
    )
    table.add_column(style="dim", no_wrap=True, overflow="ellipsis", ratio=1)
    table.add_column(justify="right", no_wrap=True)
    for name, value in rows:
        style = "bold red" if value in ("nan", "inf", "-inf") else ""
        table.add_row(Text(name), Text(f" {value}", style=style))
    return table


def _run(snapshot: Snapshot) -> _Block:
    rows = [
        ("steps", f"{snapshot.steps:,}"),
        ("of", f"{snapshot.total_steps:,}"),
        ("steps/s", f"{snapshot.steps_per_second:,.0f}"),
        ("updates", f"{snapshot.updates:,}"),
        ("parameters", f"{snapshot.parameters:,}"),
    ]
    usage = snapshot.usage
    if usage:
        rows.append(("CPU", f"{usage.cpu_percent:.0f}%"))
        rows.append(("RAM", f"{usage.ram_used:.1f}/{usage.ram_total:.0f} GiB"))
    if usage and usage.vram_used is not None and usage.vram_total is not None:
        load = "–" if usage.gpu_percent is None else f"{usage.gpu_percent:.0f}%"
        rows.append(("GPU", load))
        rows.append(("VRAM", f"{usage.vram_used:.1f}/{usage.vram_total:.0f} GiB"))
    return "Run", rows


def _time(snapshot: Snapshot) -> _Block:
    total = sum(snapshot.timings.values())
    shares = {name: value / total if total else 0.0 for name, value in snapshot.timings.items()}
    return "Time", [(name, f"{share:.0%}") for name, share in shares.items()]


def _losses(snapshot: Snapshot) -> _Block:
    names = [name for name in LOSSES if name in snapshot.losses]
    names += sorted(snapshot.losses.keys() - set(LOSSES))
    return "Learning", [(_words(name), number(snapshot.losses[name])) for name in names]


def _episodes(snapshot: Snapshot) -> _Block:
    title = f"Last {snapshot.episodes:,} episodes" if snapshot.episodes else "No episode yet"
    names = [snapshot.score_key, "episode_return", "episode_length", *sorted(snapshot.stats)]
    shown = [name for name in dict.fromkeys(names) if name in snapshot.stats]
    return title, [(_counted(name, snapshot), number(snapshot.stats[name])) for name in shown]


def _counted(name: str, snapshot: Snapshot) -> str:
    """The name of a statistic, and how many episodes report it where not all do."""
    count = snapshot.counts.get(name, snapshot.episodes)
    return _words(name) if count == snapshot.episodes else f"{_words(name)} ({count:,})"


def _words(name: str) -> str:
    return name.replace("_", " ")
