"""`puffer doctor`: does everything here fit together, and do two machines run the same?"""

from __future__ import annotations

import dataclasses
import json
import re
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from pufferlib import lock
from pufferlib.commands import machine as machines
from pufferlib.commands.arguments import parse_arguments
from pufferlib.commands.checks import Line, run_checks
from pufferlib.exceptions import ConfigError
from pufferlib.trainer.options import flatten

MOST_FAILURES = 100
"""Cap of the exit status: shells use those above 125 for other things."""

ONLINE = ("torch", "numpy", "gymnasium", "pettingzoo")
"""Packages whose newest version `--online` asks for."""

STYLES = {"ok": "green", "warning": "yellow", "failed": "red"}


@dataclass(frozen=True)
class DoctorArguments:
    """Check Python, torch, GPU, container and installation; say what to do about each failure.

    The exit status is the number of failed lines (100 at most); warnings do not count.
    """

    json: bool = False
    """Print one JSON object: the lines, and the stack for --compare."""
    online: bool = False
    """Also ask the package index for the newest versions; nothing else uses the network."""
    compare: tuple[Path, Path] | None = None
    """Two files made with --json, on two machines: list the differences of their stacks.
    Exit status 0 if there are none, else 1."""


def doctor(arguments: Sequence[str]) -> int:
    """The command `puffer doctor`; returns the number of failed lines.

    Raises:
        ConfigError: a file of `--compare` cannot be read or was not made by `puffer doctor --json`.
    """
    options = parse_arguments(DoctorArguments, arguments, "puffer doctor")
    if options.compare is not None:
        return compare(*options.compare)
    machine = machines.inspect()
    lines = run_checks(machine)
    if options.online:
        lines += newest_versions()
    if options.json:
        print(json.dumps(report(machine, lines), indent=2))
    else:
        Console().print(table(lines))
        print(summary(lines))
    return min(_count(lines, "failed"), MOST_FAILURES)


def report(machine: machines.Machine, lines: Sequence[Line]) -> dict[str, Any]:
    """What `--json` prints: lines, the stack that `--compare` compares, and all facts."""
    return {
        "failed": _count(lines, "failed"),
        "warnings": _count(lines, "warning"),
        "lines": [dataclasses.asdict(line) for line in lines],
        "stack": machines.describe_stack(machine),
        "machine": dataclasses.asdict(machine),
    }


def table(lines: Sequence[Line]) -> Table:
    """The lines as a table, remedies below what they are for."""
    made = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="cyan")
    for column in ("Part", "", "Found"):
        made.add_column(column, overflow="fold")
    for line in lines:
        found = Text(line.found)
        if line.remedy:
            found.append(f"\n→ {line.remedy}", style=STYLES[line.status])
        made.add_row(line.name, Text(line.status, style=STYLES[line.status]), found)
    return made


def summary(lines: Sequence[Line]) -> str:
    """The last line."""
    failed, warnings = _count(lines, "failed"), _count(lines, "warning")
    if not failed and not warnings:
        return "Everything fits."
    return f"{failed} failed, {warnings} with a warning."


def newest_versions() -> list[Line]:
    """Ask the index that pip is configured for about the newest versions; never installs any."""
    root = lock.find_root()
    locked = {} if root is None else lock.pins((root / lock.LOCK).read_text())
    return [_newest(name, locked.get(name, "nothing")) for name in ONLINE]


def compare(first: Path, second: Path) -> int:
    """Print how the stacks of two reports differ; 0 if they are identical, else 1."""
    left, right = _read(first), _read(second)
    stacks = dict(flatten(left["stack"], ": ")), dict(flatten(right["stack"], ": "))
    differences = _differences(*stacks)
    if differences:
        print(f"Not the same stack; values that differ: {len(differences)}")
        Console().print(_difference_table(differences, str(first), str(second)))
    else:
        print(
            f"Identical stacks: lock {left['stack']['lock']}, torch {left['stack']['torch']}, "
            f"{len(left['stack']['packages'])} packages, {len(stacks[0])} values compared."
        )
    hardware = _differences(_hardware(left), _hardware(right))
    if hardware:
        print("The machines themselves differ in:")
        Console().print(_difference_table(hardware, str(first), str(second)))
    return int(bool(differences))


def _newest(name: str, pin: str) -> Line:
    command = [sys.executable, "-m", "pip", "index", "versions", name]
    found = re.search(rf"^{name} \(([^)]+)\)", _pip_output(command), re.MULTILINE)
    label = f"newest {name}"
    if found is None:
        remedy = f"is the network there? Try: {' '.join(command)}"
        return Line(label, "warning", "the package index did not answer", remedy)
    return Line(label, "ok", f"{found[1]} (the lock has {pin})")


def _pip_output(command: list[str]) -> str:
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=60).stdout
    except subprocess.TimeoutExpired:
        return ""


def _read(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text())
    except OSError as error:
        raise ConfigError(f"--compare {path}: {error.strerror}") from error
    except ValueError as error:
        raise ConfigError(f"--compare {path}: expected JSON, got: {error}") from error
    if not isinstance(content, dict) or not {"stack", "machine"} <= content.keys():
        raise ConfigError(f"--compare {path}: expected the output of puffer doctor --json")
    return content


def _hardware(content: dict[str, Any]) -> dict[str, Any]:
    names = ("gpus", "cores", "quota", "memory_bytes", "shm_bytes", "nofile", "in_container")
    return {name: content["machine"].get(name) for name in names}


def _differences(left: dict[str, Any], right: dict[str, Any]) -> dict[str, tuple[Any, Any]]:
    return {
        name: (left.get(name), right.get(name))
        for name in dict.fromkeys([*left, *right])
        if left.get(name) != right.get(name)
    }


def _difference_table(differences: dict[str, tuple[Any, Any]], first: str, second: str) -> Table:
    made = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="cyan")
    for column in ("", first, second):
        made.add_column(column, overflow="fold")
    for name, values in differences.items():
        made.add_row(name, *("–" if value is None else Text(str(value)) for value in values))
    return made


def _count(lines: Sequence[Line], status: str) -> int:
    return sum(line.status == status for line in lines)
