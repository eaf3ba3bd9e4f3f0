"""ssh into a container: real sshd, PAM, sudo and engine on a provisioned server, the real image."""

import contextlib
import hashlib
import json
import os
import random
import signal
import socket
import struct
import threading
import time
import urllib.request

import pytest
from engine_tools import command, wait_for
from login_tools import Client, free_port, matching
from nested_engine import share_image

pytestmark = [pytest.mark.platform, pytest.mark.timeout(600)]

IMAGE = "puffertank/tank:cpu"
MARK = "sleep 4321"


@pytest.fixture(scope="module")
def server(make_box, provisioned_image, build):
    """A provisioned server with the image."""
    box = make_box(provisioned_image)
    share_image(box, IMAGE)
    return box


@pytest.fixture(scope="module")
def clients(server, tmp_path_factory):
    """Ada and Bob, with a container each; Ada's first training step is timed."""
    directory = tmp_path_factory.mktemp("clients")
    ada, bob = (Client(name, directory / name, server.address) for name in ("ada", "bob"))
    keys = {client.user: client.prepare() for client in (ada, bob)}
    started = time.monotonic()
    server.run("tank", "user", "add", "ada", "--key", "-", text=keys["ada"])
    done = ada.ssh("puffer train squared --train.total-timesteps 20000 2>&1")
    ada.seconds = time.monotonic() - started
    ada.trained = done.stdout
    server.run("tank", "user", "add", "bob", "--key", "-", text=keys["bob"])
    return ada, bob


@pytest.fixture(scope="module")
def ada(clients):
    return clients[0]


@pytest.fixture(scope="module")
def bob(clients):
    return clients[1]


@pytest.fixture
def forward():
    """Start background clients that are ended after the test."""
    started = []
    yield started.append
    for process in started:
        process.terminate()
        process.wait()


def test_from_no_user_to_a_trained_policy_within_a_minute(ada):
    print(f"tank user add until 20,000 steps were trained: {ada.seconds:.1f} s")
    assert "squared" in ada.trained
    assert ada.seconds < 60
    assert ada.ssh("ls runs/*/checkpoints/*.pt").stdout.count(".pt") >= 1


def test_nobody_is_root_inside_or_a_member_of_docker_outside(server, ada):
    status = ada.ssh("id -u; cat /proc/self/status; cat /proc/1/comm; mount").stdout
    assert "CapEff:\t0000000000000000" in status
    assert "CapBnd:\t0000000000000000" in status
    assert "NoNewPrivs:\t1" in status
    assert "docker-init" in status
    assert server.run("id", "-nG", "ada").stdout == "ada tank\n"
    assert ada.ssh("id -un; id -gn; echo $HOME; hostname").stdout == (
        "ada\nada\n/home/ada\ntank-1-main\n"
    )


@pytest.mark.parametrize("status", [0, 7, 137])
def test_exit_status(ada, status):
    script = "kill -9 $$" if status == 137 else f"exit {status}"
    done = ada.ssh(script, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (status, "", "")


def test_quoting_and_both_outputs(ada):
    script = """printf '%s|' "a  b" 'c"d' '$HOME' \\\\ "$(echo 'x y')" é; echo err >&2; exit 3"""
    done = ada.ssh(script, check=False)
    assert done.stdout == 'a  b|c"d|$HOME|\\|x y|é|'
    assert done.stderr == "err\n"
    assert done.returncode == 3


def test_a_command_that_begins_like_a_function_of_the_shell(ada):
    assert ada.ssh("() { echo 1; }; echo 2", check=False).returncode != 0
    assert ada.ssh("(echo 1) ; echo 2").stdout == "1\n2\n"


def test_five_megabytes_through_standard_input_and_output(ada):
    data = random.Random(1).randbytes(5_000_000)
    assert ada.bytes_through("cat", data) == data
    digest = hashlib.sha256(data).hexdigest()
    assert ada.bytes_through("sha256sum", data) == f"{digest}  -\n".encode()


def test_a_shell_fed_from_a_file(ada):
    """What editors do: a shell without a terminal reads a script."""
    assert ada.bytes_through("bash -s", b"echo $((6 * 7)); exit\n") == b"42\n"
    assert ada.bytes_through("", b"echo $((6 * 7))\n") == b"42\n"
    login = "bash --login -c 'bash -s'"
    assert ada.bytes_through(login, b"command -v python\n") == b"/opt/venv/bin/python\n"


def test_size_of_the_terminal_and_its_changes(ada):
    terminal = ada.terminal("stty size; until stty size | grep -x '50 150'; do sleep 0.1; done")
    terminal.wait_for("33 101")
    terminal.resize(50, 150)
    terminal.wait_for("50 150")
    assert terminal.end() == 0


def test_an_interactive_shell_with_its_signals(ada):
    terminal = ada.terminal()
    terminal.wait_for("$ ")
    terminal.type("tty; bash -c 'echo $TERM-$((6 * 7)); exec sleep 100'\n")
    terminal.wait_for("-42")
    terminal.type("\x03")
    terminal.wait_for("$ ")
    terminal.type("echo status=$?\n")
    terminal.wait_for("status=130")
    terminal.wait_for("$ ")
    raw = "tty.setraw(0); print(48 * 1001, flush=True)"
    terminal.type(f"python -c 'import sys, tty; {raw}; print(repr(sys.stdin.read(1)))'\n")
    terminal.wait_for("48048")
    terminal.type("\x10")  # ctrl-p, by which docker would begin to detach
    terminal.wait_for("'\\x10'")
    terminal.wait_for("$ ")
    terminal.type("exit 5\n")
    assert "/dev/pts/" in terminal.shown
    assert terminal.end() == 5


COPIES = {
    "scp -O": ("scp -O -F {config} {there} {here}", "scp -O -F {config} {here} {there}"),
    "scp": ("scp -F {config} {there} {here}", "scp -F {config} {here} {there}"),
    "rsync": (
        "rsync -a -e 'ssh -F {config}' {there} {here}",
        "rsync -a -e 'ssh -F {config}' {here} {there}",
    ),
    "sftp": (
        "echo get {file} {here} | sftp -q -b - -F {config} box",
        "echo put {here} {file} | sftp -q -b - -F {config} box",
    ),
}


@pytest.mark.parametrize("program", COPIES)
def test_five_megabytes_there_and_back(ada, tmp_path, program):
    data = random.Random(2).randbytes(5_000_000)
    sent, back = tmp_path / "sent", tmp_path / "back"
    sent.write_bytes(data)
    get, put = COPIES[program]
    words = {"config": ada.configuration, "file": "copy.bin", "there": "box:copy.bin"}
    for line, here in ((put, sent), (get, back)):
        command("bash", "-c", line.format(here=here, **words))
    assert back.read_bytes() == data
    assert ada.ssh("stat -c '%U %s' copy.bin && rm copy.bin").stdout == "ada 5000000\n"


def test_git_there_and_back(ada, tmp_path):
    ada.ssh("git init -q --bare project.git")
    work, again = tmp_path / "work", tmp_path / "again"
    environment = {**os.environ, "GIT_SSH_COMMAND": f"ssh -F {ada.configuration}"}
    data = random.Random(3).randbytes(5_000_000)
    command("git", "init", "-q", "-b", "main", work)
    (work / "blob").write_bytes(data)
    git = ("git", "-C", work, "-c", "user.name=t", "-c", "user.email=t@example.com")
    command(*git, "add", "blob")
    command(*git, "commit", "-qm", "blob")
    command(*git, "push", "-q", "box:project.git", "main", env=environment)
    command("git", "clone", "-q", "-b", "main", "box:project.git", again, env=environment)
    assert (again / "blob").read_bytes() == data


def test_sftp_is_the_containers_whatever_a_bashrc_prints(ada, tmp_path):
    ada.ssh("cp .bashrc .bashrc.kept; echo 'echo noise' > .bashrc; echo in > where")
    try:
        target = tmp_path / "where"
        command("bash", "-c", f"echo get where {target} | sftp -q -b - -F {ada.configuration} box")
        assert target.read_text() == "in\n"
        listed = command(
            "bash", "-c", f"echo ls /puffer/pyproject.toml | sftp -b - -F {ada.configuration} box"
        )
        assert "/puffer/pyproject.toml" in listed.stdout  # which the server itself has not
    finally:
        command(
            "bash", "-c", f"echo rename .bashrc.kept .bashrc | sftp -b - -F {ada.configuration} box"
        )


def test_a_killed_client_leaves_no_process_of_its_terminal(server, ada):
    terminal = ada.terminal(f"{MARK} & {MARK}")
    wait_for(lambda: len(matching(server, f"^{MARK}")) == 2, "the processes")
    terminal.kill()
    wait_for(lambda: not matching(server, MARK), "their end", 20)


def test_a_killed_client_without_a_terminal_leaves_no_process(server, ada):
    client = ada.start(f"{MARK} | cat")
    wait_for(lambda: matching(server, f"^{MARK}"), "the process")
    client.send_signal(signal.SIGKILL)
    client.wait()
    wait_for(lambda: not matching(server, MARK), "its end", 20)
    wait_for(lambda: not matching(server, "tank-session"), "the end of the session", 20)


def test_what_was_detached_survives_the_client(server, ada):
    ada.ssh(f"nohup setsid {MARK} >/dev/null 2>&1 </dev/null & tmux new-session -d {MARK}1")
    terminal = ada.terminal()
    terminal.wait_for("$ ")
    terminal.kill()
    time.sleep(2)
    assert len(matching(server, f"^{MARK}")) == 2
    ada.ssh("pkill -f '^sleep 4321'")


def test_forwarding_to_a_tensorboard_on_loopback(ada, forward):
    port = free_port()
    script = "exec tensorboard --logdir runs --host 127.0.0.1 --port 6007"
    forward(ada.start(script, flags=["-L", f"{port}:127.0.0.1:6007"]))

    def answer():
        with contextlib.suppress(OSError):
            return urllib.request.urlopen(f"http://127.0.0.1:{port}/data/runs", timeout=5).read()

    runs = json.loads(wait_for(answer, "TensorBoard", 90))
    assert runs[0].startswith("squared-")


def test_remote_and_dynamic_forwarding(ada, forward):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        proxy = free_port()
        here = listener.getsockname()[1]
        flags = ["-D", f"127.0.0.1:{proxy}", "-R", f"127.0.0.1:9123:127.0.0.1:{here}"]
        forward(ada.start("exec python -m http.server --bind 127.0.0.1 8123", flags=flags))
        answer = wait_for(lambda: socks(proxy, 8123), "the server behind the proxy")
        assert answer.startswith(b"HTTP")
        thread = threading.Thread(target=lambda: listener.accept()[0].sendall(b"from home"))
        thread.start()
        read = "import socket; print(socket.create_connection(('127.0.0.1', 9123)).recv(99))"
        assert ada.ssh(f'python -c "{read}"').stdout == "b'from home'\n"
        thread.join()


def is_open(port):
    """Whether something listens on this port of 127.0.0.1."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def socks(proxy, port):
    """The answer to GET / of 127.0.0.1:port through a SOCKS 5 proxy; None while there is none."""
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", proxy)) as link:
        link.settimeout(5)
        link.sendall(b"\x05\x01\x00")
        link.recv(2)
        link.sendall(b"\x05\x01\x00\x01" + socket.inet_aton("127.0.0.1") + struct.pack(">H", port))
        if link.recv(10)[1:2] != b"\x00":
            return None
        link.sendall(b"GET / HTTP/1.0\r\n\r\n")
        return link.recv(100)
    return None


def test_users_do_not_reach_each_others_ports(server, ada, bob, forward):
    forward(ada.start("exec python -m http.server 8200"))
    fetch = "import urllib.request as u; u.urlopen('http://$1:8200', timeout=3)"
    get = f'get() {{ python -c "{fetch}"; }}'
    wait_for(lambda: ada.ssh(f"{get}; get 127.0.0.1", check=False).returncode == 0, "the server")
    template = "{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}"
    address = server.run("docker", "inspect", "-f", template, "tank.ada.main").stdout.strip()
    assert ada.ssh(f"{get}; get {address}", check=False).returncode == 0
    for place in ("127.0.0.1", address):
        assert bob.ssh(f"{get}; get {place}", check=False).returncode == 1
    port = free_port()
    forward(bob.start("sleep 60", flags=["-L", f"{port}:127.0.0.1:8200"]))
    wait_for(lambda: is_open(port), "the forwarded port")
    with pytest.raises(OSError):
        urllib.request.urlopen(f"http://127.0.0.1:{port}", timeout=5)


def test_the_agent_is_forwarded_for_the_session_alone(server, ada):
    agent = command("ssh-agent", "-s").stdout
    variables = dict(part.split("=") for part in agent.replace("\n", "").split(";") if "=" in part)
    environment = {**os.environ, **variables}
    try:
        command("ssh-add", "-q", ada.directory / "key", env=environment)
        done = ada.ssh("ssh-add -l; echo $SSH_AUTH_SOCK", flags=["-A"], env=environment)
    finally:
        os.kill(int(variables["SSH_AGENT_PID"]), signal.SIGTERM)
    mine = command("ssh-keygen", "-l", "-f", ada.directory / "key").stdout.split()[1]
    assert mine in done.stdout
    path = done.stdout.split()[-1]
    assert path.startswith("/run/tank/sessions/")
    assert ada.ssh(f"ls {path}", check=False).returncode == 2
    assert ada.ssh("echo $SSH_AUTH_SOCK").stdout == "\n"


def test_nothing_of_the_users_runs_outside(server, ada):
    """A unit of systemd, a library of ~/.pam_environment, ~/.ssh/rc: each would run there."""
    ada.ssh(
        "mkdir -p .config/systemd/user/default.target.wants .ssh;"
        "printf '[Service]\\nExecStart=/bin/touch /tmp/escaped-unit\\n'"
        " > .config/systemd/user/default.target.wants/x.service;"
        "echo 'LD_PRELOAD=/home/ada/none.so' > .pam_environment;"
        "echo 'touch /tmp/escaped-rc' > .ssh/rc"
    )
    done = ada.ssh("true")
    assert done.stderr == ""  # the loader complains about a library that is missing
    assert (
        server.run("systemctl", "is-active", "user@1000.service", check=False).stdout != "active\n"
    )
    assert server.shell("ls /tmp | grep escaped || true").stdout == ""
    ada.ssh("rm -rf .config/systemd .pam_environment .ssh/rc")


def test_every_connect_command_and_end_is_one_line_of_json(server, ada):
    ada.ssh("echo 'a\nb' é; exit 4", check=False)
    lines = [json.loads(line) for line in server.journal("tank").splitlines()]
    session = lines[-1]["session"]
    connect, ran, end = (line for line in lines if line.get("session") == session)
    assert (connect["event"], connect["user"], connect["terminal"]) == ("connect", "ada", False)
    assert ran["command"] == "echo 'a\nb' é; exit 4"
    assert (end["event"], end["status"]) == ("end", 4)


def test_the_machines_verbs_over_ssh(ada):
    assert "main *" in ada.ssh("tank ls").stdout
    assert "bob" not in ada.ssh("tank ls").stdout
    ada.ssh("tank new second")
    try:
        assert ada.ssh("hostname", flags=["-o", "SetEnv=TANK=second"]).stdout == "tank-1-second\n"
        ada.ssh("tank default second")
        assert ada.ssh("hostname").stdout == "tank-1-second\n"
        terminal = ada.terminal("tank enter main")
        terminal.wait_for("$ ")
        terminal.type("hostname; exit\n")
        terminal.wait_for("tank-1-main\r\n")
        assert terminal.end() == 0
    finally:
        ada.ssh("tank default main")
        ada.ssh("tank rm second --yes")
    done = ada.ssh("true", flags=["-o", "SetEnv=TANK=second"], check=False)
    assert done.returncode == 1
    assert "expected a container of ada, got 'second'\n  There are: main." in done.stderr


@pytest.mark.parametrize(
    "line", ["tank ls; id", "tank ls $(id)", "tank rm ../main --yes", "tank ls --user bob"]
)
def test_the_machines_verbs_have_a_fixed_grammar(ada, line):
    done = ada.ssh(line, check=False)
    assert done.returncode != 0
    assert "uid=" not in done.stdout
    assert "bob" not in done.stdout


def test_the_images_own_tank_and_the_machines_verbs_inside(ada):
    assert "tank clone [DIR]" in ada.ssh("tank help").stdout
    assert "main *" in ada.ssh("bash -c 'tank ls'").stdout
    done = ada.ssh("bash -c 'tank rm main'", check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert "main is the container that ssh enters" in done.stderr


def test_a_stopped_container_starts_again(server, ada):
    server.run("docker", "stop", "-t", "1", "tank.ada.main")
    assert ada.ssh("echo here").stdout == "here\n"


def test_a_container_that_is_gone_is_made_again(server, ada):
    ada.ssh("echo kept > file")
    server.run("docker", "rm", "-f", "tank.ada.main")
    assert ada.ssh("cat file").stdout == "kept\n"
    port = free_port()
    client = ada.start(
        "exec python -m http.server --bind 127.0.0.1 8300", flags=["-L", f"{port}:127.0.0.1:8300"]
    )
    try:
        wait_for(lambda: _answers(port), "forwarding into the new container")
    finally:
        client.terminate()
        client.wait()


def _answers(port):
    with contextlib.suppress(OSError):
        return urllib.request.urlopen(f"http://127.0.0.1:{port}", timeout=5).read()


def test_a_missing_image_is_explained(server, ada):
    server.shell(f"docker rm -f tank.ada.main && docker tag {IMAGE} kept && docker rmi {IMAGE}")
    try:
        done = ada.ssh("true", check=False)
    finally:
        server.shell(f"docker tag kept {IMAGE} && docker rmi kept")
    assert done.returncode == 69
    assert f"tank: the image {IMAGE} is not on this machine\n" in done.stderr
    assert "ask your administrator" in done.stderr
    assert ada.ssh("echo back").stdout == "back\n"


def test_an_engine_that_is_down_is_explained_and_locks_nobody_out(server, ada):
    server.shell("systemctl stop docker.socket docker.service 2>/dev/null")
    try:
        done = ada.ssh("true", check=False)
        terminal = ada.terminal()
        assert terminal.end() == 69
        root = server.run("su", "-", "-c", "echo administrators are here")
    finally:
        server.run("systemctl", "start", "docker.socket", "docker.service")
    assert done.returncode == 69
    assert "tank: the container engine of this machine is down" in done.stderr
    assert "the container engine of this machine is down" in terminal.shown
    assert root.stdout == "administrators are here\n"
    assert ada.ssh("echo back").stdout == "back\n"


def test_a_closed_machine_says_why(server, ada):
    server.run("tank", "close", "the driver is being upgraded")
    try:
        done = ada.ssh("true", check=False)
    finally:
        server.run("tank", "open")
    assert done.returncode == 69
    assert "no container is started at the moment: the driver is being upgraded" in done.stderr
    assert ada.ssh("echo back").stdout == "back\n"


def test_after_a_reboot(server, ada):
    server.reboot()
    ada.point_at(server.address)
    assert ada.ssh("cat file; hostname").stdout == "kept\ntank-1-main\n"


def test_quotas_are_the_engines(server, ada):
    server.run("tank", "user", "set", "ada", "--memory", "1g", "--cpus", "1.5", "--shm", "100m")
    server.run("tank", "reset", "--user", "ada", "--yes")
    try:
        assert ada.ssh("df --output=size -m /dev/shm | tail -1").stdout.strip() == "100"
        template = "{{.HostConfig.Memory}} {{.HostConfig.NanoCpus}} {{.HostConfig.PidsLimit}}"
        limits = server.run("docker", "inspect", "-f", template, "tank.ada.main").stdout
        assert limits == "1073741824 1500000000 8192\n"
        assert ada.ssh("python -c 'bytearray(2 * 1024**3)'", check=False).returncode == 137
    finally:
        server.run("tank", "user", "set", "ada", "--memory", "none", "--cpus", "none")
        server.run("tank", "reset", "--user", "ada", "--yes")


def test_upgrade_rolls_back_and_keeps_the_home(server, ada):
    for name, change in (("new", "ENV NEW=1"), ("broken", "RUN rm /opt/venv/bin/python")):
        server.run("docker", "build", "-q", "-t", name, "-", text=f"FROM {IMAGE}\n{change}\n")
    ada.ssh("echo mine > kept")
    done = server.run("tank", "upgrade", "ada", "--image", "broken", check=False)
    assert done.returncode == 1
    assert f"main of ada stays on {IMAGE}: broken does not work here" in done.stderr
    assert ada.ssh("cat kept; echo $NEW").stdout == "mine\n\n"
    server.run("tank", "upgrade", "ada", "--image", "new")
    assert ada.ssh("cat kept; echo $NEW").stdout == "mine\n1\n"
    server.run("tank", "upgrade", "ada", "--back")
    assert ada.ssh("cat kept; echo $NEW").stdout == "mine\n\n"


def test_a_removed_user_is_out_and_the_home_an_archive(server, bob):
    """The last test of Bob."""
    bob.ssh("echo weights > policy.pt")
    session = bob.start("sleep 300")
    wait_for(lambda: matching(server, "^sleep 300"), "the session")
    archive = server.run("tank", "user", "rm", "bob").stdout.split()[-1]
    assert session.wait(30) != 0
    assert server.run("tar", "-xOf", archive, "bob/policy.pt").stdout == "weights\n"
    assert bob.ssh("true", check=False).returncode == 255
    assert server.run("id", "bob", check=False).returncode == 1
    assert "bob" not in server.run("tank", "user", "list").stdout
    assert "bob" not in server.run("docker", "ps", "-a").stdout
