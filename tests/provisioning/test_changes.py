"""provisioning/lib: files are compared, kept and replaced whole; a plan changes nothing."""

import stat

import pytest

WRITE = "write_file /etc/made 0640 <<<new"


def test_file_is_written_once(machine):
    script = machine.script(WRITE)
    first = machine.step(script)
    assert first.stdout == "written /etc/made\n"
    made = machine.path("/etc/made")
    assert made.read_text() == "new\n"
    assert stat.S_IMODE(made.stat().st_mode) == 0o640
    assert machine.step(script).stdout == "unchanged /etc/made\n"
    assert sorted(path.name for path in made.parent.iterdir()) == ["made", "os-release"]


def test_old_file_is_kept_and_replaced(machine):
    old = machine.put("/etc/made", "old\n")
    machine.step(machine.script(WRITE))
    assert old.read_text() == "new\n"
    (kept,) = machine.path("/var/backups/tank/etc").iterdir()
    assert kept.name.startswith("made.")
    assert kept.read_text() == "old\n"
    assert stat.S_IMODE(machine.path("/var/backups/tank").stat().st_mode) == 0o700


def test_mode_alone_is_a_difference(machine):
    machine.put("/etc/made", "new\n").chmod(0o666)
    assert machine.step(machine.script(WRITE)).stdout == "written /etc/made\n"
    assert stat.S_IMODE(machine.path("/etc/made").stat().st_mode) == 0o640


def test_full_disk_leaves_the_old_file(machine):
    old = machine.put("/etc/made", "old\n")
    machine.program("install", "echo 'No space left on device' >&2; exit 1")
    machine.program("df", "echo Filesystem; echo '/dev/sda1 100% /'")
    done = machine.step(machine.script(WRITE + "\necho went on"))
    assert done.returncode == 1
    assert "error: [99-test] cannot write /etc/made" in done.stderr
    assert "/dev/sda1 100% /" in done.stderr
    assert "went on" not in done.stdout
    assert old.read_text() == "old\n"
    assert [path.name for path in old.parent.iterdir() if "new" in path.name] == []


def test_plan_shows_the_difference_and_changes_nothing(machine):
    old = machine.put("/etc/made", "old\n")
    script = machine.script(WRITE + "\nremove_file /etc/os-release\nchange 'start it' false")
    done = machine.step(script, DRY_RUN="1")
    assert done.returncode == 0
    assert "would write /etc/made\n" in done.stdout
    assert "  -old\n  +new\n" in done.stdout
    assert "would remove /etc/os-release\nwould start it\n" in done.stdout
    assert old.read_text() == "old\n"
    assert machine.path("/etc/os-release").exists()
    assert machine.called("logger") == []


def test_removed_file_is_kept(machine):
    machine.put("/etc/made", "old\n")
    done = machine.step(machine.script("remove_file /etc/made\nremove_file /etc/made"))
    assert done.stdout == "removed /etc/made\n"
    (kept,) = machine.path("/var/backups/tank/etc").iterdir()
    assert kept.read_text() == "old\n"


def test_failing_command_shows_its_output_and_ends_the_step(machine):
    script = machine.script("change 'start it' bash -c 'echo why; exit 4'\necho went on")
    done = machine.step(script)
    assert done.returncode == 1
    assert done.stdout == "start it\n"
    assert done.stderr == "error: [99-test] start it: exit status 4\n  why\n"


def test_any_failing_command_ends_the_step(machine):
    done = machine.step(machine.script("false\necho went on"))
    assert (done.returncode, done.stdout) == (1, "")


@pytest.mark.parametrize(("age", "restarts"), [(-60, 1), (60, 0)])
def test_restart_depends_on_what_is_younger(machine, age, restarts):
    """Also after an interruption between writing and restarting."""
    machine.put("/etc/made", "new\n")
    machine.program(
        "systemctl",
        f'[[ $1 != show ]] || date -u -d "{age} seconds" "+%a %Y-%m-%d %H:%M:%S.%6N UTC"',
    )
    machine.step(machine.script("restart_after some.service /etc/made /etc/absent"))
    assert machine.called("systemctl").count("restart some.service") == restarts


def test_reboot_ends_the_run_once(machine):
    script = machine.script("rebooted_since || needs_reboot 'new kernel'\necho went on")
    first = machine.step(script)
    assert (first.returncode, first.stdout) == (3, "reboot needed: new kernel\n")
    assert machine.step(script).returncode == 3
    machine.path("/run/tank/reboot").unlink()  # what a reboot does to /run
    after = machine.step(script)
    assert (after.returncode, after.stdout) == (0, "went on\n")


# --- the configuration


def test_unknown_name_in_the_configuration(machine):
    machine.configure(DRIVER_BRANCHE=580)
    done = machine.step(machine.script("true"))
    assert done.returncode == 1
    assert "sets what tank.conf does not know: DRIVER_BRANCHE" in done.stderr


def test_configuration_that_others_can_change(machine):
    machine.configuration.chmod(0o666)
    done = machine.step(machine.script("true"))
    assert done.returncode == 1
    assert "can be changed by others than root" in done.stderr
    assert f"chown root {machine.configuration}; chmod go-w" in done.stderr


def test_own_configuration_is_found_and_overrides(machine):
    script = machine.script('echo "$DRIVER_BRANCH $DRIVER"')
    machine.put("/etc/tank/tank.conf", "DRIVER_BRANCH=590\n").chmod(0o644)
    assert machine.step(script, CONFIG_FILE="").stdout == "590 vendor\n"
