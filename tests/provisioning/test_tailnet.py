"""Users whose credential is a device in the tailnet: who is let in, and whose sessions end."""

import json
import os
import signal
import subprocess
import sys
from types import SimpleNamespace

import pytest
from tank import store, tailnet
from tank.errors import TankError
from tank.store import BOTH, KEY, TAILNET, State, User
from tank.tailnet import end_sessions  # the fixture `site` has another one in its place
from tank_machine import refused

ADDRESS = "100.64.0.7"
DOWN = (
    "Failed to connect to local Tailscale daemon for /localapi/v0/whois; not running? Error: dial "
    "unix /var/run/tailscale/tailscaled.sock: connect: no such file or directory\n"
)


def device(login="ada@example.com", addresses=(f"{ADDRESS}/32", "fd7a:115c:a1e0::7/128"), **node):
    """What `tailscale whois --json` prints, of the fields that matter."""
    found = {
        "Node": {"Name": "laptop.tail.ts.net.", "User": 7, "Addresses": addresses, **node},
        "UserProfile": {"ID": 7, "LoginName": login, "DisplayName": "Ada"},
        "CapMap": None,
    }
    return json.dumps(found)


class Tailscale:
    """The program: its answer, and what it was asked."""

    def __init__(self):
        self.output, self.errors, self.status = device(), "", 0
        self.later = None
        self.sockets = ""
        self.asked = []

    def say(self, output="", errors="", status=0):
        self.output, self.errors, self.status = output, errors, status

    def run(self, words, **options):
        if words[0] == "ss":
            return subprocess.CompletedProcess(words, 0, self.sockets, "")
        assert words[:3] == ["tailscale", "whois", "--json"]
        self.asked.append(words[3])
        if isinstance(self.output, Exception):
            raise self.output
        answered = subprocess.CompletedProcess(words, self.status, self.output, self.errors)
        if self.later is not None:
            self.say(self.later)
        return answered


@pytest.fixture
def tailscale(monkeypatch):
    made = Tailscale()
    names = {name: getattr(subprocess, name) for name in ("DEVNULL", "TimeoutExpired")}
    monkeypatch.setattr(tailnet, "subprocess", SimpleNamespace(run=made.run, **names))
    monkeypatch.setattr(tailnet, "PAUSE", 0)
    return made


def state(**users):
    """A state of users with these credentials, whose login is that of `device`."""
    return State(
        {
            name: User(uid, 1000, "/home", credential=credential, tailscale="ada@example.com")
            for uid, (name, credential) in enumerate(users.items(), 1000)
        }
    )


@pytest.mark.parametrize("remote", [ADDRESS, "fd7a:115c:a1e0::7", "::ffff:100.64.0.7"])
def test_the_owner_of_a_device(tailscale, remote):
    assert tailnet.owner(remote) == "ada@example.com"
    assert tailscale.asked == [remote.removeprefix("::ffff:")]


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ({"errors": "peer not found\n", "status": 1}, "which is none now"),
        ({"output": device(Tags=["tag:ci"])}, "got one with the tags tag:ci"),
        ({"output": device(Expired=True)}, "an expired or another one"),
        ({"output": device(addresses=["100.64.0.8/32"])}, "an expired or another one"),
        ({"output": "{}"}, "expected the device of 100.64.0.7, got {}"),
        ({"output": "[]"}, "expected the device of"),
        ({"output": "null"}, "expected the device of"),
    ],
)
def test_what_is_nobodys_device(tailscale, answer, message):
    tailscale.say(**answer)
    with pytest.raises(TankError, match=message) as caught:
        tailnet.owner(ADDRESS)
    assert not isinstance(caught.value, tailnet.NoAnswerError)


@pytest.mark.parametrize(
    "answer",
    [
        {"errors": DOWN, "status": 1},
        {"output": FileNotFoundError("tailscale")},
        {"output": subprocess.TimeoutExpired("tailscale", 10)},
        {"output": "no json"},
    ],
)
def test_tailscale_that_does_not_tell(tailscale, answer):
    tailscale.say(**answer)
    with pytest.raises(tailnet.NoAnswerError, match="tailscale"):
        tailnet.owner(ADDRESS)


@pytest.mark.parametrize(
    "remote",
    ["203.0.113.5", "100.63.255.255", "100.128.0.0", "fd7a:115c:a1e1::7", "127.0.0.1", "::1", "",
     "laptop.tail.ts.net", "UNKNOWN", "100.64.0.7 ", "--help"],
)  # fmt: skip
def test_addresses_outside_of_the_tailnet_are_not_even_asked_for(tailscale, remote):
    with pytest.raises(TankError, match="expected an? (address|device)"):
        tailnet.owner(remote)
    assert tailscale.asked == []


@pytest.mark.parametrize(
    ("credential", "login", "auth", "account"),
    [
        (TAILNET, "ada@example.com", 0, 0),
        (BOTH, "ada@example.com", 1, 0),  # 'none' is not enough, a key comes first
        (TAILNET, "bob@example.com", 1, 1),
        (BOTH, "bob@example.com", 1, 1),
        (KEY, "ada@example.com", 1, 1),  # in the group by a half-done change
    ],
)
def test_what_pam_is_told(site, tailscale, credential, login, auth, account):
    tailscale.say(device(login))
    with store.change() as known:
        known.users = state(ada=credential).users
    assert tailnet.answer("auth", "ada", ADDRESS) == auth
    assert tailnet.answer("account", "ada", ADDRESS) == account
    recorded = [fields for event, fields in site.events if event == "tailnet"]
    assert ("owner" in recorded[-1]) == (account == 0)
    assert tailnet.answer("account", "eve", ADDRESS) == 1


@pytest.mark.parametrize(
    ("words", "environment"),
    [
        ([], {}),
        ([], {"PAM_TYPE": "open_session", "PAM_USER": "ada", "PAM_RHOST": ADDRESS}),
        (["account"], {"PAM_TYPE": "account", "PAM_USER": "ada", "PAM_RHOST": ADDRESS}),
        ([], {"PAM_TYPE": "account"}),
    ],
)
def test_anything_else_is_refused(site, tailscale, monkeypatch, words, environment):
    with store.change() as known:
        known.users = state(ada=TAILNET).users
    monkeypatch.setattr(sys, "argv", ["tank-tailnet", *words])
    monkeypatch.setattr(tailnet, "os", SimpleNamespace(environ=environment))
    assert tailnet.main() == 1


def test_a_state_that_cannot_be_read_lets_nobody_in(site, tailscale):
    store.STATE.parent.mkdir()
    store.STATE.write_text("{")
    with pytest.raises(ValueError):
        tailnet.answer("account", "ada", ADDRESS)


# --- sessions that are open

SOCKETS = (
    "ESTAB 0 0 100.101.102.103:22 {remote}:50000 "
    'users:(("sshd",pid={pid},fd=4),("sshd",pid=1,fd=4))\n'
    'ESTAB 0 0 192.0.2.1:40000 192.0.2.2:443 users:(("curl",pid={pid},fd=4))\n'
    "ESTAB 0 0 192.0.2.1:40000 192.0.2.2:443\n"
)


@pytest.fixture
def session(site, tailscale, monkeypatch):
    """A process that stands for sshd's of Ada; returns a function that starts it."""
    started = []

    def start(credential=TAILNET, remote=ADDRESS):
        with store.change() as known:
            known.users = state(ada=credential, bob=KEY).users
        child = subprocess.Popen(["sleep", "60"])
        started.append(child)
        monkeypatch.setattr(tailnet, "_uid", {child.pid: 1000, 1: 0}.get)
        tailscale.sockets = SOCKETS.format(remote=remote, pid=child.pid)
        return child

    yield start
    for child in started:
        child.kill()
        child.wait()


@pytest.mark.parametrize(
    ("answer", "asked"),
    [
        ({"output": device("bob@example.com")}, 1),  # it was given to somebody else
        ({"errors": "peer not found\n", "status": 1}, 1),
        ({"errors": DOWN, "status": 1}, 3),
    ],
)
def test_a_session_ends_with_the_proof(site, tailscale, session, answer, asked):
    child = session()
    end_sessions()
    assert child.poll() is None
    tailscale.asked.clear()
    tailscale.say(**answer)
    end_sessions("bob")
    assert (child.poll(), tailscale.asked) == (None, [])
    end_sessions()
    assert child.wait(10) == -signal.SIGKILL
    assert tailscale.asked == [ADDRESS] * asked
    assert [fields["user"] for event, fields in site.events if event == "tailnet"] == ["ada"]


def test_a_session_outlives_a_restart_of_tailscaled(tailscale, session):
    child = session()
    tailscale.say(errors=DOWN, status=1)
    tailscale.later = device()
    end_sessions()
    assert child.poll() is None
    assert len(tailscale.asked) == 2


def test_a_session_from_elsewhere_ends_and_one_with_a_key_stays(session):
    assert end_sessions() is None  # nobody has the tailnet as credential: nothing is asked
    child = session(KEY, "203.0.113.5")
    end_sessions()
    assert child.poll() is None
    child = session(BOTH, "203.0.113.5")
    end_sessions("ada")
    assert child.wait(10) == -signal.SIGKILL


def test_the_uid_of_a_process():
    assert tailnet._uid(os.getpid()) == os.getuid()
    assert tailnet._uid(2**22 + 1) is None


# --- what administrators say


def member_changes(site):
    return [words[1:] for words in site.events if words[0] == "gpasswd"]


def credential_of(name):
    user = store.load().users[name]
    return user.credential, user.tailscale


def test_what_is_given_is_the_credential(site, capsys):
    site.add("ada")
    site.tank("user", "add", "bob", "--tailscale", "bob@example.com")
    site.add("eve", "--tailscale", "eve@github")
    assert credential_of("ada") == (KEY, None)
    assert credential_of("bob") == (TAILNET, "bob@example.com")
    assert credential_of("eve") == (BOTH, "eve@github")
    assert member_changes(site) == [
        ("--add", "bob", "tank-tailnet"), ("--add", "eve", "tank-tailnet")
    ]  # fmt: skip
    assert capsys.readouterr().out.splitlines() == [
        "ada may log in: ssh ada@THIS-MACHINE",
        "bob may log in from a device of bob@example.com: ssh bob@THIS-MACHINE",
        "eve may log in from a device of eve@github, with a key: ssh eve@THIS-MACHINE",
    ]


def test_a_login_beside_a_key_asks_for_both_until_told_otherwise(site):
    site.add("ada")
    site.tank("user", "set", "ada", "--tailscale", "ada@example.com")
    assert credential_of("ada") == (BOTH, "ada@example.com")
    site.tank("user", "set", "ada", "--credential", "tailnet")
    assert credential_of("ada") == (TAILNET, "ada@example.com")
    site.tank("user", "set", "ada", "--credential", "key")
    assert credential_of("ada") == (KEY, "ada@example.com")
    assert member_changes(site) == [
        ("--add", "ada", "tank-tailnet"), ("--delete", "ada", "tank-tailnet")
    ]  # fmt: skip
    assert [words for words in site.events if words[0] == "end"] == [("end", "ada")] * 3


def test_a_login_that_is_taken_away_lets_nobody_in(site, capsys):
    """Not even with a key that the user has put into the home."""
    site.tank("user", "add", "ada", "--tailscale", "ada@example.com")
    site.tank("user", "set", "ada", "--tailscale", "none")
    assert credential_of("ada") == (TAILNET, None)
    assert capsys.readouterr().out.endswith("ada may log in from a device of nobody\n")
    with pytest.raises(TankError, match="no identity in the tailnet any more"):
        tailnet.prove(store.load(), "ada", ADDRESS)
    site.tank("user", "list")
    assert capsys.readouterr().out.endswith("nobody\n")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["ada", "--tailscale", "bob@example.com"], "is the tailnet identity of bob already"),
        (["ada", "--tailscale", "tagged-devices"], "expected a person's login such as"),
        (["ada", "--tailscale", "a b"], "expected a person's login such as"),
        (["ada", "--credential", "tailnet"], "expected --tailscale LOGIN, too"),
        (["ada"], "expected something to change"),
    ],
)
def test_logins_that_are_refused(site, words, message):
    site.add("ada")
    site.tank("user", "add", "bob", "--tailscale", "bob@example.com")
    assert message in refused(site, "user", "set", *words)
    assert credential_of("ada") == (KEY, None)
    assert member_changes(site) == [("--add", "bob", "tank-tailnet")]


def test_a_state_from_before_there_was_a_choice(site):
    site.add("ada")
    old = json.loads(store.STATE.read_text())
    del old["users"]["ada"]["credential"], old["users"]["ada"]["quota"]["disk"]
    old["users"]["ada"]["tailscale"] = "ada@example.com"
    store.STATE.write_text(json.dumps(old))
    assert credential_of("ada") == (KEY, "ada@example.com")
