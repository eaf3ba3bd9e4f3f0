"""End what a session runs in a container when its client is gone, as a terminal that hangs up.

`docker exec` leaves its process running when the client goes away. The kernel's rule for a closed
terminal is applied by hand: SIGHUP to every process of the session. What has made a session of its
own (tmux, setsid) or ignores SIGHUP (nohup) lives on.
"""

import contextlib
import os
import signal
from pathlib import Path

VARIABLE = "TANK_SESSION"
PROC = Path("/proc")


def processes(session: str, uid: int, sid: int | None = None) -> list[int]:
    """Pids, as this machine sees them, of the session's marked processes that share a session id.

    The first of them is its leader's pid. Only processes of `uid` count, whatever they claim in
    their environment. Without `sid`, the session id is that of the oldest leader; give it when the
    leader may have ended, since what it detached carries the mark too.
    """
    mark = f"{VARIABLE}={session}".encode()
    marked = []
    for directory in PROC.iterdir():
        if directory.name.isdigit() and _is_marked(directory, mark, uid):
            with contextlib.suppress(OSError):
                marked.append((int(directory.name), *_stat(directory)))
    if sid is None:
        leaders = [(started, pid) for pid, own, started in marked if pid == own]
        sid = min(leaders)[1] if leaders else None
    return sorted((pid for pid, own, _ in marked if own == sid), key=lambda pid: pid != sid)


def _is_marked(directory: Path, mark: bytes, uid: int) -> bool:
    try:
        if directory.stat().st_uid != uid:
            return False
        return mark in (directory / "environ").read_bytes().split(b"\0")
    except OSError:  # it has ended
        return False


def _stat(directory: Path) -> tuple[int, int]:
    """Session id and start time. The name before them may hold anything, parentheses included."""
    fields = (directory / "stat").read_bytes().rpartition(b")")[2].split()
    return int(fields[3]), int(fields[19])


def hang_up(session: str, uid: int, sid: int | None = None) -> int | None:
    """SIGHUP and, for what is stopped, SIGCONT; returns the session id for another call."""
    found = processes(session, uid, sid)
    for pid in found:
        for number in (signal.SIGHUP, signal.SIGCONT):
            _send(pid, session, uid, number)
    return found[0] if sid is None and found else sid


def _send(pid: int, session: str, uid: int, number: int) -> None:
    """Signal the process, and never another one that got its pid since."""
    with contextlib.suppress(ProcessLookupError):
        handle = os.pidfd_open(pid)
        try:
            if _is_marked(PROC / str(pid), f"{VARIABLE}={session}".encode(), uid):
                signal.pidfd_send_signal(handle, number)
        finally:
            os.close(handle)
