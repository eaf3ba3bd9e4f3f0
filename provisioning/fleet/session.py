"""The work of one machine, and of all of them side by side."""

from __future__ import annotations

import os
import shlex
import subprocess
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from fleet import ssh
from fleet.config import Machine
from fleet.ssh import MachineError

RESUMING = ("--partial", "--append-verify", "--info=progress2")
PROGRESS_SECONDS = 5

_printing = threading.Lock()


@dataclass(frozen=True)
class Outcome:
    """A row of the final table: `cells` for the columns, `failure` empty where all went well."""

    machine: str
    cells: tuple[str, ...] = ()
    failure: str = ""


class Session:
    """A machine while a task works on it: prints each command, keeps the time limit.

    Commands run as root, through sudo without a password where the account is another one.
    """

    def __init__(self, machine: Machine, minutes: float, dry_run: bool = False) -> None:
        self.machine = machine
        self.dry_run = dry_run
        self.connection = ssh.connect(machine)
        self._minutes = minutes
        self._end = time.monotonic() + 60 * minutes

    def say(self, line: str) -> None:
        """Print a line under the machine's name."""
        with _printing:
            print(f"{self.machine.name}: {line}", flush=True)

    def ask(self, *command: str, ok: Sequence[int] = (0,), shown: str = "") -> str:
        """The output of a command that changes nothing; runs in dry runs too.

        `shown` is what is printed instead of a command that is a whole script.

        Raises:
            MachineError: its exit status is none of `ok`.
        """
        text = self._as_root(shlex.join(command))
        self.say(f"$ {shown or text}")
        done = self.connection.run(text, self._remaining(), None)
        if done.status not in ok:
            raise MachineError(_why(shown or command[0], done))
        return done.output

    def do(self, command: str, ok: Sequence[int] = (0,)) -> int:
        """Run a line of shell as root, show its output and return its exit status.

        Raises:
            MachineError: its exit status is none of `ok`.
        """
        return self._show(command, self._as_root(command), ok)

    def do_as_login(self, command: str) -> int:
        """The same without root."""
        return self._show(command, command, (0,))

    def _show(self, command: str, text: str, ok: Sequence[int]) -> int:
        self.say(f"$ {text}")
        if self.dry_run:
            return 0
        done = self.connection.run(text, self._remaining(), self.say)
        if done.status not in ok:
            raise MachineError(_why(command, done))
        return done.status

    def put(self, content: bytes) -> str:
        """Write a file that only the login account can read, and return its path."""
        if self.dry_run:
            return "/tmp/tank-fleet"
        path = self.connection.run("mktemp /tmp/tank-fleet-XXXXXX", self._remaining(), None)
        if path.status:
            raise MachineError(_why("mktemp", path))
        self.connection.put(content, path.output.strip(), self._remaining())
        return path.output.strip()

    def send(self, archive: Path, directory: str) -> None:
        """Copy an archive and its manifest into a directory of root's.

        A copy that was interrupted goes on; not that of the manifest, as an old one may be longer.

        Raises:
            MachineError: rsync failed.
        """
        there = "rsync" if self.connection.user == "root" else "sudo -n rsync"
        # The name as fleet.toml has it: ssh finds port, key and jump host of an alias itself.
        shell = shlex.split(os.environ.get("PUFFER_SSH", "ssh"))
        if self.machine.port is not None:
            shell += ["-p", str(self.machine.port)]
        way = ["--rsync-path", there, "-e", shlex.join(shell)]
        target = f"{self.connection.user}@{self.machine.host}:{directory}/"
        manifest = archive.with_name(archive.name + ".json")
        self.local("rsync", *RESUMING, "--times", *way, str(archive), target)
        self.local("rsync", "--times", *way, str(manifest), target)

    def local(self, *command: str) -> None:
        """Run a command on this machine, with a line of its progress now and then.

        Raises:
            MachineError: it failed, or took too long.
        """
        self.say(f"$ {shlex.join(command)}")
        if self.dry_run:
            return
        try:
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT, text=True, errors="replace",
            )  # fmt: skip
        except FileNotFoundError:
            raise MachineError(f"{command[0]} is not installed here") from None
        limit = threading.Timer(self._remaining(), process.kill)
        limit.start()
        with process:
            first = self._progress(process.stdout or ())
        limit.cancel()
        if process.returncode:
            self._remaining()
            raise MachineError(f"{command[0]}: exit status {process.returncode}, {first}")

    def _progress(self, lines: Iterable[str]) -> str:
        """Print a line of progress every few seconds and all others; returns the first of those."""
        first = ""
        said = time.monotonic()
        for line in filter(None, map(str.strip, lines)):
            if "%" not in line:
                first = first or line
                self.say(line)
            elif time.monotonic() - said > PROGRESS_SECONDS:
                said = time.monotonic()
                self.say(line)
        return first

    def _as_root(self, command: str) -> str:
        if self.connection.user == "root":
            return command
        return f"sudo -n bash -c {shlex.quote(command)}"

    def _remaining(self) -> float:
        remaining = self._end - time.monotonic()
        if remaining <= 0:
            raise MachineError(self._limit())
        return remaining

    def _limit(self) -> str:
        return f"no end after {self._minutes:g} minutes; --minutes allows more"


Job = Callable[[Session], Outcome]


def everywhere(
    machines: Sequence[Machine], job: Job, minutes: float, dry_run: bool = False
) -> list[Outcome]:
    """What the job says of each machine; all at once, a thread each.

    A machine that fails, for whatever reason, is an outcome like the others.
    """
    outcomes: dict[str, Outcome] = {}

    def work(machine: Machine) -> None:
        outcomes[machine.name] = _attempt(machine, job, minutes, dry_run)

    # Daemons, so that Ctrl-C does not wait for machines that do not answer.
    threads = [threading.Thread(target=work, args=(each,), daemon=True) for each in machines]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return [outcomes[machine.name] for machine in machines]


def _attempt(machine: Machine, job: Job, minutes: float, dry_run: bool) -> Outcome:
    session = None
    try:
        session = Session(machine, minutes, dry_run)
        return job(session)
    except (MachineError, SystemExit) as error:
        return Outcome(machine.name, failure=str(error))
    except Exception as error:
        return Outcome(machine.name, failure=f"{type(error).__name__}: {error}")
    finally:
        if session is not None:
            session.connection.close()


def _why(command: str, done: ssh.Done) -> str:
    lines = (done.errors.strip() or done.output.strip()).splitlines()
    return f"{command}: exit status {done.status}" + (f", {lines[-1]}" if lines else "")
