"""The way from ssh to `docker exec`, with hostile users, commands and environments."""

import contextlib
import os
import pwd
import re
import shlex
import signal
import socket
import string
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tank import audit, hangup, relay, session
from tank.containers import without
from tank.errors import TankError
from tank.store import USER_NAME

LOGIN = Path(__file__).parents[2] / "provisioning" / "login"
ADA = {"SUDO_UID": "1000"}
# What a client can send: no NUL, which ends a string of the kernel's.
TEXT = st.text(st.characters(blacklist_characters="\0", blacklist_categories=["Cs"]), max_size=80)
# Names that the kernel, the loader, shells, Python, sudo and docker listen to.
HOSTILE = """LD_PRELOAD LD_LIBRARY_PATH PATH BASH_ENV ENV IFS PS4 SHELLOPTS PYTHONPATH
DOCKER_HOST DOCKER_CONFIG HOME USER SUDO_USER SUDO_COMMAND TANK_SESSION BASH_FUNC_exec%% TERM
TANK SSH_AUTH_SOCK SSH_CONNECTION X=--privileged --env"""
HOSTILE_NAMES = st.sampled_from(HOSTILE.split())
KEPT = {"TERM", "COLORTERM", "SSH_CONNECTION", "SSH_CLIENT", "TANK", "TANK_SESSION"}


@pytest.fixture(autouse=True, scope="module")
def accounts(tmp_path_factory):
    """Uid 1000 is Ada, a member of the group; nobody else is."""
    tmp_path_factory.getbasetemp()  # pytest asks for the account that runs it
    with pytest.MonkeyPatch.context() as patch:

        def getpwuid(uid):
            if uid == 1000:
                return SimpleNamespace(pw_name="ada")
            if uid == 0:
                return SimpleNamespace(pw_name="root")
            raise KeyError(uid)

        patch.setattr(pwd, "getpwuid", getpwuid)
        patch.setattr(session, "is_member", lambda name: name == "ada")
        yield


@given(TEXT)
def test_only_sudo_says_who_it_is(number):
    if number == "1000":
        return
    with pytest.raises(TankError):
        session.caller({"SUDO_UID": number, "SUDO_USER": "ada", "USER": "ada"})


@pytest.mark.parametrize("number", ["0", "1001", "", "1000\n", "٣", "-1", "1000 ", "99999999999"])
def test_callers_that_are_refused(number):
    with pytest.raises(TankError):
        session.caller({"SUDO_UID": number})


@given(
    command=st.none() | TEXT, extra=st.dictionaries(HOSTILE_NAMES | TEXT, TEXT), tty=st.booleans()
)
def test_a_request_reaches_the_own_container_word_by_word(command, extra, tty):
    environment = {**extra, **ADA}
    environment.pop("TANK_COMMAND", None)
    if command is not None:
        environment["TANK_COMMAND"] = f":{command}"
    request = session.read_request(environment, tty)
    line = session.exec_line(request, "main", None)
    start = ["docker", "exec", "--interactive"]
    if tty:
        start += ["--tty", "--detach-keys", session.DETACH_KEYS]
    place = line.index("tank.ada.main")
    assert line[: len(start)] == start
    words = line[len(start) : place]
    assert words[::2] == ["--env"] * (len(words) // 2)
    values = dict(word.split("=", 1) for word in words[1::2])
    assert set(values) <= KEPT
    assert values["TANK_SESSION"] == request.id
    assert all(value.isprintable() for value in values.values())
    if command is None:
        assert line[place + 1 :] == ["bash", "--login"]
    elif command == session.SFTP:
        assert line[place + 1 :] == [session.SFTP]
    else:
        assert line[place + 1 :] == ["bash", "-c", command]


@given(
    st.sampled_from(["tank", "tank ", " tank ", "tank\t", "tank ls", "tank rm x", "tankls"]), TEXT
)
def test_verbs_of_the_machine_are_plain_words(start, rest):
    words = None
    with contextlib.suppress(TankError):
        words = session.host_verb(start + rest)
    if words is not None:
        assert words[0] in session.HOST_VERBS
        assert all(re.fullmatch(r"[A-Za-z0-9._:/@=+-]+", word) for word in words)
        assert (start + rest).split() == ["tank", *words]


@pytest.mark.parametrize(
    "command",
    [None, "", "tank", "tank clone", "tank help; id", "tankls", "/bin/tank ls", "echo tank ls"],
)
def test_commands_for_the_container(command):
    assert session.host_verb(command) is None


@pytest.mark.parametrize(
    "rest", ["; id", "|id", " $(id)", " `id`", " 'a b'", "\nid", " >x", "&&id"]
)
def test_verbs_with_anything_for_a_shell_are_refused(rest):
    with pytest.raises(TankError, match="expected plain words"):
        session.host_verb(f"tank ls{rest}")


@given(TEXT)
def test_names_of_users_hold_nothing_but_words(name):
    if USER_NAME.fullmatch(name):
        assert set(name) <= set(string.ascii_lowercase + string.digits + "_-")
        assert shlex.quote(name) == name


@given(st.text(max_size=300), st.text(max_size=300))
def test_an_event_is_one_line_of_ascii(user, command):
    line = audit.line("command", user=user, command=command)
    assert "\n" not in line
    assert line.isascii()


def test_a_long_command_is_cut_in_the_journal():
    assert len(audit.line("command", command="x" * 10**6)) < 5000


@pytest.fixture(scope="module")
def login(tmp_path_factory):
    """tank-login with a sudo that prints its arguments and the request; returns a function."""
    directory = tmp_path_factory.mktemp("login")
    sudo = directory / "sudo"
    sudo.write_text('#!/bin/bash -p\nprintf "%s\\0" "$@" "${TANK_COMMAND-none}" "$PWD"\n')
    sudo.chmod(0o755)
    text = (LOGIN / "tank-login").read_text()
    assert text.count("PATH=/usr/sbin:") == 1
    script = directory / "tank-login"
    script.write_text(text.replace("PATH=/usr/sbin:", f"PATH={directory}:/usr/sbin:"))
    script.chmod(0o755)

    def run(*arguments, **environment):
        return subprocess.run(
            [script, *arguments], env=environment, cwd=directory, capture_output=True
        )

    return run


def printed(*words):
    return b"".join(
        word.encode() + b"\0" for word in ("-n", "/usr/local/lib/tank/tank-session", *words, "/")
    )


@given(TEXT)
def test_the_login_shell_hands_a_command_on_unread(login, command):
    done = login("-c", command)
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout == printed(f":{command}")


def test_the_login_shell_without_a_command(login):
    assert login(TANK_COMMAND=":forged").stdout == printed("none")
    assert login("-x", "id").returncode == 2
    assert login("-c", "id", "more").returncode == 2


def test_the_login_shell_reads_nothing_of_the_environment(login, tmp_path):
    """Each of these runs a program of the user's in an ordinary script of bash."""
    trap = tmp_path / "trap"
    trap.write_text("#!/bin/sh\ntouch " + str(tmp_path / "sprung"))
    trap.chmod(0o755)
    (tmp_path / "sudo").symlink_to(trap)
    done = login(
        "-c", "echo hello",
        **{
            "BASH_ENV": str(trap), "ENV": str(trap), "PATH": str(tmp_path), "IFS": "sudo",
            "SHELLOPTS": "xtrace", "PS4": f"$({trap})", "CDPATH": "/tmp",
            "BASH_FUNC_exec%%": f"() {{ {trap}; }}", "BASH_FUNC_cd%%": f"() {{ {trap}; }}",
            "BASHOPTS": "extdebug",
        },
    )  # fmt: skip
    assert done.stdout == printed(":echo hello")
    assert not (tmp_path / "sprung").exists()


def test_the_helper_takes_no_arguments_and_no_other_caller():
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": "/nowhere"}
    program = (LOGIN / "tank-session").read_text().replace(
        "/usr/local/lib/tank", str(LOGIN.parent)
    )  # fmt: skip
    run = [sys.executable, "-I", "-c", program]
    done = subprocess.run([*run, "--help"], env=environment, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (1, "tank-session: expected no arguments\n")
    done = subprocess.run(run, env=environment, capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr == "tank: expected to be started by tank-login, through sudo\n"


def test_sudo_allows_one_program_without_arguments():
    lines = (LOGIN / "sudoers").read_text().splitlines()
    rules = [line for line in lines if line and not line.startswith(("#", "Defaults"))]
    assert rules == [
        'Cmnd_Alias TANK_SESSION = /usr/local/lib/tank/tank-session ""',
        "%tank ALL=(root) NOPASSWD: TANK_SESSION",
    ]
    (kept,) = (re.search('env_keep = "(.*)"', line)[1] for line in lines if "env_keep" in line)
    assert set(kept.split()) == (KEPT - {"TANK_SESSION"}) | {"TANK_COMMAND", "SSH_AUTH_SOCK"}


def test_pam_cannot_lock_anybody_out():
    """Every line that is ours is optional, only skips others, or is skipped by all others."""
    lines = [
        line for line in (LOGIN / "pam-sshd").read_text().splitlines() if line[:1] not in ("", "#")
    ]
    skipped = {}
    for place, line in enumerate(lines):
        if " ingroup tank-tailnet" in line:
            count = int(re.search(r" \[success=ignore default=([0-9])\] ", line)[1])
            skipped[line.split()[0]] = [
                each.split()[1:3] for each in lines[place + 1 : place + 1 + count]
            ]
    assert skipped == {
        "auth": [["requisite", "pam_exec.so"], ["sufficient", "pam_permit.so"]],
        "account": [["requisite", "pam_exec.so"]],
    }
    assert sum("tank-tailnet" in line for line in lines) == 4
    ours = [line for line in lines if "tank" in line and "tank-tailnet" not in line]
    assert len(ours) == 4
    for line in ours:
        assert re.match(r"-?session +(optional|\[success=(ignore|2) default=(ignore|2)\]) ", line)
    assert all(
        "user_readenv=0" in line
        for line in lines
        if line.startswith("session") and "pam_env" in line
    )


def test_passwd_without_the_same_name_or_id():
    lines = ["root:x:0:0::/root:/bin/sh", "ada:x:7:7::/:/bin/sh", "other:x:1000:1::/:/bin/sh"]
    assert without(lines, "ada:x:1000:1000::/home/ada:/bin/bash") == lines[:1]


def start_session(identifier, script):
    return subprocess.Popen(
        # A shell cannot take back that it was started with SIGHUP ignored, as by nohup.
        ["env", "--default-signal=HUP", "bash", "-c", script],
        env={**os.environ, "TANK_SESSION": identifier},
        start_new_session=True,
        stdout=subprocess.PIPE,
        text=True,
    )


def wait_for_death(process):
    """The exit status; a process that lives on is shown as the kernel sees it."""
    try:
        return process.wait(10)
    except subprocess.TimeoutExpired:
        pytest.fail(Path(f"/proc/{process.pid}/status").read_text())


def test_hanging_up_ends_the_session_and_nothing_else():
    mine = start_session("a" * 32, "sleep 60 & setsid sleep 61 & echo $!; wait")
    other = start_session("b" * 32, "echo; sleep 60")
    detached = int(mine.stdout.readline())
    other.stdout.readline()
    try:
        time.sleep(0.2)
        assert len(hangup.processes("a" * 32, os.getuid())) == 2
        assert hangup.processes("a" * 32, os.getuid() + 1) == []
        sid = hangup.hang_up("a" * 32, os.getuid())
        assert sid == mine.pid
        assert wait_for_death(mine) == -signal.SIGHUP
        assert other.poll() is None
        # Once more, as a session does: what was detached now has the oldest leader.
        hangup.hang_up("a" * 32, os.getuid(), sid)
        time.sleep(0.2)
        os.kill(detached, 0)
        assert hangup.processes("a" * 32, os.getuid(), sid) == []
    finally:
        os.kill(detached, signal.SIGKILL)
        os.killpg(other.pid, signal.SIGKILL)
        other.wait()


@pytest.mark.parametrize("end", ["process", "output", "signal"])
def test_what_ends_a_session(end):
    """The program, the client's end of the output, or the terminal's signal."""
    ours, clients = socket.socketpair()
    reader, writer = os.pipe()
    script = "true" if end == "process" else "sleep 60"
    child = subprocess.Popen(["bash", "-c", script])
    kept = os.dup(1)
    try:
        os.dup2(ours.fileno(), 1)
        clients.shutdown(socket.SHUT_WR)  # the client's input has ended, which is no end
        if end == "output":
            clients.close()
            ours.close()
        if end == "signal":
            os.write(writer, b"\1")
        gone = session.wait_for_end(child.pid, reader)
    finally:
        os.dup2(kept, 1)
        child.kill()
        child.wait()
        for descriptor in (kept, reader, writer):
            os.close(descriptor)
        ours.close()
        clients.close()
    assert gone is (end != "process")


def ask_or_nothing(ask):
    """A connection that is closed unread may end with an error or with nothing."""
    try:
        return ask(b"x")
    except ConnectionError:
        return b""


def test_the_relay_copies_both_ways_and_survives_a_lost_agent(tmp_path):
    source, path = tmp_path / "agent", tmp_path / "relay"
    with socket.socket(socket.AF_UNIX) as agent, socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()

        def serve():
            with contextlib.suppress(OSError):  # until its socket is closed
                relay.serve(listener, str(source))

        threading.Thread(target=serve, daemon=True).start()

        def ask(data):
            with socket.socket(socket.AF_UNIX) as client:
                client.settimeout(10)
                client.connect(str(path))
                client.sendall(data)
                client.shutdown(socket.SHUT_WR)
                return client.recv(100)

        assert ask_or_nothing(ask) == b""  # nobody is behind it yet
        agent.bind(str(source))
        agent.listen()

        def answer():
            link, _ = agent.accept()
            with link:
                link.sendall(link.recv(100)[::-1])

        threading.Thread(target=answer, daemon=True).start()
        assert ask(b"question") == b"noitseuq"
