"""One machine over ssh: against a server of paramiko in this process, through the real fabric."""

import socket
import subprocess
import threading
import time

import pytest
from fleet import ssh
from fleet.config import Machine
from fleet.ssh import Done, Lines, MachineError

paramiko = pytest.importorskip("paramiko")


class Server(paramiko.ServerInterface):
    """Lets one key in and runs what it asks for with bash."""

    def __init__(self, key):
        self.key = key

    def get_allowed_auths(self, username):
        return "publickey"

    def check_auth_publickey(self, username, key):
        right = username == "admin" and key.asbytes() == self.key.asbytes()
        return paramiko.AUTH_SUCCESSFUL if right else paramiko.AUTH_FAILED

    def check_channel_request(self, kind, chanid):
        return paramiko.OPEN_SUCCEEDED

    def check_channel_exec_request(self, channel, command):
        threading.Thread(target=self.execute, args=(channel, command), daemon=True).start()
        return True

    def execute(self, channel, command):
        done = subprocess.run(["bash", "-c", command], capture_output=True)
        if not channel.closed:
            channel.sendall(done.stdout)
            channel.sendall_stderr(done.stderr)
            channel.send_exit_status(done.returncode)
            # The client closes: the end of a short command may overtake the answer that it begins.
            channel.shutdown_write()


@pytest.fixture(scope="module")
def keys():
    return {name: paramiko.ECDSAKey.generate() for name in ("host", "user", "stranger")}


@pytest.fixture
def home(tmp_path, monkeypatch, keys):
    """A home with the user's key; nothing of the real one, and no agent, is used."""
    (tmp_path / ".ssh").mkdir()
    keys["user"].write_private_key_file(str(tmp_path / ".ssh/id_ecdsa"))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    return tmp_path


@pytest.fixture
def port(keys):
    """Where the server listens."""
    listener = socket.create_server(("127.0.0.1", 0))
    transports = []

    def serve():
        while True:
            try:
                peer, _ = listener.accept()
            except OSError:
                return
            transport = paramiko.Transport(peer)
            transport.add_server_key(keys["host"])
            transports.append(transport)
            transport.start_server(event=threading.Event(), server=Server(keys["user"]))

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    yield listener.getsockname()[1]
    listener.shutdown(socket.SHUT_RDWR)
    listener.close()
    thread.join(10)
    for transport in transports:
        transport.close()


def know(home, port, key):
    line = f"[127.0.0.1]:{port} {key.get_name()} {key.get_base64()}\n"
    (home / ".ssh/known_hosts").write_text(line)


@pytest.fixture
def connection(home, port, keys):
    know(home, port, keys["host"])
    made = ssh.connect(Machine("one", "127.0.0.1", "admin", port))
    yield made
    made.close()


def test_output_errors_and_status_come_back(connection):
    shown = []
    done = connection.run("echo ü; printf 'no end'; echo oh >&2; exit 7", 30, shown.append)
    assert done == Done(7, "ü\nno end", "oh\n")
    assert sorted(shown) == ["no end", "oh", "ü"]
    assert connection.run("printf quiet", 30, None) == Done(0, "quiet", "")
    assert connection.user == "admin"


# The library's timer may still be closing what the end of the test has closed.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
@pytest.mark.parametrize("is_seen", [True, False])
def test_a_command_that_does_not_end_is_given_up(connection, monkeypatch, is_seen):
    """Also where the library looks for its timer's end just before that."""
    if not is_seen:
        monkeypatch.setattr("invoke.runners.Runner.timed_out", False)
    start = time.monotonic()
    with pytest.raises(MachineError, match="no end after 1 s; --minutes allows more"):
        connection.run("sleep 60", 1, None)
    assert 1 <= time.monotonic() - start < 20


def test_a_server_that_is_not_known_is_refused(home, port):
    connection = ssh.connect(Machine("one", "127.0.0.1", "admin", port))
    with pytest.raises(MachineError, match=f"known_hosts; look at .*: ssh -p {port} 127.0.0.1"):
        connection.run("true", 30, None)


def test_a_server_with_another_key_is_refused(connection, home, port, keys):
    know(home, port, keys["stranger"])
    changed = ssh.connect(Machine("one", "127.0.0.1", "admin", port))
    with pytest.raises(MachineError, match="cannot be reached: .*key"):
        changed.run("true", 30, None)


def test_a_login_that_is_refused_and_a_port_where_nobody_listens(connection, home, port, keys):
    stranger = ssh.connect(Machine("one", "127.0.0.1", "mallory", port))
    with pytest.raises(MachineError, match="cannot be reached: .*uthentication"):
        stranger.run("true", 30, None)
    with socket.create_server(("127.0.0.1", 0)) as free:
        nobody = free.getsockname()[1]
    with pytest.raises(MachineError, match=f"cannot be reached: .*port {nobody}"):
        ssh.connect(Machine("one", "127.0.0.1", "admin", nobody)).run("true", 30, None)


def test_lines_are_handed_on_whole():
    shown = []
    stream = Lines(shown.append)
    for text in ("a", "b\r\nc", "", "\n\nd"):
        assert stream.write(text) == len(text)
    assert shown == ["ab", "c", ""]
    stream.end()
    stream.end()
    assert shown == ["ab", "c", "", "d"]
