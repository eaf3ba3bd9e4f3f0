"""The privileged half of the login: from a user's session on the machine into the user's container.

`tank-login` starts it through sudo, without arguments. Who the user is comes from sudo alone; what
is wanted comes from the environment and goes nowhere but into the container, or to a verb of
`tank`.
"""

import os
import pwd
import re
import select
import signal
import subprocess
import sys
import time
import uuid
from dataclasses import dataclass, replace

from tank import audit, cli, containers, hangup, relay, store
from tank.errors import UNAVAILABLE, USAGE, TankError
from tank.members import GROUP, is_member
from tank.store import CONTAINER_NAME, USER_NAME, State

COMMAND = "TANK_COMMAND"  # ":" and the command; absent for a shell
CHOICE = "TANK"  # SetEnv TANK=NAME
# What a session may bring along besides its command. sshd and sudo keep the same list.
# No locale: the image has C.UTF-8 and no other, and bash warns about one that it does not find.
KEPT = re.compile(r"TERM|COLORTERM|SSH_CONNECTION|SSH_CLIENT|TANK")
LONGEST_VALUE = 4096
# sshd asks for this path of the machine; the image has the same program at the same place.
SFTP = "/usr/lib/openssh/sftp-server"
HOST_VERBS = frozenset(cli.USER_VERBS)
VERB = re.compile(r"tank +([A-Za-z0-9_-]+)")
WORDS = re.compile(r"tank( +[A-Za-z0-9._:/@=+-]+)* *")
# docker exec would keep ctrl-p back until the next key, for its own ctrl-p ctrl-q. It must have
# some sequence; nobody types this one.
DETACH_KEYS = "ctrl-^,ctrl-@,ctrl-^,ctrl-@"
HUNG_UP = 128 + signal.SIGHUP


@dataclass(frozen=True)
class Request:
    """What a client asked for. `command` is None for a shell."""

    user: str
    uid: int
    command: str | None
    terminal: bool
    environment: dict[str, str]
    agent: str | None
    id: str


def caller(environment: dict[str, str]) -> str:
    """The name of the user who started sudo.

    Raises:
        TankError: nobody whose login is a container.
    """
    number = environment.get("SUDO_UID", "")
    if not re.fullmatch(r"[0-9]{1,10}", number):
        raise TankError("expected to be started by tank-login, through sudo", status=USAGE)
    try:
        name = pwd.getpwuid(int(number)).pw_name
    except (KeyError, OverflowError):
        raise TankError(f"expected a user of this machine, got uid {number}") from None
    if not USER_NAME.fullmatch(name) or not is_member(name):
        raise TankError(f"expected a member of the group {GROUP}, got {name!r}")
    return name


def read_request(environment: dict[str, str], terminal: bool) -> Request:
    """Make a request of the environment that sudo let through."""
    command = environment.get(COMMAND)
    kept = {
        name: value
        for name, value in environment.items()
        if KEPT.fullmatch(name) and len(value) <= LONGEST_VALUE and value.isprintable()
    }
    if not terminal:
        kept.pop("TERM", None)  # sudo makes one up
    user = caller(environment)
    return Request(
        user=user,
        uid=int(environment["SUDO_UID"]),
        command=None if command is None else command.removeprefix(":"),
        terminal=terminal,
        environment=kept,
        agent=environment.get("SSH_AUTH_SOCK"),
        id=uuid.uuid4().hex,
    )


def host_verb(command: str | None) -> list[str] | None:
    """The arguments of a command for the machine's `tank`; None if it is for the container.

    The image's own `tank` has other verbs, such as `tank clone`.

    Raises:
        TankError: a verb of the machine with anything but plain words after it.
    """
    verb = VERB.match(command or "")
    if verb is None or verb[1] not in HOST_VERBS:
        return None
    words = (command or "").split()
    if not WORDS.fullmatch(command or ""):
        raise TankError(
            "expected plain words after 'tank', got characters for a shell",
            "The verbs of the machine are no programs of the container. To use what one prints,",
            f"work on your own side: ssh BOX tank {words[1]} | ...",
            status=USAGE,
        )
    return words[1:]


def exec_line(request: Request, container: str, agent: str | None) -> list[str]:
    """The `docker exec` that serves a request: every word of its own, nothing is parsed again."""
    environment = dict(request.environment)
    environment[hangup.VARIABLE] = request.id
    if agent:
        environment["SSH_AUTH_SOCK"] = agent
    line = ["docker", "exec", "--interactive"]
    if request.terminal:
        line += ["--tty", "--detach-keys", DETACH_KEYS]
    for name in sorted(environment):
        line += ["--env", f"{name}={environment[name]}"]
    line.append(containers.name_of(request.user, container))
    if request.command is None:
        return [*line, "bash", "--login"]
    if request.command == SFTP:
        return [*line, SFTP]  # no shell: a .bashrc that prints would break the protocol
    return [*line, "bash", "-c", request.command]


def serve(request: Request, state: State) -> int:
    """Run the request in its container; returns the exit status."""
    wanted = request.environment.get(CHOICE)
    if wanted is not None and not CONTAINER_NAME.fullmatch(wanted):
        raise TankError(f"expected the name of a container in TANK, got {wanted!r}", status=USAGE)
    container = containers.choose(state, request.user, wanted)
    containers.ensure_running(request.user, container, state)
    user = state.user(request.user)
    with relay.agent(request.user, user, request.id, request.agent) as agent:
        return attach(exec_line(request, container, agent), request)


def run_verb(request: Request, words: list[str]) -> int:
    """Run a verb of the machine for the user; `tank enter` is a session like any other."""
    arguments = cli.parse(words, request.user)
    if arguments.verb != "enter":
        return cli.run(arguments)
    environment = request.environment
    if arguments.name:
        environment = {**environment, CHOICE: arguments.name}
    return serve(replace(request, command=None, environment=environment), store.load())


def attach(line: list[str], request: Request) -> int:
    """Run `docker exec` on this session's own input and output until it or the client ends."""
    reader, writer = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.set_wakeup_fd(writer)
    for number in (signal.SIGHUP, signal.SIGTERM):
        signal.signal(number, lambda *_: None)  # seen through the pipe
    for number in (signal.SIGINT, signal.SIGQUIT):
        signal.signal(number, signal.SIG_IGN)  # typed for the container before its terminal is raw
    child = subprocess.Popen(line, restore_signals=True, preexec_fn=_usual_signals)
    if wait_for_end(child.pid, reader):
        sid = hangup.hang_up(request.id, request.uid)
        child.kill()
        child.wait()
        time.sleep(0.5)  # what the engine was just about to start
        hangup.hang_up(request.id, request.uid, sid)
        return HUNG_UP
    status = child.wait()
    return status if status >= 0 else 128 - status


def _usual_signals() -> None:
    for number in (signal.SIGHUP, signal.SIGTERM, signal.SIGINT, signal.SIGQUIT):
        signal.signal(number, signal.SIG_DFL)


def wait_for_end(pid: int, signals: int) -> bool:
    """Wait for the process; True if the client went away before it ended.

    A signal on the pipe `signals` says so where there is a terminal. Without one, the other end of
    standard output is gone: sshd holds it as long as the client is there.
    """
    process = os.pidfd_open(pid)
    poll = select.poll()
    poll.register(process, select.POLLIN)
    poll.register(signals, select.POLLIN)
    poll.register(1, 0)  # POLLHUP and POLLERR are always reported
    try:
        events = dict(poll.poll())
    finally:
        os.close(process)
    return process not in events


def main() -> int:
    """Serve one session; nothing is printed but errors, since the output belongs to the command."""
    started = time.monotonic()
    try:
        request = read_request(dict(os.environ), os.isatty(0) and os.isatty(1))
        words = host_verb(request.command)
        remote = request.environment.get("SSH_CONNECTION", "").split(" ")[0] or None
        audit.record(
            "connect", user=request.user, session=request.id, remote=remote,
            terminal=request.terminal, choice=request.environment.get(CHOICE),
        )  # fmt: skip
        if request.command is not None:
            audit.record("command", user=request.user, session=request.id, command=request.command)
        if words is not None:
            status = run_verb(request, words)
        else:
            status = serve(request, store.load())
    except TankError as error:
        contact = store.load_configuration().contact
        ask = f"\n  If that does not help, ask {contact}." if error.status == UNAVAILABLE else ""
        audit.record("refused", user=os.environ.get("SUDO_USER"), why=str(error.args[0]))
        print(f"{error}{ask}", file=sys.stderr)
        return error.status
    seconds = round(time.monotonic() - started, 1)
    audit.record("end", user=request.user, session=request.id, status=status, seconds=seconds)
    return status
