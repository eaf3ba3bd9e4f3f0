"""Provisioning and login on a kernel of its own: an emulated Debian 12 that really reboots.

What the servers of test_provision.py and test_login.py cannot show: modules, cgroup v2, AppArmor,
netfilter and network namespaces of Debian's own kernel, and what a reboot leaves. The tests are
steps, each on the machine that the one before it left.
"""

import platform
import random

import pytest
from engine_tools import command
from login_tools import Client
from vm import TANK, TANK_FILE, build_images, running

pytestmark = [pytest.mark.platform, pytest.mark.timeout(1200)]

# Every file of the configuration and every package, in one number.
STATE = "find /etc /usr/local /var/lib/dpkg -xdev -type f -printf '%p %T@ %s\\n' | sort | sha256sum"
STEPS = [
    "20-base", "30-nvidia-driver", "40-docker", "50-nvidia-container-toolkit", "60-tailscale",
    "70-users", "80-login",
]  # fmt: skip


@pytest.fixture(scope="module")
def vm(box_image, box_checkout):
    """A bare machine; the driver's stand-in is refused by the kernel until the next boot."""
    build_images(box_checkout)
    with running(box_checkout) as machine:
        machine.configure(GPU="yes", TAILSCALE="yes", TANK_IMAGE=TANK)
        machine.put("/etc/tank/tailscale.key", "tskey-auth-good-1\n", mode="0600")
        machine.run("touch", "/run/no-gpu")
        yield machine


@pytest.fixture(scope="module")
def ada(vm, tmp_path_factory):
    """A user with a container that may use little."""
    client = Client("ada", tmp_path_factory.mktemp("clients") / "ada", "127.0.0.1", vm.root.port)
    key = client.prepare()
    vm.run("docker", "load", "-q", "-i", TANK_FILE)
    quota = ["--cpus", "1.5", "--memory", "300m", "--disk", "30m"]
    vm.run("tank", "user", "add", "ada", "--key", "-", *quota, text=key)
    return client


def test_it_is_a_machine_of_its_own(vm):
    kernel, virtual, groups = vm.shell(
        "uname -r; systemd-detect-virt; stat -fc %T /sys/fs/cgroup"
    ).stdout.split()
    assert kernel != platform.release()
    assert (virtual, groups) == ("qemu", "cgroup2fs")


def test_the_first_run_ends_at_the_reboot_that_the_driver_needs(vm):
    done = vm.provision(check=False, timeout=1000)
    assert done.returncode == 3, done.stdout + done.stderr
    assert "reboot needed: the NVIDIA driver: the module 580.95.05 is not loaded" in done.stdout
    assert "40-docker" not in done.stdout


def test_the_next_run_goes_on_after_it(vm):
    vm.reboot()
    done = vm.provision(timeout=1000)
    ends = [
        line for line in done.stdout.splitlines() if line.endswith((": done", ": nothing to do"))
    ]
    assert ends[0] == "10-preflight: nothing to do"
    assert [line.split(":")[0] for line in ends[1:]] == STEPS
    assert "20-base: nothing to do" in ends
    assert "40-docker: done" in ends


def test_another_run_changes_nothing_and_says_so(vm):
    before = vm.shell(STATE).stdout
    said = vm.provision().stdout
    assert said.endswith("nothing changed: this machine is as it should be\n")
    assert vm.shell(STATE).stdout == before


def test_verify_passes(vm):
    table = vm.verify(check=False)
    assert table.stdout.endswith(" 0 failed\n"), table.stdout
    assert "driver fits the lock: the lock needs 580, loaded is 580.95.05" in table.stdout


def test_devices_survive_daemon_reload(vm, ada):
    """Reports O26, on the version of cgroups where it was reported."""
    vm.shell(f"modprobe fuse; docker run -d --name dev --device /dev/fuse {TANK} sleep 999")
    opened = ["docker", "exec", "dev", "bash", "-c", "exec 3<>/dev/fuse"]
    vm.run(*opened)
    vm.run("systemctl", "daemon-reload")
    vm.run(*opened)
    vm.run("docker", "rm", "-f", "dev")


def test_ssh_lands_in_the_container_with_its_quota(vm, ada):
    script = (
        "id -un; hostname; cat /proc/1/comm; cd /sys/fs/cgroup; cat memory.max cpu.max pids.max"
    )
    assert ada.ssh(script).stdout.splitlines() == [
        "ada", "tank-1-main", "docker-init", str(300 << 20), "150000 100000", "8192",
    ]  # fmt: skip
    assert ada.ssh("cat /proc/self/attr/current").stdout == "docker-default (enforce)\n"
    assert ada.ssh("python -c 'bytearray(2**30)'", check=False).returncode == 137


def test_a_home_grows_to_its_quota_and_no_further(ada):
    done = ada.ssh("head -c 40M /dev/zero >file", check=False)
    assert (done.returncode, "Disk quota exceeded" in done.stderr) == (1, True), done.stderr
    assert 29 << 20 < int(ada.ssh("stat -c %s file; rm file").stdout) < 30 << 20


@pytest.mark.parametrize("status", [0, 7, 137])
def test_exit_status(ada, status):
    script = "kill -9 $$" if status == 137 else f"exit {status}"
    done = ada.ssh(script, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (status, "", "")


def test_size_of_the_terminal(ada):
    terminal = ada.terminal("stty size")
    terminal.wait_for("33 101", seconds=120)
    assert terminal.end(seconds=120) == 0


COPIES = {
    "scp": ("scp -F {config} {here} box:copy", "scp -F {config} box:copy {here}"),
    "sftp": (
        "echo put {here} copy | sftp -q -b - -F {config} box",
        "echo get copy {here} | sftp -q -b - -F {config} box",
    ),
}


@pytest.mark.parametrize("program", COPIES)
def test_a_megabyte_there_and_back(ada, tmp_path, program):
    data = random.Random(1).randbytes(1_000_000)
    sent, back = tmp_path / "sent", tmp_path / "back"
    sent.write_bytes(data)
    for line, here in zip(COPIES[program], (sent, back), strict=True):
        command("bash", "-c", line.format(config=ada.configuration, here=here))
    assert back.read_bytes() == data
    assert ada.ssh("stat -c '%U %s' copy && rm copy").stdout == "ada 1000000\n"


def test_after_another_reboot(vm, ada):
    """The engine, the firewall and the way into the container come up by themselves."""
    ada.ssh("echo kept > file")
    vm.reboot()
    assert ada.ssh("cat file; hostname").stdout == "kept\ntank-1-main\n"
    assert "policy drop" in vm.run("nft", "list", "chain", "inet", "tank", "input").stdout
