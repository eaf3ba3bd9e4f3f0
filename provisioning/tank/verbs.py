"""`tank` typed inside a container: the image's own one sends verbs of the machine here.

systemd listens on one socket that every user's container has, and starts this for each connection.
The kernel says who is on the other side; the request says only what is wanted.
"""

import contextlib
import io
import os
import pwd
import socket
import struct
import sys

from tank import audit, cli
from tank.errors import USAGE, TankError
from tank.members import GROUP, is_member
from tank.store import USER_NAME

LONGEST = 4096
SECONDS = 10  # for a request to arrive


def caller(connection: socket.socket) -> str:
    """The user whose process has connected.

    Raises:
        TankError: nobody whose login is a container.
    """
    size = struct.calcsize("3i")
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size)
    uid = struct.unpack("3i", credentials)[1]
    try:
        name = pwd.getpwuid(uid).pw_name
    except KeyError:
        raise TankError(f"expected a user of this machine, got uid {uid}") from None
    if not USER_NAME.fullmatch(name) or not is_member(name):
        raise TankError(f"expected a member of the group {GROUP}, got {name!r}")
    return name


def read_words(connection: socket.socket) -> list[str]:
    """The request: words, each ended by a NUL, until the other side stops sending.

    Raises:
        TankError: it is too long, cut, or no text.
    """
    connection.settimeout(SECONDS)
    request = b""
    while data := connection.recv(LONGEST):
        request += data
        if len(request) > LONGEST:
            raise TankError(f"expected at most {LONGEST} bytes", status=USAGE)
    if not request.endswith(b"\0"):
        raise TankError("expected words, each ended by a NUL", status=USAGE)
    try:
        return request[:-1].decode().split("\0")
    except UnicodeDecodeError:
        raise TankError("expected UTF-8", status=USAGE) from None


def answer(connection: socket.socket) -> tuple[int, str]:
    """Run one request; returns its exit status and what it printed."""
    printed = io.StringIO()
    try:
        user = caller(connection)
        words = read_words(connection)
        audit.record("verb", user=user, words=words)
        arguments = cli.parse(words, user)
        if arguments.verb == "enter":
            raise TankError("'tank enter' works over ssh: ssh -t BOX tank enter NAME", status=USAGE)
        with contextlib.redirect_stdout(printed):
            return cli.run(arguments), printed.getvalue()
    except TankError as error:
        return error.status, f"{printed.getvalue()}{error}\n"
    except SystemExit:  # --help
        return 0, printed.getvalue()
    except OSError as error:
        return 1, f"tank: {error}\n"


def main() -> int:
    """Serve the connection that systemd hands over as standard input."""
    with socket.socket(fileno=os.dup(sys.stdin.fileno())) as connection:
        status, text = answer(connection)
        with contextlib.suppress(OSError):
            connection.sendall(f"{status}\n{text}".encode())
    return 0
