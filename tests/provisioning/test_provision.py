"""provisioning/provision.sh: the order of steps, what it says, and how it ends.

The steps are small ones in a copy of the scripts.
"""

import shutil
import subprocess

import pytest
from machine import PROVISIONING, ROOT

NEVER_DONE = "apply() { [[ $DRY_RUN == 1 ]] && echo 'would try' || echo tried; }\n"


@pytest.fixture
def provision(machine, tmp_path):
    """Run provision.sh with steps of our own, given as NAME=SCRIPT."""
    copy = tmp_path / "checkout/provisioning"
    shutil.copytree(PROVISIONING, copy, ignore=shutil.ignore_patterns("steps", "__pycache__"))
    (copy / "steps").mkdir()

    def run(*arguments, script="provision.sh", steps=None, **variables):
        for name, text in (steps or {}).items():
            (copy / f"steps/{name}.sh").write_text(text)
        return machine.execute(
            copy / script, *arguments, "--config", machine.configuration, **variables
        )

    run("list", steps={
        "10-preflight": "apply() { :; }\n",
        "20-first": "apply() { write_file /etc/first 0644 <<<first; }\n",
        "30-second": "skip_reason() { [[ $GPU == yes ]] || echo 'no GPU'; }\n"
                     "apply() { write_file /etc/second 0644 <<<second; }\n",
    })  # fmt: skip
    return run


def test_second_run_changes_nothing_and_says_so(machine, provision):
    first = provision()
    assert first.returncode == 0
    assert first.stdout.splitlines()[:-1] == [
        "10-preflight: nothing to do",
        "20-first: ...",
        "written /etc/first",
        "20-first: done",
        "30-second: skipped (no GPU)",
    ]
    second = provision()
    assert second.stdout.splitlines()[1:] == [
        "20-first: nothing to do",
        "30-second: skipped (no GPU)",
        "nothing changed: this machine is as it should be",
    ]


def test_what_is_said_is_in_the_journal(machine, provision):
    provision()
    logged = machine.called("logger")
    assert "-t tank-provision -p daemon.info -- [20-first] written /etc/first" in logged


def test_dry_run_changes_nothing(machine, provision):
    done = provision("--dry-run")
    assert "would write /etc/first" in done.stdout
    assert "  +first" in done.stdout
    assert done.stdout.endswith("dry run: nothing was changed\n")
    assert not machine.path("/etc/first").exists()


def test_only_and_from_keep_preflight(machine, provision):
    machine.configure(GPU="yes")
    done = provision("--only", "30")
    assert machine.path("/etc/second").exists()
    assert not machine.path("/etc/first").exists()
    assert done.stdout.startswith("10-preflight: ")
    machine.path("/etc/second").unlink()
    provision("--from", "30-second")
    assert machine.path("/etc/second").exists()
    assert not machine.path("/etc/first").exists()


def test_failing_preflight_stops_everything(machine, provision):
    refuse = "is_done() { false; }\napply() { fail 'no disk' 'buy one'; }\n"
    done = provision("--only", "20", steps={"10-preflight": refuse})
    assert done.returncode == 1
    assert "error: [10-preflight] no disk\n  buy one\n" in done.stderr
    assert not machine.path("/etc/first").exists()


def test_failing_step_is_named_with_the_way_to_go_on(machine, provision):
    done = provision(steps={"20-first": "apply() { echo would; fail 'no room' 'make some'; }\n"})
    assert done.returncode == 1
    assert "error: [20-first] no room\n  make some\n" in done.stderr
    assert "step 20-first failed; mend what is said above, then go on: " in done.stderr
    assert done.stderr.endswith("provision.sh --from 20-first\n")
    assert "30-second" not in done.stdout
    assert any("step 20-first failed" in call for call in machine.called("logger"))


def test_step_that_leaves_something_to_do_has_failed(provision):
    done = provision(steps={"20-first": NEVER_DONE})
    assert done.returncode == 1
    assert "error: [20-first] something is left to do after it ran\n" in done.stderr


def test_interrupted_step_is_repeated(machine, provision):
    steps = {"20-first": "apply() { write_file /etc/one 0644 <<<1\n"
                         "[[ -e $SYSROOT/power ]] || kill -9 $$\n"
                         "write_file /etc/two 0644 <<<2; }\n"}  # fmt: skip
    machine.put("/power", "")
    assert provision(steps=steps).returncode == 0
    machine.path("/etc/two").unlink()
    machine.path("/power").unlink()
    assert provision().returncode == 1
    machine.put("/power", "")
    done = provision()
    assert done.returncode == 0
    assert "unchanged /etc/one\nwritten /etc/two\n" in done.stdout


def test_reboot_is_asked_for_and_the_run_goes_on_after_it(machine, provision):
    steps = {"20-first": "is_done() { rebooted_since; }\n"
                         "apply() { needs_reboot 'new driver'; }\n"}  # fmt: skip
    done = provision(steps=steps)
    assert done.returncode == 3
    assert "reboot needed: new driver\nreboot this machine, then go on: " in done.stdout
    machine.path("/run/tank/reboot").unlink()
    assert provision().returncode == 0


def test_two_runs_at_once(machine, provision):
    lock = machine.path("/run/lock/tank-provision")
    lock.parent.mkdir(parents=True)
    with subprocess.Popen(
        ["flock", lock, "sh", "-c", "echo locked; cat"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    ) as holder:  # fmt: skip
        assert holder.stdout.readline() == "locked\n"
        done = provision()
        holder.communicate("")
    assert done.returncode == 4
    assert "another run of provision.sh is going on" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--fast"], "--fast: unknown argument"),
        (
            ["--only", "99"],
            "got 99; the steps are: 10-preflight 20-first 30-second",
        ),
    ],
)
def test_usage_errors(provision, arguments, message):
    done = provision(*arguments)
    assert done.returncode == 2
    assert message in done.stderr


def test_only_root_provisions(machine, provision):
    machine.program("id", "echo 1000")
    done = provision()
    assert done.returncode == 1
    assert "provisioning needs root\n  sudo " in done.stderr


def test_every_step_of_the_repository_can_be_applied():
    files = sorted((ROOT / "provisioning/steps").glob("*.sh"))
    assert [path.name[:3] for path in files[:6]] == ["10-", "20-", "30-", "40-", "50-", "60-"]
    assert [path.name for path in files if "\napply() {" not in path.read_text()] == []
