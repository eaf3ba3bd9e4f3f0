"""What a machine is, and how machines that should be alike differ."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fleet.session import Session
from fleet.ssh import MachineError

SCRIPT = Path(__file__).with_name("facts.sh")


@dataclass(frozen=True)
class Facts:
    """What facts.sh says; - is what a machine does not have."""

    state: str = "-"
    lock: str = "-"
    image: str = "-"
    driver: str = "-"
    load: str = "-"
    gpus: int = 0
    tank: Mapping[str, Any] = field(default_factory=dict)
    """Users and leases, as `tank user list --json` has them."""

    def cells(self) -> tuple[str, ...]:
        """A row for people."""
        leased = len(self.tank.get("leases", {}))
        gpus = f"{self.gpus}, {leased} leased" if self.gpus else "-"
        users = str(len(self.tank["users"])) if self.tank else "-"
        image = self.image.removeprefix("sha256:")[:12]
        return self.state, self.lock, image, self.driver, self.load, users, gpus


def ask(session: Session, checkout: str) -> Facts:
    """The facts of a machine.

    Raises:
        MachineError: it does not answer in the form of facts.sh.
    """
    output = session.ask("bash", "-c", SCRIPT.read_text(), "facts.sh", checkout, shown="facts.sh")
    found = dict(line.split("\t", 1) for line in output.splitlines() if "\t" in line)
    try:
        users = found.pop("users")
        tank = {} if users == "-" else json.loads(users)
        return Facts(gpus=int(found.pop("gpus")), tank=tank, **found)
    except (KeyError, TypeError, ValueError) as error:
        raise MachineError(f"no facts in its answer ({error}): {output[:80]!r}") from error


def differences(facts: Mapping[str, Facts]) -> dict[str, list[str]]:
    """How machines, by name, differ from what most have (of equals the first): a list for each.

    The lock must be one everywhere. Image and driver must be one among machines with GPUs and among
    those without, which have the other variant of the image and no driver.
    """
    found: dict[str, list[str]] = {name: [] for name in facts}
    with_gpus = [name for name in facts if facts[name].gpus]
    without = [name for name in facts if not facts[name].gpus]
    for what, names in (
        ("lock", list(facts)),
        *((what, kind) for what in ("image", "driver") for kind in (with_gpus, without)),
    ):
        values = {name: getattr(facts[name], what) for name in names}
        for name, text in _differing(what, values):
            found[name].append(text)
    return found


def _differing(what: str, values: Mapping[str, str]) -> list[tuple[str, str]]:
    if not values:
        return []
    usual, _ = Counter(values.values()).most_common(1)[0]
    example = next(name for name, value in values.items() if value == usual)
    return [
        (name, f"{what} differs: {name} has {value}, {example} has {usual}")
        for name, value in values.items()
        if value != usual
    ]
