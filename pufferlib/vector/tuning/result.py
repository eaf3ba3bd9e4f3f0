"""What `autotune` returns and shows."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pufferlib.vector.tuning.profile import Profile
from pufferlib.vector.tuning.rates import Measurement

if TYPE_CHECKING:
    from rich.table import Table


@dataclass(frozen=True)
class Tuning:
    """The recommended way to run an environment; `str()` is the line that does so.

    Attributes:
        make_kwargs: arguments of `pufferlib.vector.make` besides the environment's.
        steps_per_second: agent steps per second that were measured with them.
        profile: what one environment takes.
        measurements: everything that was tried, the recommended setting first, fastest first.
        creator: the environment's part of the line, as Python.
        notes: what limits the answer, in sentences.
    """

    make_kwargs: dict[str, Any]
    steps_per_second: float
    profile: Profile
    measurements: tuple[Measurement, ...]
    creator: str
    notes: tuple[str, ...]

    def __str__(self) -> str:
        kwargs = ", ".join(f"{name}={value!r}" for name, value in self.make_kwargs.items())
        return f"pufferlib.vector.make({self.creator}, {kwargs})"

    def show(self) -> None:
        """Print the profile, the table, the notes and the line."""
        from rich.console import Console  # here, as workers import this package too

        console = Console(highlight=False)
        for line in describe(self.profile):
            console.print(line, markup=False)
        console.print()
        console.print(table(self.measurements))
        for note in self.notes:
            console.print(note, style="yellow", markup=False)
        console.print(f"\n{self}", style="bold", markup=False, soft_wrap=True)


def describe(profile: Profile) -> list[str]:
    """The profile in lines of text."""
    deviation = profile.step_variance**0.5
    agents = f" of {profile.num_agents} agents" if profile.num_agents > 1 else ""
    if profile.resets_in_step:
        resets = "included"
    elif profile.resets:
        resets = f"{profile.reset_share:.0%} of the time ({profile.resets:,} timed)"
    else:
        resets = f"no episode ended in {profile.steps:,} steps"
    memory = f"{_bytes(profile.env_bytes)} each, {_bytes(profile.worker_bytes)} for a process"
    lines = [
        f"step      {_seconds(profile.step_seconds)}{agents}, "
        f"standard deviation {_seconds(deviation)} ({profile.steps:,} timed)",
        f"resets    {resets}",
        f"memory    {memory}",
        f"rows      {_bytes(profile.step_bytes)} a step",
    ]
    if profile.policy_seconds:
        lines.append(f"policy    {_seconds(profile.policy_seconds)} for one environment")
    if not profile.shares_process:
        lines.append("A second environment in the same process failed: each gets its own.")
    return lines


def table(measurements: tuple[Measurement, ...]) -> Table:
    """The measurements as a table, in their order."""
    from rich.table import Table

    made = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="cyan")
    made.add_column("Backend")
    for column in ("Envs", "Workers", "Batch", "Steps/s", "±", "Policy"):
        made.add_column(column, justify="right")
    made.add_column("")
    for place, found in enumerate(measurements):
        made.add_row(*_row(found, place == 0), style="bold" if place == 0 else None)
    return made


def _row(found: Measurement, is_best: bool) -> tuple[str, ...]:
    setting = found.setting
    notes = ["recommended"] * is_best + ["clearly slower"] * found.is_cut
    return (
        "multiprocessing" if setting.num_workers else "serial",
        str(setting.num_envs),
        str(setting.num_workers or "-"),
        str(setting.batch_size) + ("" if setting.zero_copy else " copied"),
        f"{found.rate:,.0f}",
        f"{found.margin / found.rate:.0%}" if len(found.slices) > 1 else "?",
        f"{found.policy_share:.0%}",
        ", ".join(notes),
    )


def creator_text(creator: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    """The environment's arguments of `make` as Python, with names where values have no literal."""
    name = getattr(creator, "__name__", "")
    local = getattr(creator, "__qualname__", "").rpartition("<locals>.")[2]
    parts = [name if name == local and name.isidentifier() else "env_creator"]
    for argument, value in (("env_args", args), ("env_kwargs", kwargs)):
        if value:
            parts.append(f"{argument}={_literal(value, argument)}")
    return ", ".join(parts)


def _literal(value: Any, name: str) -> str:
    try:
        is_literal = ast.literal_eval(repr(value)) == value
    except (ValueError, SyntaxError):
        is_literal = False
    return repr(value) if is_literal else name


def _seconds(value: float) -> str:
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        if value >= size:
            return f"{value / size:.3g} {unit}"
    return f"{value / 1e-6:.3g} µs"


def _bytes(value: float) -> str:
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if value >= size:
            return f"{value / size:.3g} {unit}"
    return f"{value:.0f} bytes"
