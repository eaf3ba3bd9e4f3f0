"""Let a session of sshd join the network of the user's container; PAM runs it before the session.

sshd itself carries forwarded ports, so it must be where the servers are: on the container's
127.0.0.1. pam_usernet enters the network namespace named like the user; here that name is bound to
the container.
Whatever goes wrong, the session opens: in an empty network, so that it can say why.
"""

import os
import subprocess
from pathlib import Path

from tank import audit, containers, store
from tank.errors import TankError
from tank.members import is_member
from tank.store import USER_NAME

NAMESPACES = Path("/run/netns")


def attach(name: str) -> None:
    """Start the user's default container and bind its network to the user's name.

    Raises:
        TankError: the container cannot be started; then the name has an empty network.
    """
    state = store.load()
    try:
        container = containers.choose(state, name, None)
        pid = containers.ensure_running(name, container, state).pid
    except TankError:
        detach(name)
        raise
    if not _is_attached(name, pid):
        detach(name)
        _ip("attach", name, str(pid))


def _is_attached(name: str, pid: int) -> bool:
    """Whether the name is bound to the network of the process: the same file of the kernel's."""
    try:
        return (NAMESPACES / name).samefile(f"/proc/{pid}/ns/net")
    except OSError:
        return False


def detach(name: str) -> None:
    """Unbind the name; pam_usernet then makes an empty network for it."""
    if (NAMESPACES / name).exists():
        _ip("delete", name)


def _ip(*words: str) -> None:
    done = subprocess.run(
        ["ip", "netns", *words],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=10,
    )
    if done.returncode:
        raise TankError(f"ip netns {words[0]} failed: {done.stderr.strip()}")


def main() -> int:
    """Serve PAM: the user is in PAM_USER. Always 0, and silent."""
    name = os.environ.get("PAM_USER", "")
    if os.environ.get("PAM_TYPE") != "open_session" or not USER_NAME.fullmatch(name):
        return 0
    try:
        if is_member(name):
            attach(name)
    except (TankError, KeyError, subprocess.TimeoutExpired, OSError) as error:
        audit.record("network", user=name, error=str(error))
    return 0
