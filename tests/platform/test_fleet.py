"""`invoke fleet.…` against a provisioned server, over its real sshd."""

import os
import sys

import pytest
from engine_tools import ROOT, command

from pufferlib.lock import lock_hash

pytestmark = [pytest.mark.platform, pytest.mark.timeout(300)]

FLEET = """
checkout = "{checkout}"
[machines.tank-1]
host = "{address}"
user = "root"
[machines.gone]
host = "{address}"
port = 1
[users.ada]
key = "key.pub"
machines = ["tank-1"]
cpus = 2
"""


@pytest.fixture(scope="module")
def server(make_box, provisioned_image):
    return make_box(provisioned_image)


@pytest.fixture(scope="module")
def home(server, tmp_path_factory):
    """An administrator's own machine, whose key the server lets in."""
    home = tmp_path_factory.mktemp("home")
    (home / ".ssh").mkdir()
    command("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", home / ".ssh/id_ed25519")
    key = (home / ".ssh/id_ed25519.pub").read_text()
    (home / "key.pub").write_text(key)
    server.put("/root/.ssh/authorized_keys", key, "0600")
    kind, text, *_ = server.read("/etc/ssh/ssh_host_ed25519_key.pub").split()
    (home / ".ssh/known_hosts").write_text(f"{server.address} {kind} {text}\n")
    return home


@pytest.fixture
def fleet(server, home):
    """`invoke fleet.…`, with the checkout that the server has or another."""

    def run(task, *words, on="tank-1", checkout="/opt/puffertank"):
        (home / "fleet.toml").write_text(FLEET.format(address=server.address, checkout=checkout))
        options = ["--file", home / "fleet.toml", "--on", on]
        environment = {k: v for k, v in os.environ.items() if k != "SSH_AUTH_SOCK"}
        return command(
            sys.executable, "-m", "invoke", f"fleet.{task}", *words, *options,
            check=False, cwd=ROOT, env={**environment, "HOME": str(home)},
        )  # fmt: skip

    return run


def row(done, name="tank-1"):
    """The words of a machine's row."""
    lines = done.stdout[done.stdout.index("\nMACHINE") :].splitlines()
    return next(line.split() for line in lines if line.startswith(name))


def test_status_of_one_and_of_one_that_is_gone(fleet):
    done = fleet("status", on="all")
    assert done.returncode == 1, done.stdout + done.stderr
    assert row(done)[:4] == ["tank-1", "ok", "provisioned", lock_hash(ROOT)]
    assert row(done)[-3:] == ["0", "-", "-"]  # users, GPUs, why
    assert row(done, "gone")[1] == "FAILED"
    assert "cannot be reached" in done.stdout


def test_verify_says_what_the_script_says(fleet, server):
    done = fleet("verify")
    failed = [line for line in server.verify(check=False).stdout.splitlines() if "FAILED" in line]
    assert done.returncode == bool(failed), done.stdout + done.stderr
    assert f"{len(failed)} failed" in done.stdout
    assert lock_hash(ROOT) in row(done)


def test_run_gives_output_and_failure(fleet):
    done = fleet("run", "cat /etc/debian_version; exit 7")
    assert done.returncode == 1
    assert "tank-1: 12" in done.stdout
    assert "exit status 7" in done.stdout


def test_provision_brings_the_checkout_and_runs_it(fleet, server):
    done = fleet("provision", checkout="/srv/tank")
    assert done.returncode == 0, done.stdout + done.stderr
    assert row(done) == ["tank-1", "ok", "provisioned", "-"]
    assert "tank-1: 40-docker: nothing to do" in done.stdout
    assert server.run("python3", "/srv/tank/pufferlib/lock.py").stdout.strip() == lock_hash(ROOT)
    assert not server.exists("/srv/tank/provisioning/fleet.toml")
    assert server.run("sh", "-c", "ls /tmp/tank-fleet-*", check=False).stdout == ""
    again = fleet("provision", checkout="/srv/tank")
    assert "tank-1: nothing changed: this machine is as it should be" in again.stdout


def test_apply_plans_and_says_why_it_cannot(fleet, server):
    plan = fleet("apply", "--dry-run")
    assert plan.returncode == 0, plan.stdout + plan.stderr
    assert "tank user add ada --key - --cpus 2" in plan.stdout
    assert server.run("id", "ada", check=False).returncode == 1
    done = fleet("apply")  # there is no image on this server
    assert done.returncode == 1
    assert row(done)[1] == "FAILED"
    assert server.run("id", "ada", check=False).returncode == 1
