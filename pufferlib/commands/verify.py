"""`puffer verify`: does this installation learn? Trains the sanity environments and says."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from pufferlib.commands import trials
from pufferlib.commands.arguments import parse_arguments
from pufferlib.commands.trials import Demand, Outcome, Trial
from pufferlib.exceptions import ConfigError

NAMES = tuple(trial.env for trial in trials.TRIALS)


@dataclass(frozen=True)
class VerifyArguments:
    """Train the sanity environments and check what comes out; say what each failure would mean.

    Exit status 0 if all is well, else 1.
    """

    quick: bool = False
    """Train for seconds instead of up to a minute each, with settings of its own."""
    envs: tuple[str, ...] = NAMES
    """Only these environments."""
    seed: int = 1
    """Seeds the weights, the actions and the environments."""
    json: bool = False
    """Print one JSON object instead of a table."""


@dataclass(frozen=True)
class Line:
    """A trial, what was demanded, what came out, and what is wrong with that."""

    trial: Trial
    demand: Demand
    outcome: Outcome

    @property
    def failures(self) -> list[str]:
        """Nothing if all is well."""
        return self.outcome.failures(self.demand, self.trial.meaning)


def verify(arguments: Sequence[str]) -> int:
    """The command `puffer verify`; returns its exit code.

    Raises:
        ConfigError: an environment that is none of the sanity environments, or a negative seed.
    """
    options = parse_arguments(VerifyArguments, arguments, "puffer verify")
    if options.seed < 0:
        raise ConfigError(f"--seed: expected at least 0, got {options.seed}")
    chosen = trials.find(options.envs)
    lines = [_run(trial, options) for trial in chosen]
    passed = not any(line.failures for line in lines)
    if options.json:
        print(json.dumps(report(lines, options), indent=2))
    else:
        console = Console()
        console.print(table(lines))
        for line in lines:
            for failure in line.failures:
                console.print(Text(f"{line.trial.env}: {failure}", style="red"))
        console.print(summary(lines), highlight=False)
    return 0 if passed else 1


def report(lines: Sequence[Line], options: VerifyArguments) -> dict[str, Any]:
    """What `--json` prints."""
    return {
        "passed": not any(line.failures for line in lines),
        "quick": options.quick,
        "seed": options.seed,
        "trials": [
            {
                "env": line.trial.env,
                "passed": not line.failures,
                "failures": line.failures,
                "score_at_least": line.demand.score,
                "critic_at_most": line.demand.critic,
                **dataclasses.asdict(line.outcome),
            }
            for line in lines
        ],
    }


def table(lines: Sequence[Line]) -> Table:
    """A row per trial."""
    made = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="cyan")
    made.add_column("Environment")
    for column in ("Score", "at least", "Critic off by", "at most", "Steps", "Seconds"):
        made.add_column(column, justify="right")
    made.add_column("")
    for line in lines:
        verdict = Text("failed", style="red") if line.failures else Text("ok", style="green")
        made.add_row(*_cells(line), verdict)
    return made


def summary(lines: Sequence[Line]) -> str:
    """The last line."""
    failed = [line.trial.env for line in lines if line.failures]
    if not failed:
        return f"All {len(lines)} learn as they should."
    return f"{len(failed)} of {len(lines)} failed: {', '.join(failed)}."


def _run(trial: Trial, options: VerifyArguments) -> Line:
    demand = trial.quick if options.quick else trial.full
    with Console(stderr=True).status(f"training {trial.env} …"):
        return Line(trial, demand, trials.run(trial, demand, options.seed))


def _cells(line: Line) -> list[str]:
    outcome, demand = line.outcome, line.demand
    return [
        line.trial.env,
        _number(outcome.score),
        _number(demand.score),
        _number(outcome.critic),
        _number(demand.critic),
        f"{outcome.learnt:,}",
        f"{outcome.seconds:.1f}",
    ]


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"
