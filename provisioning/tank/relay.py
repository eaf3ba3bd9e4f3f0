"""Bring the forwarded ssh agent of a session into the container, in a directory of its own.

sshd makes the agent's socket somewhere in the machine's /tmp, which no container sees. A process of
the user's listens where the container looks, and copies bytes between the two.
"""

import contextlib
import os
import shutil
import signal
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from tank import store
from tank.containers import MOUNTED
from tank.store import User

CHUNK = 65536


@contextlib.contextmanager
def agent(name: str, user: User, session: str, source: str | None) -> Iterator[str | None]:
    """Run the relay; yields the socket's path in the container, or None without an agent."""
    if not source or not Path(source).is_socket():
        yield None
        return
    directory = store.RUN / name / "sessions" / session
    child = os.fork()
    if child == 0:
        _run_as(user, directory, source)
    try:
        _wait_for(directory / "agent.sock")
        yield f"{MOUNTED}/sessions/{session}/agent.sock"
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        # The user owns what is above it, so a link may be where the directory was: never followed.
        shutil.rmtree(directory, ignore_errors=True)


def _wait_for(path: Path) -> None:
    """A second at most: a session without its agent is better than none."""
    for _ in range(100):
        if path.exists():
            return
        time.sleep(0.01)


def _run_as(user: User, directory: Path, source: str) -> None:
    """Become the user first: directory and connections are the user's own doing."""
    try:
        os.setgroups([])
        os.setgid(user.gid)
        os.setuid(user.uid)
        for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_DFL)
        null = os.open(os.devnull, os.O_RDWR)
        for descriptor in (0, 1, 2):
            os.dup2(null, descriptor)
        directory.mkdir(mode=0o700)
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(directory / "agent.sock"))
            listener.listen()
            serve(listener, source)
    finally:
        os._exit(1)


def serve(listener: socket.socket, source: str) -> None:
    """Connect everybody who comes to `source`, until the process ends."""
    while True:
        client, _ = listener.accept()
        server = socket.socket(socket.AF_UNIX)
        try:
            server.connect(source)
        except OSError:
            client.close()
            continue
        for pair in ((client, server), (server, client)):
            threading.Thread(target=_copy, args=pair, daemon=True).start()


def _copy(reader: socket.socket, writer: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := reader.recv(CHUNK):
            writer.sendall(data)
        writer.shutdown(socket.SHUT_WR)
