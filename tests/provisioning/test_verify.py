"""provisioning/verify.sh counts what is wrong, and the checks of the machine itself see it."""

import json
import os
import shutil

import pytest
from machine import PROVISIONING

CHECKS = PROVISIONING / "checks/machine.sh"


@pytest.fixture
def verify(machine, tmp_path):
    """Run verify.sh with two steps of our own, on a virtual machine (so without its checks)."""
    copy = tmp_path / "checkout/provisioning"
    shutil.copytree(PROVISIONING, copy, ignore=shutil.ignore_patterns("steps", "__pycache__"))
    (copy / "steps").mkdir()
    (copy / "steps/10-one.sh").write_text(
        "apply() { write_file /etc/one 0644 <<<one; }\n"
        "check() { false; expect first 'says so' test -e \"$SYSROOT/first\"\n"
        "expect second '' true; }\n"
    )
    (copy / "steps/20-two.sh").write_text("skip_reason() { echo 'no need'; }\napply() { :; }\n")
    machine.program("systemd-detect-virt", "exit 0")

    def run(*arguments):
        return machine.execute(copy / "verify.sh", *arguments, "--config", machine.configuration)

    return run


def test_exit_status_is_the_number_of_failures(machine, verify):
    done = verify()
    assert done.stdout.splitlines() == [
        "FAILED   10-one                      as provisioned: "
        "provision.sh --dry-run --only 10-one says what differs",
        "FAILED   10-one                      first: says so",
        "ok       10-one                      second",
        "skipped  20-two                      no need",
        "skipped  machine                     a container or a virtual machine",
        "5 checks, 2 failed",
    ]
    assert done.returncode == 2
    assert not machine.path("/etc/one").exists()
    machine.put("/etc/one", "one\n").chmod(0o644)
    assert verify().returncode == 1
    machine.put("/first", "")
    assert verify().returncode == 0


def test_json(verify):
    done = verify("--json", "--only", "10")
    report = json.loads(done.stdout)
    assert report["failed"] == done.returncode == 2
    assert report["checks"][1:] == [
        {"result": "FAILED", "step": "10-one", "name": "first", "detail": "says so"},
        {"result": "ok", "step": "10-one", "name": "second", "detail": ""},
    ]


def test_wrong_usage(verify):
    assert "99: no such step" in verify("--only", "99").stderr
    assert "--fast: unknown argument" in verify("--fast").stderr


# --- the machine itself


@pytest.fixture
def rows(machine):
    """The rows of one check, as {name: (result, detail)}; everything is quiet at first."""
    for name in ("journalctl", "lsblk", "smartctl"):
        machine.program(name, "exit 1")

    def check(function):
        done = machine.step(CHECKS, function)
        lines = (line.split("\t") for line in done.stdout.splitlines())
        return {name: (result, detail) for result, name, detail in lines}

    return check


def test_microcode(machine, rows):
    directory = "/sys/devices/system/cpu/vulnerabilities/"
    machine.put(directory + "meltdown", "Mitigation: PTI\n")
    assert rows("check_microcode") == {"microcode and mitigations": ("ok", "")}
    machine.put(directory + "mds", "Vulnerable: Clear CPU buffers attempted, no microcode\n")
    assert rows("check_microcode") == {"microcode and mitigations": ("FAILED", "open: mds")}


def test_machine_checks_and_memory_errors(machine, rows):
    machine.put("/sys/devices/system/edac/mc/mc0/ce_count", "0\n")
    machine.put("/sys/devices/system/edac/mc/mc0/ue_count", "0\n")
    assert rows("check_errors") == {
        "machine checks since boot": ("ok", "0"),
        "memory errors since boot": ("ok", "0"),
    }
    machine.put("/sys/devices/system/edac/mc/mc0/ce_count", "12\n")
    machine.program("journalctl", "echo 'mce: [Hardware Error]: Machine check events logged'")
    assert rows("check_errors") == {
        "machine checks since boot": ("FAILED", "1"),
        "memory errors since boot": ("FAILED", "12"),
    }


@pytest.mark.parametrize(
    ("ending", "expected"),
    [
        ("Reached target reboot.target - System Reboot.", ("ok", "0 of the last 2")),
        ("training step 1000", ("FAILED", "2 of the last 2")),
    ],
)
def test_boot_that_did_not_end_with_a_shutdown(machine, rows, ending, expected):
    boots = "echo ' -2 aaaa Mon'; echo ' -1 bbbb Tue'; echo '  0 cccc Wed'"
    machine.program("journalctl", f"case $* in *list-boots*) {boots} ;; *) echo '{ending}' ;; esac")
    assert rows("check_reboots") == {"unexpected reboots": expected}


def test_throttling(machine, rows):
    count = "/sys/devices/system/cpu/cpu3/thermal_throttle/core_throttle_count"
    machine.put(count, "0\n")
    machine.program("nvidia-smi", "echo 'Not Active'; echo 'Not Active'")
    assert rows("check_throttling") == {
        "CPU throttled by heat": ("ok", "0 times since boot"),
        "GPU slowed down by heat or power": ("ok", "Not Active Not Active"),
    }
    machine.put(count, "40\n")
    machine.program("nvidia-smi", "echo 'Not Active'; echo 'Active'")
    assert rows("check_throttling") == {
        "CPU throttled by heat": ("FAILED", "40 times since boot"),
        "GPU slowed down by heat or power": ("FAILED", "Not Active Active"),
    }


def test_disks(machine, rows):
    machine.program("lsblk", "printf '%s\\n' 'sda disk' 'sdb disk' 'nvme0n1 disk' 'sr0 rom'")
    machine.program(
        "smartctl",
        """
case $2 in
    */sda) echo 'SMART overall-health self-assessment test result: PASSED' ;;
    */sdb) echo 'SMART overall-health self-assessment test result: FAILED!' ;;
    *) echo 'Unable to detect device type' ;;
esac""",
    )
    machine.put("/sys/fs/ext4/sda1/errors_count", "3\n")
    assert rows("check_disks") == {
        "disk sda": ("ok", "PASSED"),
        "disk sdb": ("FAILED", "FAILED!"),
        "file system errors": ("FAILED", "3"),
    }


def test_disks_that_cannot_be_asked(machine, rows):
    machine.program("lsblk", "echo sda disk; echo sdb disk")
    machine.program("smartctl", "exit 127")
    assert rows("check_disks") == {
        "disks": ("FAILED", "smartmontools is not installed"),
        "file system errors": ("ok", "0"),
    }


@pytest.mark.parametrize(("slow", "result"), [("3", "FAILED"), ("", "ok")])
def test_core_is_slow_only_if_it_stays_so(machine, rows, slow, result):
    """The fake Python names core 3 each time, and another one once."""
    machine.program("python3", f'echo {slow}; mkdir "$HOME/once" 2>/dev/null && echo 5')
    detail = f"{slow} (below 70 % of their kind)" if slow else ""
    assert rows("check_slow_cores") == {"slow cores": (result, detail)}


def test_speeds_of_cores_are_compared_within_their_kind(machine):
    """The real measurement: no core of this machine is called slow against itself alone."""
    kinds = {core: f"{core}\n" for core in os.sched_getaffinity(0)}
    for core, frequency in kinds.items():
        machine.put(f"/sys/devices/system/cpu/cpu{core}/cpufreq/cpuinfo_max_freq", frequency)
    done = machine.step(CHECKS, "slow_cores")
    assert (done.returncode, done.stdout) == (0, "")


@pytest.mark.parametrize(("used", "result"), [(89, "ok"), (90, "FAILED")])
def test_space(machine, rows, used, result):
    machine.program("df", f"echo Use%; echo ' {used}%'")
    assert rows("check_space") == {"space on /var": (result, f"{used} % used")}
