"""The steps 70-users and 80-login on a machine of files and fake programs."""

import json

import pytest

PACKAGES = """python3 passwd iproute2 openssh-client procps e2fsprogs quota openssh-server
openssh-sftp-server sudo libpam-net"""
DEBIAN = "Include /etc/ssh/sshd_config.d/*.conf\nUsePAM yes\nSubsystem\tsftp\t{}\n"
SERVER = "/usr/lib/openssh/sftp-server"


@pytest.fixture
def login(machine):
    """A machine with the packages; the group exists once it was made."""
    for name in PACKAGES.split():
        machine.install(name)
    groups = machine.root / "groups"
    groups.mkdir()
    machine.program("getent", f'[[ -e {groups}/$2 ]] && echo "$2:x:999:"')
    machine.program("groupadd", f"touch {groups}/$2")
    # Services started after everything that is written here.
    machine.program("systemctl", "[[ $1 != show ]] || echo 2099-01-01 00:00:00 UTC")
    machine.program("sshd", "")
    machine.program("visudo", "")
    machine.program("add-shell", f'echo "$1" >>{machine.root}/etc/shells')
    machine.put("/etc/shells", "/bin/sh\n")
    machine.put("/etc/ssh/sshd_config", DEBIAN.format(SERVER))
    return machine


def test_users_json_is_what_the_configuration_says(login):
    login.configure(
        TANK_IMAGE='a"b\\c', TANK_CONTACT="Zoë", USER_CPUS="1.5", USER_MEMORY="8g", USER_DISK="1T"
    )
    done = login.step("70")
    assert done.returncode == 0, done.stderr
    assert json.loads(login.path("/etc/tank/users.json").read_text()) == {
        "image": 'a"b\\c',
        "contact": "Zoë",
        "quota": {
            "cpus": 1.5,
            "memory": "8g",
            "shm": None,
            "pids": 8192,
            "gpus": "all",
            "disk": "1t",
        },
    }
    assert login.called("groupadd") == ["--system tank", "--system tank-tailnet"]


@pytest.mark.slow
@pytest.mark.parametrize("step", ["70", "80"])
def test_a_second_run_changes_nothing(login, step):
    assert login.step(step, "is_done").returncode != 0
    done = login.step(step)
    assert done.returncode == 0, done.stderr
    before = {path: path.stat().st_mtime_ns for path in login.root.rglob("*") if path.is_file()}
    done = login.step(step, "is_done")
    assert (done.returncode, done.stderr) == (0, "")
    assert login.step(step).returncode == 0
    assert {
        path: path.stat().st_mtime_ns for path in login.root.rglob("*") if path.is_file()
    } == before


@pytest.mark.slow
def test_what_is_installed_is_compiled(login):
    """Else the first program that runs as root would do it: verify.sh, which changes nothing."""
    login.step("70")
    library = login.path("/usr/local/lib/tank/tank")
    compiled = [path.name.split(".")[0] for path in library.glob("__pycache__/*.pyc")]
    assert sorted(compiled) == sorted(path.stem for path in library.glob("*.py"))
    (library / "cli.py").touch()
    assert login.step("70", "is_done").returncode != 0
    assert "compile the command tank" in login.step("70").stdout
    assert login.step("70", "is_done").returncode == 0


def test_modes_of_what_is_installed(login):
    login.step("70")
    login.step("80")
    modes = {
        "/etc/sudoers.d/tank": 0o440,
        "/usr/local/bin/tank": 0o755,
        "/usr/local/bin/tank-login": 0o755,
        "/usr/local/lib/tank/tank-session": 0o755,
        "/usr/local/lib/tank/tank-tailnet": 0o755,
        "/usr/local/lib/tank/tank/session.py": 0o644,
        "/etc/pam.d/sshd": 0o644,
    }
    assert {path: login.path(path).stat().st_mode & 0o777 for path in modes} == modes
    assert login.path("/etc/shells").read_text() == "/bin/sh\n/usr/local/bin/tank-login\n"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (DEBIAN.format(SERVER), DEBIAN.format(SERVER)),
        ("Subsystem sftp internal-sftp -l INFO\nPort 22\n", f"Subsystem sftp {SERVER}\nPort 22\n"),
        ("Port 22\n", f"Port 22\nSubsystem sftp {SERVER}\n"),
        (
            "Port 22\nMatch Group x\n  Banner none\n",
            f"Port 22\nSubsystem sftp {SERVER}\nMatch Group x\n  Banner none\n",
        ),
    ],
)
def test_sftp_goes_through_the_login_shell(login, before, after):
    login.put("/etc/ssh/sshd_config", before)
    assert login.step("80").returncode == 0
    assert login.path("/etc/ssh/sshd_config").read_text() == after


def test_what_sshd_does_not_accept_is_taken_back(login):
    login.put("/etc/ssh/sshd_config", "Port 22\n")
    login.program("sshd", "echo 'line 1: Bad configuration option: Prot' >&2; exit 255")
    done = login.step("80")
    assert done.returncode == 1
    assert "sshd does not accept its new configuration; the old one is back" in done.stderr
    assert "Bad configuration option: Prot" in done.stderr
    assert login.path("/etc/ssh/sshd_config").read_text() == "Port 22\n"
    assert not login.path("/etc/ssh/sshd_config.d/tank.conf").exists()


def test_what_sudo_does_not_accept_is_not_written(login):
    login.program("visudo", "exit 1")
    done = login.step("80")
    assert done.returncode == 1
    assert "sudo does not accept" in done.stderr
    assert not login.path("/etc/sudoers.d/tank").exists()
