"""`puffer profile ENV`: where the time of training goes."""

from __future__ import annotations

import contextlib
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import torch
from rich.console import Console
from rich.table import Table

from pufferlib import clean_pufferl
from pufferlib.commands.arguments import Option, parse_config
from pufferlib.commands.train import find_option, split_environment
from pufferlib.exceptions import ConfigError
from pufferlib.trainer.config import Config
from pufferlib.trainer.setup import config_of_files, make_policy, make_vecenv
from pufferlib.trainer.trainer import Clock

OPTIONS: dict[str, Option] = {
    "config": (Path | None, None, "A TOML file that goes over the environment's own."),
    "seconds": (float, 15.0, "How long to measure, after a first update that does not count."),
    "trace": (
        Path | None,
        None,
        "Also write what torch did in one more update to this file, for Perfetto or "
        "chrome://tracing.",
    ),
}
PHASES = {
    "env": "waiting for the environments, or stepping them in this process",
    "forward": "the policy's choice of actions",
    "copy": "rows into storage, advantages, and batches to the device",
    "learn": "losses, gradients and the optimizer",
    "other": "everything else",
}


def profile(arguments: Sequence[str]) -> int:
    """The command `puffer profile`; returns its exit code.

    Raises:
        ConfigError: an option is impossible.
    """
    env_name, rest = split_environment(arguments, "profile")
    defaults = config_of_files(env_name, find_option(rest, "--config"))
    prog, summary = f"puffer profile {defaults.env_name}", "Train for a while; nothing is kept."
    config, options = parse_config(defaults, OPTIONS, rest, prog, summary)
    config.validate()
    if not options["seconds"] > 0:
        raise ConfigError(f"--seconds: expected more than 0, got {options['seconds']}")
    clock, steps, elapsed = measure(config, options["seconds"], options["trace"])
    console = Console()
    console.print(report(config.env_name, clock, steps, elapsed))
    if options["trace"]:
        console.print(f"trace: {options['trace']}", highlight=False)
    return 0


def measure(config: Config, seconds: float, trace: Path | None = None) -> tuple[Clock, int, float]:
    """Train for about `seconds`; the time in each phase, the steps, and the time in all.

    Raises:
        ConfigError: sizes do not fit, or `trace` cannot be written.
    """
    vecenv = make_vecenv(config)
    with contextlib.closing(vecenv), tempfile.TemporaryDirectory() as directory:
        policy = make_policy(config, vecenv.driver_env)
        trainer = clean_pufferl.create(config.train, vecenv, policy, directory)
        _update(trainer)  # compiles, allocates, and fills caches
        trainer.clock = Clock()
        first_step, started = trainer.global_step, time.perf_counter()
        while (elapsed := time.perf_counter() - started) < seconds:
            _update(trainer)
        clock, steps = trainer.clock, trainer.global_step - first_step
        if trace:
            with torch.profiler.profile() as profiler:
                _update(trainer)
            profiler.export_chrome_trace(str(trace))
            if not trace.is_file():  # torch only logs why
                raise ConfigError(f"--trace: cannot write {trace}; choose another file")
    return clock, steps, elapsed


def report(env_name: str, clock: Clock, steps: int, elapsed: float) -> Table:
    """A row per phase; the shares sum to the whole."""
    table = Table(title=f"{env_name}: {steps / elapsed:,.0f} steps/s", title_justify="left")
    for heading in ("phase", "share", "µs per step"):
        table.add_column(heading, justify="left" if heading == "phase" else "right")
    table.add_column("what it is")
    whole = sum(clock.seconds.values())
    for phase, meaning in PHASES.items():
        spent = clock.seconds[phase]
        table.add_row(phase, f"{spent / whole:.1%}", f"{1e6 * spent / steps:,.1f}", meaning)
    table.add_section()
    table.add_row("all", "100.0%", f"{1e6 * whole / steps:,.1f}", f"{steps:,} steps")
    return table


def _update(trainer: clean_pufferl.Trainer) -> None:
    clean_pufferl.evaluate(trainer)
    clean_pufferl.train(trainer)
