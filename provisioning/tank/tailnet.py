"""Whose device in the tailnet a session comes from: the credential of users without a key.

PAM asks this of everybody in the group tank-tailnet who logs in, and a timer asks again about the
sessions that are open, so that access ends with the device's place in the tailnet. Where nobody can
tell whose device it is, the answer is no.
"""

import contextlib
import ipaddress
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tank import audit, store
from tank.errors import TankError
from tank.store import KEY, TAILNET, State

GROUP = "tank-tailnet"
# The only addresses that devices in a tailnet have.
NETWORKS = (ipaddress.ip_network("100.64.0.0/10"), ipaddress.ip_network("fd7a:115c:a1e0::/48"))
SECONDS = 10
# An open session outlives a restart of tailscaled: that often is asked, with a pause in between.
TRIES, PAUSE = 3, 5
PROC = Path("/proc")

Address = ipaddress.IPv4Address | ipaddress.IPv6Address


class NoAnswerError(TankError):
    """tailscaled did not say whose device it is; it may do so later."""


@dataclass(frozen=True)
class Session:
    """A process of sshd that serves a user, and the address of the client."""

    pid: int
    uid: int
    remote: str


def owner(remote: str) -> str:
    """The login of the person whose device has the address.

    Raises:
        TankError: it is no device of a person.
        NoAnswerError: tailscaled does not tell.
    """
    address = _address(remote)
    found = _whois(address)
    try:
        node, login = found["Node"], found["UserProfile"]["LoginName"]
        addresses = {ipaddress.ip_interface(each).ip for each in node["Addresses"]}
        tags, expired = node.get("Tags"), node.get("Expired", False)
    except (KeyError, TypeError, ValueError, AttributeError):
        raise TankError(f"expected the device of {address}, got {str(found)[:80]}") from None
    if tags:
        raise TankError(f"expected a device of a person, got one with the tags {' '.join(tags)}")
    if address not in addresses or expired:
        raise TankError(f"expected a device that is {address} now, got an expired or another one")
    return login


def _address(remote: str) -> Address:
    try:
        address = ipaddress.ip_address(remote)
    except ValueError:  # sshd gives names where it is told UseDNS
        raise TankError(f"expected an address, got {remote!r}") from None
    address = getattr(address, "ipv4_mapped", None) or address
    if not any(address in network for network in NETWORKS):
        raise TankError(f"expected a device in the tailnet, got {address}")
    return address


def _whois(address: Address) -> dict:
    try:
        done = subprocess.run(
            ["tailscale", "whois", "--json", str(address)],
            stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=SECONDS,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NoAnswerError(f"tailscale does not answer: {error}") from None
    if "peer not found" in done.stderr:
        raise TankError(f"expected a device in the tailnet, got {address}, which is none now")
    if done.returncode:
        raise NoAnswerError(f"tailscale does not answer: {done.stderr.strip()}")
    try:
        return json.loads(done.stdout)
    except ValueError:
        raise NoAnswerError(f"tailscale answered {done.stdout[:80]!r}") from None


def prove(state: State, name: str, remote: str) -> None:
    """Return if the user's session comes from one of the user's own devices.

    Raises:
        TankError: it does not, or nobody can tell.
    """
    user = state.user(name)
    if user.credential == KEY:
        raise TankError(
            f"expected a user without a key, got {name}, whom a half-done change left in {GROUP}"
        )
    if user.tailscale is None:
        raise TankError(f"{name} has no identity in the tailnet any more")
    login = owner(remote)
    if login != user.tailscale:
        raise TankError(f"expected a device of {user.tailscale}, got one of {login}")


def answer(kind: str, name: str, remote: str) -> int:
    """Serve PAM: 0 lets the user in. `kind` is auth for the login without a key, else account."""
    try:
        state = store.load()
        if kind == "auth" and state.user(name).credential != TAILNET:
            return 1
        prove(state, name, remote)
    except TankError as error:
        audit.record("tailnet", user=name, remote=remote, refused=str(error.args[0]))
        if kind == "account":
            print("tank: this is not one of your own devices in the tailnet, or it cannot be told.")
            print(f"  Look at 'tailscale status', or ask {store.load_configuration().contact}.")
        return 1
    if kind == "account":
        audit.record("tailnet", user=name, remote=remote, owner=state.user(name).tailscale)
    return 0


def end_sessions(only: str | None = None) -> None:
    """End the open sessions of one user, or of all, that no device of the user's vouches for."""
    state = store.load()
    names = {
        user.uid: name
        for name, user in state.users.items()
        if user.credential != KEY and only in (None, name)
    }
    if not names:
        return
    for session in _sessions():
        why = _refusal(state, names[session.uid], session.remote) if session.uid in names else None
        if why is not None and _end(session):
            audit.record(
                "tailnet", user=names[session.uid], remote=session.remote, ended=str(why.args[0])
            )


def _refusal(state: State, name: str, remote: str) -> TankError | None:
    for tries_left in reversed(range(TRIES)):
        try:
            prove(state, name, remote)
        except NoAnswerError as error:
            if not tries_left:
                return error
            time.sleep(PAUSE)
        except TankError as error:
            return error
        else:
            return None
    return None


def _sessions() -> Iterator[Session]:
    """Processes of sshd with a connection to a client, by the kernel's word."""
    done = subprocess.run(
        ["ss", "--no-header", "--tcp", "--numeric", "--processes"],
        stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True, timeout=SECONDS,
    )  # fmt: skip
    for line in done.stdout.splitlines():
        fields = line.split(maxsplit=5)
        if len(fields) == 6:
            remote = fields[4].rpartition(":")[0].strip("[]")
            for pid in re.findall(r'\("sshd",pid=(\d+),', fields[5]):
                uid = _uid(int(pid))
                if uid:  # the other one is sshd's half with root's rights, which ends with this one
                    yield Session(int(pid), uid, remote)


def _uid(pid: int) -> int | None:
    """The real user of a process; None if it has ended."""
    with contextlib.suppress(OSError):
        found = re.search(r"^Uid:\t(\d+)", (PROC / str(pid) / "status").read_text(), re.MULTILINE)
        return int(found[1]) if found else None
    return None


def _end(session: Session) -> bool:
    """Kill it, and never another process that got its pid since."""
    with contextlib.suppress(ProcessLookupError):
        handle = os.pidfd_open(session.pid)
        try:
            if _uid(session.pid) == session.uid:
                signal.pidfd_send_signal(handle, signal.SIGKILL)
                return True
        finally:
            os.close(handle)
    return False


def main() -> int:
    """Serve PAM, which says in the environment who comes from where; or the timer."""
    if sys.argv[1:] == ["sessions"]:
        end_sessions()
        return 0
    environment = os.environ
    kind = environment.get("PAM_TYPE", "")
    if sys.argv[1:] or kind not in ("auth", "account"):
        return 1
    return answer(kind, environment.get("PAM_USER", ""), environment.get("PAM_RHOST", ""))
