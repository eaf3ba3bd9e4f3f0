"""The tasks `fleet.…`: each does its work on all chosen machines, then prints one table."""

from __future__ import annotations

import io
import json
import shlex
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from fleet import config, facts, plan, report
from fleet.config import Fleet, Machine
from fleet.facts import Facts
from fleet.session import Job, Outcome, Session, everywhere
from fleet.ssh import MachineError

ROOT = Path(__file__).resolve().parents[2]

# What a machine needs of this repository: the steps, the lock and its hash, and loading of images.
CARRIED = (
    "provisioning",
    "docker/puffertank",
    "pufferlib/lock.py",
    "constraints.txt",
    "constraints",
    "pyproject.toml",
)
# Who is assigned to which machine is not told to the machines.
KEPT_HERE = ("__pycache__", "fleet", "fleet.toml", "keys")

STATUS = ("STATE", "LOCK", "IMAGE", "DRIVER", "LOAD", "USERS", "GPUS")
REBOOT = 3


@dataclass(frozen=True)
class Selection:
    """The fleet, which of its machines, and the time limit of each."""

    fleet: Fleet
    machines: tuple[Machine, ...]
    minutes: float
    dry_run: bool = False

    def each(self, job: Job) -> list[Outcome]:
        """Do the job on all of them."""
        return everywhere(self.machines, job, self.minutes, self.dry_run)


def select(file: str, on: str = "", minutes: float = 0, dry_run: bool = False) -> Selection:
    """The machines that a command line names.

    Raises:
        SystemExit: fleet.toml is wrong, or has no such machine.
    """
    fleet = config.load(Path(file).expanduser())
    return Selection(fleet, fleet.choose(on), minutes or fleet.minutes, dry_run)


def status(chosen: Selection) -> None:
    """One row for each machine; fails for those that do not answer."""

    def job(session: Session) -> Outcome:
        found = facts.ask(session, chosen.fleet.checkout)
        return Outcome(session.machine.name, found.cells())

    report.finish(chosen.each(job), STATUS)


def verify(chosen: Selection) -> None:
    """verify.sh everywhere; fails also for machines that differ from the others."""
    found: dict[str, Facts] = {}

    def job(session: Session) -> Outcome:
        name = session.machine.name
        here = facts.ask(session, chosen.fleet.checkout)
        script = f"{chosen.fleet.checkout}/provisioning/verify.sh"
        answer = _checks(session.ask(script, "--json", ok=range(101)))
        found[name] = here  # a machine that cannot be verified is no measure for others
        failed = [f"{c['step']}: {c['name']}" for c in answer["checks"] if c["result"] == "FAILED"]
        count = f"{len(answer['checks'])} checks, {len(failed)} failed"
        return Outcome(name, (count, *here.cells()[1:4]), "; ".join(failed))

    outcomes = chosen.each(job)
    in_order = {each.name: found[each.name] for each in chosen.machines if each.name in found}
    differing = facts.differences(in_order)
    outcomes = [
        replace(o, failure="; ".join(filter(None, [o.failure, *differing.get(o.machine, [])])))
        for o in outcomes
    ]
    report.finish(outcomes, ("CHECKS", "LOCK", "IMAGE", "DRIVER"))


def _checks(output: str) -> dict:
    try:
        answer = json.loads(output)
        answer["checks"]
    except (KeyError, TypeError, ValueError):
        raise MachineError(f"verify.sh has no answer: {output.strip()[:80]!r}") from None
    return answer


def provision(chosen: Selection) -> None:
    """Copy what machines need of this checkout, and run provision.sh."""
    archive = pack(ROOT)
    checkout = shlex.quote(chosen.fleet.checkout)

    def job(session: Session) -> Outcome:
        packed = session.put(archive)
        session.do(
            f"mkdir -p {checkout} && tar --extract --gzip --recursive-unlink --no-same-owner "
            f"--directory {checkout} --file {packed}; status=$?; rm -f {packed}; exit $status"
        )
        status = session.do(f"{checkout}/provisioning/provision.sh", ok=(0, REBOOT))
        if status == REBOOT:
            name = session.machine.name
            return Outcome(
                name, ("reboot needed",), f"reboot it, then: invoke fleet.provision --on {name}"
            )
        return Outcome(session.machine.name, ("dry run" if session.dry_run else "provisioned",))

    report.finish(chosen.each(job), ("STATE",))


def pack(root: Path) -> bytes:
    """What machines need of the checkout in `root`, as a compressed tar of root's files."""

    def kept(info: tarfile.TarInfo) -> tarfile.TarInfo | None:
        path = Path(info.name)
        if "__pycache__" in path.parts:
            return None
        if path.parts[0] == "provisioning" and path.parts[1:2] and path.parts[1] in KEPT_HERE:
            return None
        info.uid = info.gid = 0
        info.uname = info.gname = "root"
        return info

    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w:gz") as tar:
        for name in CARRIED:
            tar.add(root / name, arcname=name, filter=kept)
    return made.getvalue()


def apply(chosen: Selection, prune: bool = False) -> None:
    """Make every machine have the users that are assigned to it; a dry run prints the plan."""
    keys = read_keys(chosen.fleet, chosen.machines)

    def job(session: Session) -> Outcome:
        users = json.loads(session.ask("tank", "user", "list", "--json"))["users"]
        made = plan.make(chosen.fleet, session.machine.name, users, keys, prune)
        for name in made.unknown:
            session.say(f"{name} is not in the fleet file and stays; --prune removes such users")
        for command in made.commands:
            session.do(command)
        counts = (len(made.add), len(made.change), len(made.remove), len(made.unknown))
        return Outcome(session.machine.name, tuple(map(str, counts)))

    report.finish(chosen.each(job), ("ADDED", "CHANGED", "REMOVED", "UNKNOWN"))


def read_keys(fleet: Fleet, machines: Sequence[Machine]) -> Mapping[str, str]:
    """Public keys of everybody who is assigned to one of the machines and has a file of them.

    Raises:
        SystemExit: a file cannot be read, or holds a private key.
    """
    names = {machine.name for machine in machines}
    keys = {}
    for name, user in fleet.users.items():
        if user.key is None or not user.machines & names:
            continue
        try:
            keys[name] = user.key.read_text()
        except (OSError, UnicodeDecodeError) as error:
            raise SystemExit(f"error: users.{name}.key: cannot read {user.key}: {error}") from None
        if "PRIVATE KEY" in keys[name]:
            raise SystemExit(
                f"error: users.{name}.key: expected public keys, {user.key} is a private one; "
                "its public half is in the file with the ending .pub"
            )
    return keys


def load_image(chosen: Selection, archive: Path, lock: str) -> None:
    """Copy an archive of `invoke save` to every machine with that lock, and load it there."""
    checkout = chosen.fleet.checkout
    directory = f"{checkout}/dist/images"

    def job(session: Session) -> Outcome:
        there = session.ask("python3", f"{checkout}/pufferlib/lock.py").strip()
        if there != lock:
            raise MachineError(
                f"expected lock {lock} there, got {there}; first: "
                f"invoke fleet.provision --on {session.machine.name}"
            )
        session.do(f"mkdir -p {shlex.quote(directory)}")
        session.send(archive, directory)
        name = shlex.quote(f"dist/images/{archive.name}")
        session.do(
            f"cd {shlex.quote(checkout)} && "
            f"PYTHONPATH=docker python3 -m puffertank.transfer {name} && rm {name} {name}.json"
        )
        return Outcome(session.machine.name, (archive.name,))

    report.finish(chosen.each(job), ("LOADED",))


def run(chosen: Selection, command: str) -> None:
    """A command everywhere, as the account that logs in."""

    def job(session: Session) -> Outcome:
        session.do_as_login(command)
        return Outcome(session.machine.name)

    report.finish(chosen.each(job))
