"""One machine over ssh. Importing this needs nothing installed; connecting needs fabric."""

from __future__ import annotations

import importlib
import io
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from fleet.config import Machine

CONNECT_SECONDS = 15


class MachineError(Exception):
    """Why a machine does not get further."""


@dataclass(frozen=True)
class Done:
    """A command that ended."""

    status: int
    output: str
    errors: str = ""


class Connection:
    """A connection that is made with the first command and kept.

    Host names, users, ports, keys and jump hosts are those of ~/.ssh/config and the agent. A
    machine whose key is not in known_hosts is refused: what is sent there runs as root.
    """

    def __init__(self, machine: Machine) -> None:
        fabric, self._paramiko = _load("fabric"), _load("paramiko")
        self._fabric = fabric.Connection(
            machine.host, machine.user, machine.port, connect_timeout=CONNECT_SECONDS
        )
        self._fabric.client.load_system_host_keys()
        self._fabric.client.set_missing_host_key_policy(self._paramiko.RejectPolicy())

    @property
    def user(self) -> str:
        """The account on the machine."""
        return str(self._fabric.user)

    def run(self, command: str, seconds: float, show: Callable[[str], None] | None) -> Done:
        """Run a command; `show` gets every line of its output as it comes.

        Raises:
            MachineError: the machine cannot be reached, or the command takes longer.
        """
        streams = [Lines(show or (lambda line: None)) for _ in range(2)]

        def execute() -> Any:
            start = time.monotonic()
            result = self._fabric.run(
                command, warn=True, in_stream=False, timeout=seconds, encoding="utf-8",
                out_stream=streams[0], err_stream=streams[1],
            )  # fmt: skip
            # Its timer closes the channel; who looks before the timer is done sees a usual end.
            if result.exited == -1 and time.monotonic() - start >= seconds:
                raise TimeoutError
            return result

        result = self._try(execute, seconds)
        for stream in streams:
            stream.end()
        return Done(result.exited, result.stdout, result.stderr)

    def put(self, content: bytes, path: str, seconds: float) -> None:
        """Write a file on the machine.

        Raises:
            MachineError: the machine cannot be reached, or refuses the file.
        """

        def write() -> None:
            sftp = self._fabric.sftp()
            sftp.get_channel().settimeout(seconds)
            sftp.putfo(io.BytesIO(content), path)

        self._try(write, seconds)

    def close(self) -> None:
        """End the connection."""
        self._fabric.close()

    def _try(self, action: Callable[[], Any], seconds: float) -> Any:
        timed_out = _load("invoke").exceptions.CommandTimedOut
        try:
            self._fabric.open()
        except (OSError, EOFError, self._paramiko.SSHException) as error:
            text = _text(error)
            if "not found in known_hosts" in text:
                text += f"; look at its key once: ssh -p {self._fabric.port} {self._fabric.host}"
            raise MachineError(f"cannot be reached: {text}") from error
        try:
            return action()
        except (timed_out, TimeoutError) as error:
            raise MachineError(f"no end after {seconds:.0f} s; --minutes allows more") from error
        except (OSError, EOFError, self._paramiko.SSHException) as error:
            raise MachineError(f"lost: {_text(error)}") from error


class Lines(io.TextIOBase):
    """A stream that hands on whole lines."""

    def __init__(self, show: Callable[[str], None]) -> None:
        self._show = show
        self._rest = ""

    def write(self, text: str) -> int:
        """Take some text."""
        *lines, self._rest = (self._rest + text).split("\n")
        for line in lines:
            self._show(line.rstrip("\r"))
        return len(text)

    def end(self) -> None:
        """Hand on a last line that has no end."""
        if self._rest:
            self.write("\n")


def connect(machine: Machine) -> Connection:
    """A connection to the machine, not yet made."""
    return Connection(machine)


def _text(error: BaseException) -> str:
    return " ".join(str(error).split()) or type(error).__name__


def _load(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError:
        raise SystemExit(
            f"error: {name} is not installed; install the extra dev: provisioning/venv.sh dev"
        ) from None
