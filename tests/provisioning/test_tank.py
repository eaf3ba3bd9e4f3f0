"""`tank`: users, containers, quotas, GPUs and upgrades, with a fake engine."""

import itertools
import json
import pwd
import socket
import tarfile
from types import SimpleNamespace

import pytest
from tank import gpus, store, verbs
from tank.errors import TankError
from tank_machine import IMAGE, LABELS, PUFFERTANK, refused


def flags_of(words):
    """Flags with one value as a dictionary, those that repeat as lists."""
    found = {}
    for name, value in itertools.pairwise(words):
        if name.startswith("--"):
            found.setdefault(name, []).append(value)
    return found


def test_flags_of_a_users_container(site):
    site.add("ada", "--cpus", "4", "--memory", "16g", "--shm", "2g")
    (words,) = site.created()
    assert words[-3:] == [IMAGE, "sleep", "infinity"]
    flags = flags_of(words)
    home = str(site.directory / "home/ada")
    uid, gid = site.accounts["ada"].pw_uid, site.accounts["ada"].pw_gid
    names = site.directory / "state/names/ada/main"
    files = flags.pop("--ulimit")[0].removeprefix("nofile=").split(":")
    assert files[0] == files[1]
    assert flags == {
        "--name": ["tank.ada.main"],
        "--hostname": ["tank-1-main"],
        "--label": ["io.puffertank.user=ada", "io.puffertank.container=main"],
        "--user": [f"{uid}:{gid}"],
        "--init": ["--cap-drop"],
        "--cap-drop": ["ALL"],
        "--security-opt": ["no-new-privileges"],
        "--pids-limit": ["8192"],
        "--shm-size": ["2g"],
        "--network": ["tank.ada"],
        "--mount": [
            f"type=bind,src={home},dst={home}",
            f"type=bind,src={names}/passwd,dst=/etc/passwd,readonly",
            f"type=bind,src={names}/group,dst=/etc/group,readonly",
            f"type=bind,src={site.directory}/run/ada,dst=/run/tank,readonly",
            f"type=bind,src={site.directory}/verbs,dst=/run/tank-verbs,readonly",
        ],
        "--workdir": [home],
        "--env": [
            f"HOME={home}", "USER=ada", "LOGNAME=ada", "SHELL=/bin/bash",
            f"PATH=/opt/venv/bin:/usr/bin:{home}/.local/bin",
        ],
        "--cpus": ["4"],
        "--memory": ["16g"],
        "--memory-swap": ["16g"],
    }  # fmt: skip
    assert (names / "passwd").read_text().splitlines()[-1] == f"ada:x:{uid}:{gid}::{home}:/bin/bash"
    assert "root:x:0:0:root:/root:/bin/bash" in (names / "passwd").read_text()
    assert site.statuses() == {"tank.ada.main": True}


def test_a_new_user(site):
    site.add("ada")
    assert ("useradd", "--create-home", "--shell", "/usr/local/bin/tank-login", "--groups", "tank",
            "ada") in site.events  # fmt: skip
    assert ("usermod", "--password", "*", "ada") in site.events
    keys = site.directory / "home/ada/.ssh/authorized_keys"
    assert keys.read_text().endswith("ada@home\n")
    assert keys.stat().st_mode & 0o777 == 0o600
    assert (site.directory / "home/ada").stat().st_mode & 0o777 == 0o700
    assert list((site.directory / "uids").iterdir()) == [
        site.directory / "uids" / str(site.accounts["ada"].pw_uid)
    ]


@pytest.mark.parametrize("name", ["", "Ada", "-ada", "ada;id", "ada.b", "a" * 32, "../x", "root\n"])
def test_names_that_are_refused(site, name):
    with pytest.raises(TankError, match="expected a name of small letters"):
        site.tank("user", "add", "--tailscale", "a@b", "--", name)
    assert site.events == []


def test_a_user_that_cannot_be_set_up_leaves_nothing(site):
    site.change_docker(networks=[], images={})
    assert "is not on this machine" in refused(site, "user", "add", "ada", "--tailscale", "a@b")
    assert site.accounts == {}
    site.change_docker(images={IMAGE: PUFFERTANK})
    blocker = site.directory / "run"
    blocker.write_text("in the way of the directory of sockets")
    with pytest.raises(OSError):
        site.add("ada")
    assert site.accounts == {}
    assert store.load().users == {}
    blocker.unlink()
    site.add("ada")
    assert list(store.load().users) == ["ada"]


def test_keys_are_checked(site):
    assert "expected --key FILE" in refused(site, "user", "add", "ada")
    file = site.directory / "key"
    file.write_text("-----BEGIN OPENSSH PRIVATE KEY-----\n")
    assert "expected a public key on each line" in refused(
        site, "user", "add", "ada", "--key", str(file)
    )
    assert site.accounts == {}


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--memory", "lots"], "memory: expected something like 64g, got 'lots'"),
        (["--cpus", "many"], "--cpus: expected a number or none, got 'many'"),
        (["--cpus", "-1"], "cpus: expected more than 0, got -1"),
        (["--gpus", "two"], "gpus: expected something like all or 2, got 'two'"),
    ],
)
def test_quotas_that_make_no_sense(site, flags, message):
    assert message in refused(site, "user", "add", "ada", "--tailscale", "a@b", *flags)
    assert site.accounts == {}


def test_a_quota_changes_with_the_next_reset(site, capsys):
    site.add("ada", "--memory", "16g")
    site.tank("user", "set", "ada", "--cpus", "2", "--memory", "none")
    site.tank("reset", "--user", "ada")
    flags = flags_of(site.created()[-1])
    assert flags["--cpus"] == ["2"]
    assert "--memory" not in flags
    capsys.readouterr()
    site.tank("user", "list")
    assert "2/all/half" in capsys.readouterr().out


def test_containers_of_a_user(site, capsys):
    site.add("ada")
    site.tank("new", "second", user="ada")
    site.tank("default", "second", user="ada")
    capsys.readouterr()
    site.tank("ls", user="ada")
    shown = capsys.readouterr().out.splitlines()
    assert [line.split()[:2] for line in shown[1:]] == [["ada", "main"], ["ada", "second"]]
    assert "second *" in shown[2]
    assert "the container that ssh enters" in refused(site, "rm", "second", user="ada")
    site.tank("rm", "main", user="ada")
    assert site.statuses() == {"tank.ada.second": True}
    assert (site.directory / "home/ada").is_dir()
    assert "expected a container of ada, got 'main'" in refused(site, "default", "main", user="ada")


def test_what_runs_is_not_ended_without_being_told(site):
    site.add("ada")
    containers = site.docker["containers"]
    containers["tank.ada.main"]["busy"] = ["3"]
    site.change_docker(containers=containers)
    for words in (["reset"], ["upgrade", "ada"]):
        user = None if words[0] == "upgrade" else "ada"
        with pytest.raises(TankError):
            site.tank(*words, user=user)
        assert len(site.created()) == 1
    site.tank("reset", "--yes", user="ada")
    assert len(site.created()) == 2


@pytest.mark.parametrize(
    "words",
    [["user", "list"], ["upgrade", "bob"], ["close", "x"], ["ls", "--user", "bob"],
     ["rm", "main", "--user", "bob"], ["frob"], ["new", "../x"], ["new", "a.b"]],
)  # fmt: skip
def test_users_have_no_verbs_about_others(site, words):
    site.add("ada")
    site.add("bob")
    before = site.docker["containers"]
    refused(site, *words, user="ada")
    assert site.docker["containers"] == before


def test_only_puffertank_images(site):
    site.change_docker(images={IMAGE: PUFFERTANK, "debian": {"Env": [], "Labels": None}})
    site.add("ada")
    assert "expected a PufferTank image" in refused(
        site, "new", "x", "--image", "debian", user="ada"
    )


def test_upgrade_and_back(site):
    site.add("ada")
    site.change_docker(images={IMAGE: PUFFERTANK, "new": PUFFERTANK})
    site.tank("upgrade", "ada", "--image", "new")
    assert site.docker["containers"]["tank.ada.main"]["image"] == "new"
    assert list(site.statuses()) == ["tank.ada.main"]
    site.tank("upgrade", "--all", "--back")
    assert site.docker["containers"]["tank.ada.main"]["image"] == IMAGE
    assert store.load().users["ada"].containers["main"].previous == "new"


def test_an_image_that_does_not_work_is_rolled_back(site, capsys):
    site.add("ada")
    site.change_docker(images={IMAGE: PUFFERTANK, "new": PUFFERTANK}, broken=["new"])
    assert refused(site, "upgrade", "ada", "--image", "new") == "tank: not upgraded: ada/main"
    assert (
        "main of ada stays on puffertank/tank:cpu: new does not work here"
        in capsys.readouterr().err
    )
    assert site.statuses() == {"tank.ada.main": True}
    assert site.docker["containers"]["tank.ada.main"]["image"] == IMAGE
    assert store.load().users["ada"].containers["main"].image == IMAGE


def test_removing_a_user_archives_the_home(site, capsys):
    site.add("ada")
    home = site.directory / "home/ada"
    (home / "runs").mkdir()
    (home / "runs/policy.pt").write_bytes(b"weights")
    (home / "link").symlink_to("/etc/passwd")
    site.tank("user", "rm", "ada")
    (archive,) = (site.directory / "archive").iterdir()
    assert archive.stat().st_mode & 0o777 == 0o600
    with tarfile.open(archive) as tar:
        assert tar.extractfile("ada/runs/policy.pt").read() == b"weights"
        assert tar.getmember("ada/link").issym()
    assert str(archive) in capsys.readouterr().out
    assert site.statuses() == {}
    assert site.docker["networks"] == []
    assert store.load().users == site.accounts == {}
    assert list((site.directory / "uids").iterdir()) == []


def test_a_home_that_cannot_be_archived_stays(site, monkeypatch):
    site.add("ada")
    monkeypatch.setattr(tarfile.TarFile, "add", lambda *_, **__: None)
    assert "has 0 of" in refused(site, "user", "rm", "ada")
    assert (site.directory / "home/ada/.ssh/authorized_keys").exists()


GPUS = [gpus.Gpu(str(i), f"GPU-{i}", "H200", "0", "0", "141") for i in range(3)]


def test_gpus_are_shared_or_leased(site, monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(gpus, "installed", lambda: GPUS)
    monkeypatch.setattr(gpus, "DEVICES", tmp_path)
    for node in ("nvidiactl", "nvidia-uvm", "nvidia0", "nvidia1", "nvidia2"):
        (tmp_path / node).touch()
    site.add("ada")
    site.add("bob", "--gpus", "2")
    shared, none = (flags_of(words) for words in site.created())
    assert shared["--gpus"] == ['"device=GPU-0,GPU-1,GPU-2"']
    assert shared["--device"] == [
        f"{tmp_path}/{node}"
        for node in ("nvidiactl", "nvidia-uvm", "nvidia0", "nvidia1", "nvidia2")
    ]
    assert "--gpus" not in none
    site.tank("gpu", "lease", "2", "--hours", "1", user="bob")
    assert flags_of(site.created()[-1])["--gpus"] == ['"device=GPU-0,GPU-1"']
    assert "may lease 2 GPUs and has 2" in refused(site, "gpu", "lease", "1", user="bob")
    site.tank("reset", user="ada")
    assert flags_of(site.created()[-1])["--gpus"] == ['"device=GPU-2"']
    capsys.readouterr()
    site.tank("gpu", "who", user="ada")
    shown = capsys.readouterr().out.splitlines()[1:]
    assert ["bob (main)" in line for line in shown] == [True, True, False]
    assert "shared" in shown[2]
    site.tank("user", "rm", "bob")
    assert store.load().leases == {}


def test_a_lease_that_has_run_out_is_free(site, monkeypatch):
    monkeypatch.setattr(gpus, "installed", lambda: GPUS[:1])
    site.add("ada")
    site.add("bob")
    site.tank("gpu", "lease", "1", "--hours", "1", user="ada")
    assert "expected 1 free GPUs, got 0" in refused(site, "gpu", "lease", "1", user="bob")
    later = gpus.time.time() + 3601
    monkeypatch.setattr(gpus.time, "time", lambda: later)
    site.tank("gpu", "lease", "1", user="bob")
    assert [lease.user for lease in store.load().leases.values()] == ["bob"]


def test_the_engine_is_down(site):
    site.add("ada")
    site.change_docker(down=True)
    for words in (["ls"], ["new", "x"], ["stats"]):
        assert "the container engine of this machine is down" in refused(site, *words, user="ada")


def test_a_closed_machine_starts_nothing(site):
    site.add("ada")
    site.tank("close", "new driver")
    assert site.statuses() == {"tank.ada.main": False}
    assert "no container is started at the moment: new driver" in refused(site, "reset", user="ada")
    site.tank("open")
    site.tank("reset", user="ada")
    assert site.statuses() == {"tank.ada.main": True}


def test_the_state_is_json_and_survives_a_failure(site):
    site.add("ada")
    before = store.STATE.read_text()
    assert json.loads(before)["users"]["ada"]["default"] == "main"

    def fail():
        with store.change() as state:
            state.users.clear()
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert store.STATE.read_text() == before


def test_the_configuration_is_what_new_users_get(site):
    quota = {"cpus": 2.0, "memory": "4g", "shm": None, "pids": 99, "gpus": "0"}
    store.CONFIGURATION.write_text(
        json.dumps({"image": "lab", "contact": "the lab", "quota": quota})
    )
    site.change_docker(images={"lab": {"Env": [], "Labels": LABELS}})
    site.add("ada")
    flags = flags_of(site.created()[0])
    assert (flags["--cpus"], flags["--memory"], flags["--pids-limit"]) == (["2"], ["4g"], ["99"])
    assert site.docker["containers"]["tank.ada.main"]["image"] == "lab"


def ask(request):
    """The answer of the socket to raw bytes of the user's who runs the tests."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.sendall(request)
        ours.shutdown(socket.SHUT_WR)
        return verbs.answer(theirs)


@pytest.fixture
def as_ada(site, monkeypatch):
    """Who connects is Ada."""
    site.add("ada")
    monkeypatch.setattr(pwd, "getpwuid", lambda uid: SimpleNamespace(pw_name="ada"))
    monkeypatch.setattr(verbs, "is_member", lambda name: name == "ada")
    return site


def test_verbs_from_inside_a_container(as_ada):
    assert ask(b"default\0") == (0, "main\n")
    status, shown = ask(b"ls\0")
    assert (status, shown.splitlines()[1].split()[:2]) == (0, ["ada", "main"])
    assert ask(b"ls\0--help\0")[0] == 0
    assert ask(b"user\0list\0")[0] == 2
    assert ask(b"ls\0--user\0bob\0")[0] == 2
    assert "works over ssh" in ask(b"enter\0")[1]


@pytest.mark.parametrize("request_", [b"", b"ls", b"\xff\0", b"x" * 5000 + b"\0", b"\0\0\0"])
def test_requests_that_make_no_sense(as_ada, request_):
    status, shown = ask(request_)
    assert status == 2
    assert shown.startswith("tank: ")


def test_the_kernel_says_who_connects(site):
    assert ask(b"ls\0")[0] == 1  # nobody's uid, or that of a user who is not in the group
