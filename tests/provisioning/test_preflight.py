"""Preflight refuses what cannot work, with the remedy, before anything is touched."""

import re

import pytest
from machine import PROVISIONING

from pufferlib import lock


def sysroot(machine):
    return sorted(path for path in machine.root.rglob("*") if path.is_file())


def refused(machine):
    """Run preflight; returns what it says, having checked that nothing else happened."""
    before = sysroot(machine)
    done = machine.step("10")
    assert done.returncode == 1
    assert "this machine cannot be provisioned; nothing was changed" in done.stderr
    assert sysroot(machine) == before
    assert not [call for call in machine.called("apt-get") if "install" in call]
    assert machine.step("10", "is_done").returncode == 1
    return done.stderr


@pytest.mark.parametrize("gpu", [False, True])
def test_good_machine_passes(machine, gpu):
    if gpu:
        machine.gpu()
    assert machine.step("10", "is_done").returncode == 0
    done = machine.step("10")
    assert (done.returncode, done.stderr) == (0, "")


def test_other_release(machine):
    machine.put("/etc/os-release", 'ID=debian\nVERSION_ID="13"\nPRETTY_NAME="Debian 13 (trixie)"\n')
    assert "- expected Debian 12, found Debian 13 (trixie)" in refused(machine)


def test_no_systemd(machine):
    machine.path("/run/systemd/system").rmdir()
    assert "- systemd is not running" in refused(machine)


def test_no_disk(machine):
    machine.configure(MINIMUM_DISK_GB=30)
    machine.program("df", "echo Avail; echo '   7'")
    assert "- /var has 7 GB free, expected 30 (MINIMUM_DISK_GB)" in refused(machine)


def test_no_network(machine):
    machine.program("apt-helper", "exit 100")
    said = refused(machine)
    assert "mirror does not answer: http://mirror/debian/dists/bookworm/InRelease" in said
    assert "/etc/resolv.conf" in said


def test_sources_that_apt_cannot_read_are_left_to_the_steps(machine):
    """Such as two entries with different keys, which add_repository mends."""
    machine.program("apt-get", "echo 'E: Conflicting values set for option Signed-By'; exit 100")
    assert machine.step("10").returncode == 0


def test_no_package_source(machine):
    machine.program("apt-get", "")
    assert "- apt has no package source for bookworm" in refused(machine)


@pytest.mark.parametrize(
    ("route", "overlaps"),
    [
        ("172.30.4.0/22 dev eth0", True),
        ("172.16.0.0/12 dev eth0", True),
        ("172.30.0.0/24 dev br-0123", False),  # Docker's own
        ("172.31.0.0/16 dev eth0", False),
        ("default via 172.30.0.1 dev eth0", False),
    ],
)
def test_address_pool(machine, route, overlaps):
    machine.program("ip", f"echo '{route}'")
    if overlaps:
        expected = f"DOCKER_ADDRESS_POOL=172.30.0.0/16 overlaps the network {route.split()[0]}"
        assert expected in refused(machine)
    else:
        assert machine.step("10").returncode == 0


def test_secure_boot_without_enrolled_key(machine):
    machine.program("mokutil", '[[ $1 != --sb-state ]] || echo "SecureBoot enabled"')
    assert machine.step("10").returncode == 0  # nothing to sign without a GPU
    machine.gpu()
    said = refused(machine)
    assert "Secure Boot is on and no machine-owner key" in said
    assert "mokutil --import" in said


def test_secure_boot_with_enrolled_key(machine):
    machine.gpu()
    machine.program(
        "mokutil",
        'case $1 in --sb-state) echo "SecureBoot enabled" ;;'
        ' --test-key) echo "$2 is already enrolled"; exit 1 ;; esac',
    )
    assert machine.step("10").returncode == 0


def test_missing_headers(machine):
    machine.gpu()
    machine.program("apt-cache", "exit 100")
    machine.program("uname", "echo 6.1.0-99-amd64")
    said = refused(machine)
    assert "- linux-headers-6.1.0-99-amd64 is neither installed nor in the package lists" in said
    assert "apt-get install linux-image-amd64" in said


@pytest.mark.parametrize(("users", "passes"), [(3, False), (0, True)])
def test_nouveau(machine, users, passes):
    machine.gpu()
    machine.put("/proc/modules", f"nouveau 2400000 {users} - Live 0x0\n")
    if passes:
        assert machine.step("10").returncode == 0
    else:
        assert "nouveau drives this GPU and 3 users hold it" in refused(machine)


def test_driver_branch_below_the_lock_names_both(machine):
    machine.configure(DRIVER_BRANCH=570)
    expected = "- DRIVER_BRANCH=570 is older than the lock's CUDA needs (580)"
    assert expected in refused(machine)


def test_shipped_driver_branch_runs_the_locked_cuda():
    """tests/platform/test_cuda_lock.py ties MIN_DRIVER to the CUDA of the locked torch."""
    text = (PROVISIONING / "tank.conf").read_text()
    assert int(re.search(r"^DRIVER_BRANCH=(\d+)$", text, re.M)[1]) >= lock.MIN_DRIVER
    assert re.search(r"^DRIVER=(\w+)$", text, re.M)[1] == "vendor"


def test_numbers_of_the_lock_are_read(machine):
    """The scripts read lock.py as text: it must keep the form that they expect."""
    script = machine.script('echo "$(minimum_driver) $(minimum_compute_capability)"')
    major, minor = lock.MIN_COMPUTE_CAPABILITY
    assert machine.step(script).stdout == f"{lock.MIN_DRIVER} {major}.{minor}\n"


def test_driver_of_debian_is_too_old_for_the_lock(machine):
    machine.gpu()
    machine.configure(DRIVER="debian")
    assert "DRIVER=debian brings driver 535, the lock's CUDA needs 580" in refused(machine)


def test_unknown_driver_source(machine):
    machine.configure(DRIVER="nvidia")
    assert "DRIVER=nvidia: expected vendor, debian or none" in refused(machine)


def test_own_driver_that_is_too_old(machine):
    machine.gpu()
    machine.configure(DRIVER="none")
    machine.driver(loaded="535.261.03")
    assert "driver 535.261.03 is older than the lock's CUDA needs (580)" in refused(machine)
    machine.driver(loaded="580.95.05")
    assert machine.step("10").returncode == 0


def test_old_gpu_names_both_capabilities(machine):
    machine.gpu()
    machine.program("nvidia-smi", "echo 8.9; echo 7.0")
    expected = "a GPU has compute capability 7.0, the lock's CUDA needs 7.5"
    assert expected in refused(machine)


def test_all_reasons_at_once(machine):
    machine.configure(DRIVER="nvidia", MINIMUM_DISK_GB=900)
    said = refused(machine)
    assert said.count("\n  - ") == 2
