"""`puffer plot RUN…`: learning curves as a picture."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import tyro

from pufferlib.commands.arguments import parse_arguments
from pufferlib.commands.runs import differences
from pufferlib.exceptions import ConfigError, EnvironmentSetupError
from pufferlib.trainer.curves import (
    METRICS_FILE,
    Array,
    Band,
    Points,
    band,
    curve,
    metric_key,
    read_points,
    smooth,
)
from pufferlib.trainer.options import flatten
from pufferlib.trainer.summary import RunSummary, runs_called, summarize

SCORE = "score"
SEEDS = ("train.seed", "vec.seed")
"""Settings in which the runs of one group may differ."""
_X_LABELS = {"step": "agent steps", "seconds": "seconds of training"}


@dataclass(frozen=True, kw_only=True)
class PlotArguments:
    """Draw the learning curves of runs; seeds of equal settings become one mean with a band."""

    runs: tyro.conf.Positional[tuple[str, ...]]
    """Names or directories of runs; the name of an environment stands for all its runs."""
    x: Literal["steps", "time"] = "steps"
    """What is drawn to the right: agent steps, or seconds of training."""
    metric: str = SCORE
    """'score' (what the environment's success is measured by), or a name out of metrics.jsonl,
    such as 'entropy' or 'episodes/episode_length'."""
    smooth: float = 0.0
    """Weight of an exponential moving average, from 0 (nothing is smoothed) to below 1."""
    output: Path = Path("curves.png")
    """Where the picture goes; the ending says which kind (.png, .svg, .pdf)."""
    data_dir: Path = Path("runs")
    """Directory that holds the runs."""


@dataclass(frozen=True)
class Line:
    """One line of the picture, and how many runs it stands for."""

    label: str
    band: Band
    runs: int


def plot(arguments: Sequence[str]) -> int:
    """The command `puffer plot`; returns its exit code.

    Raises:
        ConfigError: an option is impossible, or there is nothing to draw.
        EnvironmentSetupError: matplotlib is not installed.
    """
    options = parse_arguments(PlotArguments, arguments, "puffer plot")
    if not options.runs:
        raise ConfigError("puffer plot needs a run; puffer runs lists them")
    if not 0 <= options.smooth < 1:
        raise ConfigError(f"--smooth: expected 0 <= smooth < 1, got {options.smooth}")
    found = [summarize(path) for path in runs_called(options.runs, options.data_dir)]
    x = {"steps": "step", "time": "seconds"}[options.x]
    lines = make_lines(found, x, options.metric, options.smooth)
    draw(lines, _X_LABELS[x], _metric_label(found, options.metric), options.output)
    print(options.output)
    return 0


def make_lines(found: Sequence[RunSummary], x: str, metric: str, weight: float) -> list[Line]:
    """The lines of the picture: one for each group of runs that differ in their seeds only.

    Args:
        found: the runs.
        x: 'step' or 'seconds'.
        metric: as `PlotArguments.metric`.
        weight: as `PlotArguments.smooth`.

    Raises:
        ConfigError: no run has such a metric, or runs of one group have nothing in common.
    """
    curves: dict[Path, tuple[Array, Array]] = {}
    for run in found:
        xs, ys = _curve(run, x, metric)
        if len(xs):
            curves[run.directory] = xs, smooth(ys, weight)
        else:
            _warn(f"{run.name}: left out, it has logged no {metric}")
    drawn = [run for run in found if run.directory in curves]
    if not drawn:
        raise ConfigError(f"none of these runs has logged {metric}; nothing to draw")
    settings = {name: row for name, row in differences(drawn).items() if _parts(name, drawn)}
    groups: dict[str, list[RunSummary]] = {}
    for index, run in enumerate(drawn):
        own = {name: values[index] for name, values in settings.items()}
        groups.setdefault(_group_label(run, own), []).append(run)
    return [
        Line(_label(label, runs), band([curves[run.directory] for run in runs]), len(runs))
        for label, runs in groups.items()
    ]


def draw(lines: Sequence[Line], x_label: str, y_label: str, path: Path) -> None:
    """Draw `lines` into a file.

    Raises:
        EnvironmentSetupError: matplotlib is not installed.
        ConfigError: the file cannot be written, or matplotlib does not know its ending.
    """
    try:
        from matplotlib.figure import Figure
        from matplotlib.ticker import EngFormatter
    except ImportError as error:
        raise EnvironmentSetupError(
            "puffer plot draws with matplotlib, which is not installed; "
            "install it: pip install 'pufferlib[plot]'"
        ) from error
    figure = Figure(figsize=(9, 5), layout="constrained")
    axes = figure.add_subplot(xlabel=x_label, ylabel=y_label)
    axes.grid(alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)
    for line in lines:
        (drawn,) = axes.plot(line.band.x, line.band.mean, label=line.label)
        if line.runs > 1:
            axes.fill_between(
                line.band.x, line.band.low, line.band.high, color=drawn.get_color(), alpha=0.2, lw=0
            )
    thousands = EngFormatter(sep="")
    axes.xaxis.set_major_formatter(lambda x, position: thousands(x) if x else "0")
    axes.legend(frameon=False)
    try:
        figure.savefig(path, dpi=150)
    except (OSError, ValueError) as error:
        raise ConfigError(f"--output: cannot write {path}: {error}") from error


def _curve(run: RunSummary, x: str, metric: str) -> tuple[Array, Array]:
    read: Points = read_points(run.directory / METRICS_FILE)
    if read.damaged:
        _warn(f"{run.name}: {read.damaged} damaged lines of {METRICS_FILE} are left out")
    if metric == SCORE and run.score_key:
        return curve(read.points, x, f"episodes/{run.score_key}")
    if not read.points:
        return curve([], x, metric)
    return curve(read.points, x, metric_key(metric, read.points))


def _parts(name: str, found: Sequence[RunSummary]) -> bool:
    """Whether runs that differ in this setting are drawn apart.

    A run from before the setting existed goes with all others: what they did without it is unknown.
    """
    configs = [dict(flatten(run.config or {})) for run in found]
    known = [config[name] for config in configs if name in config]
    return name not in SEEDS and any(value != known[0] for value in known)


def _group_label(run: RunSummary, settings: Mapping[str, Any]) -> str:
    own = (f"{name.rpartition('.')[2]} {value}" for name, value in settings.items())
    shown = (text for text in own if not text.startswith(("env_name ", "score_key ")))
    return ", ".join([run.env or run.name, *shown])


def _label(label: str, runs: Sequence[RunSummary]) -> str:
    return f"{label} ({len(runs)} runs: mean, min to max)" if len(runs) > 1 else label


def _metric_label(found: Sequence[RunSummary], metric: str) -> str:
    keys = {run.score_key for run in found} if metric == SCORE else {metric}
    words = " or ".join(sorted(key for key in keys if key)) or metric
    return words.replace("_", " ")


def _warn(text: str) -> None:
    print(f"puffer: {text}", file=sys.stderr)
