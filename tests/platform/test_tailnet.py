"""Devices of a tailnet as the users' credential: real sshd, PAM and sudo on a provisioned server.

Packets come through an interface named tailscale0; whose device has which address is the word of a
stand-in of `tailscale`.
"""

import json
import re
import subprocess

import pytest
from engine_tools import wait_for
from login_tools import Client, matching
from nested_engine import share_image

pytestmark = [pytest.mark.platform, pytest.mark.timeout(600)]

# One machine for all devices, each an address of its own.
NETWORK = """
ip netns add devices
ip link add tailscale0 type veth peer name tailscale0 netns devices
ip address add 100.101.102.103/10 dev tailscale0
ip address add fd7a:115c:a1e0::1/48 dev tailscale0 nodad
ip link set tailscale0 up
for number in {7..11}; do
    ip -n devices address add 100.64.0.$number/10 dev tailscale0
    ip -n devices address add fd7a:115c:a1e0::$number/48 dev tailscale0 nodad
done
ip -n devices link set tailscale0 up
"""
ADA, BOB, EVE, TAGGED, STRANGER = (f"100.64.0.{number}" for number in range(7, 12))
PEERS = """
100.64.0.7 fd7a:115c:a1e0::7 ada@example.com
100.64.0.8 fd7a:115c:a1e0::8 bob@example.com
100.64.0.9 fd7a:115c:a1e0::9 eve@example.com
100.64.0.10 fd7a:115c:a1e0::10 tagged-devices tag:ci
"""
FILE = "/var/lib/tailscale/peers"


class Tailnet:
    """The server, and ssh to it from a device."""

    def __init__(self, server, outside):
        self.server = server
        self.outside = outside  # clients with a key, by user, that come from no device

    def line(self, user, source, words, key=False, level="ERROR"):
        to = "fd7a:115c:a1e0::1" if ":" in source else "100.101.102.103"
        identity = ["-i", f"/root/keys/{user}"] if key else []
        return [
            "ip", "netns", "exec", "devices", "ssh", "-b", source, "-o", "BatchMode=yes",
            "-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null",
            "-o", f"LogLevel={level}", "-o", "IdentitiesOnly=yes", *identity,
            f"{user}@{to}", *words,
        ]  # fmt: skip

    def ssh(self, user, source, *words, **options):
        return self.server.run(*self.line(user, source, words, **options), check=False)

    def start(self, user, source, *words):
        """The same in the background."""
        line = ["docker", "exec", self.server.name, *self.line(user, source, words)]
        return subprocess.Popen(line, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)

    def events(self):
        lines = map(json.loads, self.server.journal("tank").splitlines())
        return [line for line in lines if line["event"] == "tailnet"]


@pytest.fixture(scope="module")
def tailnet(make_box, provisioned_image, small_image, tmp_path_factory):
    """Ada has only her device, Eve a device and a key, Kit only a key; all have the same image."""
    server = make_box(provisioned_image)
    share_image(server, small_image)
    server.configure(TAILSCALE="yes", TAILSCALE_TAGS="tag:tank", TANK_IMAGE=small_image)
    server.put("/etc/tank/tailscale.key", "tskey-auth-good\n", mode="0600")
    server.provision("--from", "60")
    server.shell(NETWORK)
    server.put(FILE, PEERS)
    directory = tmp_path_factory.mktemp("clients")
    clients = {name: Client(name, directory / name, server.address) for name in ("eve", "kit")}
    server.run("tank", "user", "add", "ada", "--tailscale", "ada@example.com")
    for name, client in clients.items():
        login = ["--tailscale", "eve@example.com"] if name == "eve" else []
        server.run("tank", "user", "add", name, "--key", "-", *login, text=client.prepare())
        server.put(f"/root/keys/{name}", (client.directory / "key").read_text(), "0600")
    return Tailnet(server, clients)


def is_refused(done):
    return done.returncode == 255 and "Permission denied (publickey)." in done.stderr


@pytest.mark.parametrize("source", [ADA, "fd7a:115c:a1e0::7"])
def test_the_own_device_lets_in_without_a_key(tailnet, source):
    done = tailnet.ssh("ada", source, "id -un; hostname; exit 7")
    assert (done.returncode, done.stdout, done.stderr) == (7, "ada\ntank-1-main\n", "")
    last = tailnet.events()[-1]
    assert last == {
        "event": "tailnet", "user": "ada", "remote": source, "owner": "ada@example.com"
    }  # fmt: skip


@pytest.mark.parametrize("source", [BOB, EVE, TAGGED, STRANGER, "fd7a:115c:a1e0::8"])
def test_other_devices_do_not(tailnet, source):
    assert is_refused(tailnet.ssh("ada", source, "true"))
    assert tailnet.events()[-1]["remote"] == source
    assert "expected a device" in tailnet.events()[-1]["refused"]


def test_a_key_in_the_home_is_no_way_around(tailnet):
    """Ada writes her own keys; they would outlive her place in the tailnet."""
    key = (tailnet.outside["kit"].directory / "key.pub").read_text().strip()
    done = tailnet.ssh("ada", ADA, f"mkdir -p .ssh; echo '{key}' >.ssh/authorized_keys")
    assert done.returncode == 0, done.stderr
    tailnet.server.run("cp", "/root/keys/kit", "/root/keys/ada")
    assert tailnet.ssh("ada", ADA, "true", key=True).returncode == 0
    done = tailnet.ssh("ada", BOB, "true", key=True, level="INFO")
    assert done.returncode == 255
    assert "tank: this is not one of your own devices in the tailnet" in done.stderr
    outside = tailnet.outside["kit"].ssh("true", check=False, flags=["-l", "ada"])
    assert outside.returncode == 255


def test_where_both_are_asked_for_neither_is_enough(tailnet):
    assert tailnet.ssh("eve", EVE, "id -un", key=True).stdout == "eve\n"
    assert is_refused(tailnet.ssh("eve", EVE, "true"))
    assert tailnet.ssh("eve", BOB, "true", key=True).returncode == 255
    assert tailnet.outside["eve"].ssh("true", check=False).returncode == 255


def test_without_an_answer_of_tailscale_keys_let_in_and_devices_do_not(tailnet):
    server, kit = tailnet.server, tailnet.outside["kit"]
    server.put("/root/.ssh/authorized_keys", (kit.directory / "key.pub").read_text(), "0600")
    server.run("systemctl", "stop", "tailscaled")
    try:
        assert is_refused(tailnet.ssh("ada", ADA, "true"))
        assert "Failed to connect to local Tailscale" in tailnet.events()[-1]["refused"]
        assert kit.ssh("id -un").stdout == "kit\n"
        assert kit.ssh("id -un", flags=["-l", "root"]).stdout == "root\n"
    finally:
        server.run("systemctl", "start", "tailscaled")
    assert tailnet.ssh("kit", BOB, "id -un", key=True).stdout == "kit\n"
    assert tailnet.ssh("ada", ADA, "id -un").stdout == "ada\n"


def sessions_of(server, user):
    return matching(server, f"^sshd: {user}(@|$)")


@pytest.fixture
def two_sessions(tailnet):
    """A command of Ada's, and a connection that only forwards; what she detached goes on."""
    tailnet.ssh("ada", ADA, "nohup sleep 4321 >/dev/null 2>&1 </dev/null &")
    started = [tailnet.start("ada", ADA, "exec sleep 300"), tailnet.start("ada", ADA, "-N")]
    wait_for(lambda: len(sessions_of(tailnet.server, "ada")) == 2, "the sessions")
    yield started
    for process in started:
        process.kill()
        process.wait()
    tailnet.server.run("pkill", "-f", "^sleep 4321")


def assert_that_access_has_ended(tailnet, sessions):
    for session in sessions:
        assert session.wait(20) == 255
    wait_for(lambda: not sessions_of(tailnet.server, "ada"), "the end of sshd's processes", 20)
    # What ran in the container is killed once its session has ended.
    wait_for(lambda: not matching(tailnet.server, "^sleep 300"), "the end of what they ran", 20)
    assert tailnet.server.run("pgrep", "-f", "^sleep 4321").stdout != ""
    assert is_refused(tailnet.ssh("ada", ADA, "true"))


@pytest.mark.parametrize(
    "peers",
    [re.sub("ada@", "bob@", PEERS), re.sub("(?m)^.*ada@.*$", "", PEERS)],
    ids=["given away", "removed"],
)
def test_sessions_end_with_the_place_in_the_tailnet(tailnet, two_sessions, peers):
    server, kit = tailnet.server, tailnet.outside["kit"]
    stays = kit.start("exec sleep 77")
    wait_for(lambda: sessions_of(server, "kit"), "Kit's session")
    server.run("systemctl", "start", "tank-tailnet.service")
    assert [session.poll() for session in two_sessions] == [None, None]
    server.put(FILE, peers)
    try:
        server.run("systemctl", "start", "tank-tailnet.service")  # as its timer does
        assert_that_access_has_ended(tailnet, two_sessions)
    finally:
        server.put(FILE, PEERS)
    assert stays.poll() is None
    stays.kill()
    stays.wait()


def test_the_timer_asks_again_by_itself(tailnet):
    show = ["systemctl", "show", "-P", "LastTriggerUSec", "tank-tailnet.timer"]
    wait_for(lambda: tailnet.server.run(*show).stdout.strip(), "its first time", 60)
    assert tailnet.server.run("systemctl", "is-enabled", "tank-tailnet.timer").stdout == "enabled\n"


def test_verify_sees_users_that_nobody_asks_and_machines_of_a_person(tailnet):
    server = tailnet.server
    for step in ("60", "70", "80"):
        assert server.verify("--only", step).returncode == 0
    server.run("gpasswd", "--delete", "ada", "tank-tailnet")
    try:
        done = server.verify("--only", "70", check=False)
    finally:
        server.run("gpasswd", "--add", "ada", "tank-tailnet")
    assert done.returncode == 1
    assert "FAILED   70-users                    whose credential is the tailnet" in done.stdout
    state = server.read("/var/lib/tailscale/stand-in")
    server.put("/var/lib/tailscale/stand-in", "tank-1\n\n")
    try:
        done = server.verify("--only", "60", check=False)
    finally:
        server.put("/var/lib/tailscale/stand-in", state)
    assert done.returncode == 1
    assert "this machine is no person's device: no tags; see TAILSCALE_TAGS" in done.stdout


def test_a_login_that_is_taken_away_ends_access_at_once(tailnet, two_sessions):
    """The last test of Ada."""
    server = tailnet.server
    said = server.run("tank", "user", "set", "ada", "--tailscale", "none").stdout
    assert said == "ada may log in from a device of nobody\n"
    assert_that_access_has_ended(tailnet, two_sessions)
    assert "ended" in [event for event in tailnet.events() if event["user"] == "ada"][-2]
    server.run("tank", "user", "set", "ada", "--tailscale", "bob@example.com")
    assert tailnet.ssh("ada", BOB, "id -un").stdout == "ada\n"
    assert is_refused(tailnet.ssh("ada", ADA, "true"))
