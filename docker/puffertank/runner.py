"""Commands that a user can see, copy and run by hand."""

from __future__ import annotations

import os
import shlex
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Runner:
    """Prints every command and, unless `dry_run`, executes it in the repository's root.

    A command that fails has said why; the task ends with its exit status.
    """

    dry_run: bool = False

    def __call__(self, *command: str, variables: Mapping[str, str] | None = None) -> None:
        """Run `command`, with more environment variables if given."""
        settings = [f"{name}={shlex.quote(value)}" for name, value in (variables or {}).items()]
        self._show(" ".join([*settings, shlex.join(command)]))
        if not self.dry_run:
            status = execute(command, {**os.environ, **(variables or {})})
            if status:
                raise SystemExit(status)

    def pipe(self, first: Sequence[str], second: Sequence[str]) -> None:
        """Run `first | second`; fails if either does."""
        self._show(f"{shlex.join(first)} | {shlex.join(second)}")
        if not self.dry_run and (status := execute_pipe(first, second)):
            raise SystemExit(status)

    def ask(self, *command: str) -> str:
        """Run a command that changes nothing, in dry runs too, and return its output."""
        self._show(shlex.join(command))
        return ask(command)

    def _show(self, line: str) -> None:
        print(f"$ {line}", flush=True)


def execute(command: Sequence[str], environment: Mapping[str, str]) -> int:
    """The exit status of a command that uses this terminal."""
    try:
        return subprocess.run(command, cwd=ROOT, env=environment).returncode
    except FileNotFoundError:
        raise SystemExit(f"error: {command[0]} is not installed") from None


def execute_pipe(first: Sequence[str], second: Sequence[str]) -> int:
    """The exit status of `first | second`: the first one that is not 0."""
    with subprocess.Popen(first, cwd=ROOT, stdout=subprocess.PIPE) as producer:
        consumer = subprocess.run(second, cwd=ROOT, stdin=producer.stdout)
        if producer.stdout is not None:
            producer.stdout.close()  # so that a dead consumer ends the producer
    return consumer.returncode or producer.returncode


def ask(command: Sequence[str]) -> str:
    """The output of a command.

    Raises:
        SystemExit: it failed; its own message stands above.
    """
    result = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    if result.returncode:
        raise SystemExit(result.returncode)
    return result.stdout.strip()
