"""ssh clients of the tests of the login, with and without a terminal."""

import fcntl
import os
import pty
import select
import signal
import socket
import struct
import subprocess
import termios
import time
from dataclasses import dataclass
from pathlib import Path

from engine_tools import command

SSH_OPTIONS = """
Host box
  IdentitiesOnly yes
  StrictHostKeyChecking no
  UserKnownHostsFile /dev/null
  LogLevel ERROR
  ConnectTimeout 20
"""


@dataclass
class Client:
    """One user's own machine: `box` is the server for ssh, scp, sftp, rsync and git."""

    user: str
    directory: Path
    address: str
    port: int = 22

    def prepare(self):
        """Make a key and a configuration of ssh; returns the public key."""
        self.directory.mkdir()
        key = self.directory / "key"
        command("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key)
        self.point_at(self.address)
        return (self.directory / "key.pub").read_text()

    def point_at(self, address):
        """Use the server at another address."""
        lines = [f"HostName {address}", f"Port {self.port}", f"User {self.user}",
                 f"IdentityFile {self.directory}/key"]  # fmt: skip
        self.configuration.write_text(SSH_OPTIONS + "".join(f"  {line}\n" for line in lines))

    @property
    def configuration(self):
        return self.directory / "config"

    def ssh(self, *arguments, check=True, **options):
        """`ssh box ARGUMENTS...`; options of ssh come in `flags`."""
        flags = options.pop("flags", ())
        return command("ssh", "-F", self.configuration, *flags, "box", *arguments, check=check,
                       **options)  # fmt: skip

    def bytes_through(self, remote, data):
        """What a remote command makes of `data`, byte for byte."""
        done = subprocess.run(
            ["ssh", "-F", str(self.configuration), "box", remote],
            input=data, capture_output=True, timeout=120,
        )  # fmt: skip
        assert done.stderr == b""
        return done.stdout

    def start(self, *arguments, flags=()):
        """The same in the background."""
        line = ["ssh", "-F", str(self.configuration), *map(str, flags), "box", *arguments]
        return subprocess.Popen(line, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)

    def terminal(self, *arguments, rows=33, columns=101, flags=()):
        """The same on a terminal of its own."""
        line = ["ssh", "-F", str(self.configuration), "-tt", *flags, "box", *arguments]
        return Terminal(line, rows, columns)


def matching(server, pattern):
    """Pids of the server, containers included, whose command line matches."""
    return server.run("pgrep", "-f", "--", pattern, check=False).stdout.split()


def free_port():
    """A port of this machine on which nothing listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Terminal:
    """A program on a pseudo-terminal."""

    def __init__(self, line, rows, columns):
        self.pid, self.descriptor = pty.fork()
        if self.pid == 0:
            time.sleep(0.3)  # until its size is set
            os.execvp(line[0], line)
        self.resize(rows, columns)
        self.shown = ""
        self.typed = 0  # how much was shown when something was typed last
        self.status = None

    def resize(self, rows, columns):
        size = struct.pack("HHHH", rows, columns, 0, 0)
        fcntl.ioctl(self.descriptor, termios.TIOCSWINSZ, size)

    def type(self, text):
        """Type to a program that reads; between two programs a terminal may lose it."""
        self.typed = len(self.shown)
        os.write(self.descriptor, text.encode())

    def wait_for(self, text, seconds=30):
        """Read until `text` was shown since something was typed."""
        end = time.monotonic() + seconds
        while text not in self.shown[self.typed :]:
            assert time.monotonic() < end, f"waited in vain for {text!r}: {self.shown!r}"
            if not self._read(0.2):
                break
        assert text in self.shown[self.typed :], self.shown

    def _read(self, seconds):
        if not select.select([self.descriptor], [], [], seconds)[0]:
            return True
        try:
            data = os.read(self.descriptor, 65536)
        except OSError:  # the program has closed it
            return False
        self.shown += data.decode(errors="replace")
        return bool(data)

    def end(self, seconds=30):
        """Wait for the program; returns its exit status."""
        end = time.monotonic() + seconds
        while self._read(0.2):
            assert time.monotonic() < end, self.shown
        self.status = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        os.close(self.descriptor)
        return self.status

    def kill(self):
        """What a client does that crashes."""
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        os.close(self.descriptor)
