"""`invoke fleet.…` against a provisioned server, over its real sshd."""

import hashlib
import json
import os
import sys

import pytest
from engine_tools import ROOT, command

from pufferlib.lock import lock_hash

pytestmark = [pytest.mark.platform, pytest.mark.timeout(600)]

FLEET = """
checkout = "{checkout}"
[machines.tank-1]
host = "{address}"
user = "{account}"
[machines.gone]
host = "{address}"
port = 1
[users.ada]
key = "key.pub"
machines = [{assigned}]
cpus = {cpus}
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
    # For ssh, which asks the account and not HOME where these are.
    (home / "config").write_text(
        f"UserKnownHostsFile {home}/.ssh/known_hosts\nIdentityFile {home}/.ssh/id_ed25519\n"
        "IdentitiesOnly yes\n"
    )
    return home


@pytest.fixture
def fleet(server, home):
    """`invoke fleet.…`, with the checkout that the server has or another."""

    def run(task, *words, on="tank-1", **values):
        values = {"checkout": "/opt/puffertank", "account": "root", "assigned": '"tank-1"',
                  "cpus": 2, **values}  # fmt: skip
        (home / "fleet.toml").write_text(FLEET.format(address=server.address, **values))
        options = ["--file", home / "fleet.toml", "--on", on]
        environment = {k: v for k, v in os.environ.items() if k != "SSH_AUTH_SOCK"}
        environment |= {"HOME": str(home), "PUFFER_SSH": f"ssh -F {home}/config"}
        return command(
            sys.executable, "-m", "invoke", f"fleet.{task}", *words, *options,
            check=False, cwd=ROOT, env=environment,
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


# --- with an image: by root, then by an administrator who has sudo


INSPECT = ("docker", "image", "inspect", "-f", "{{.Id}}")


def id_of(image):
    return command(*INSPECT, image).stdout.strip()


@pytest.fixture(scope="module")
def archive(small_image, tmp_path_factory):
    """What `invoke save` makes, of a small image."""
    made = tmp_path_factory.mktemp("images") / "puffertank-small.tar.gz"
    command("bash", "-o", "pipefail", "-c", f"docker save {small_image} | gzip -1 >{made}")
    manifest = {
        "lock": lock_hash(ROOT),
        "images": {small_image: id_of(small_image)},
        "sha256": hashlib.sha256(made.read_bytes()).hexdigest(),
        "bytes": made.stat().st_size,
    }
    made.with_name(f"{made.name}.json").write_text(json.dumps(manifest))
    return made


@pytest.fixture(scope="module")
def ready(server, home, small_image):
    """The server, which takes that image for new users and has an administrator besides root."""
    server.configure(TANK_IMAGE=small_image)
    server.provision("--only", "70")
    server.run("useradd", "--create-home", "--shell", "/bin/bash", "admin")
    server.run("usermod", "--password", "*", "admin")
    server.put("/etc/sudoers.d/admin", "admin ALL=(ALL) NOPASSWD: ALL\n", "0440")
    server.put("/home/admin/.ssh/authorized_keys", (home / "key.pub").read_text())
    server.run("chown", "-R", "admin:", "/home/admin/.ssh")
    return server


@pytest.fixture(params=["root", "admin"])
def account(request, ready):
    """Who logs in; the server has no image and no user, and gets what the checkout has."""
    yield request.param
    for name in ready.run("docker", "image", "ls", "-q").stdout.split():
        ready.run("docker", "image", "rm", "-f", name)


def test_an_image_is_loaded_and_its_users_come_and_go(
    fleet, ready, home, account, archive, small_image
):
    there = {"account": account, "checkout": "/srv/tank"}
    assert fleet("provision", **there).returncode == 0
    loaded = fleet("load-image", "--cpu", "--archive", archive, **there)
    assert loaded.returncode == 0, loaded.stdout + loaded.stderr
    assert row(loaded) == ["tank-1", "ok", archive.name, "-"]
    digest = id_of(small_image)
    assert ready.run(*INSPECT, small_image).stdout.strip() == digest
    assert ready.run("ls", "/srv/tank/dist/images").stdout == ""
    assert digest.removeprefix("sha256:")[:12] in row(fleet("status", **there))

    added = fleet("apply", **there)
    assert added.returncode == 0, added.stdout + added.stderr
    assert row(added) == ["tank-1", "ok", "1", "0", "0", "0", "-"]
    assert ssh_as_ada(ready, home, "id -un; echo weights >policy.pt") == "ada\n"
    assert limit(ready) == "2000000000\n"
    assert row(fleet("status", **there))[-3] == "1"

    assert row(fleet("apply", **there)) == ["tank-1", "ok", "0", "0", "0", "0", "-"]
    changed = fleet("apply", cpus=1, **there)
    assert row(changed) == ["tank-1", "ok", "0", "1", "0", "0", "-"]
    ready.run("tank", "reset", "--user", "ada", "--yes")
    assert limit(ready) == "1000000000\n"

    removed = fleet("apply", assigned="", **there)
    assert removed.returncode == 0, removed.stdout + removed.stderr
    assert row(removed) == ["tank-1", "ok", "0", "0", "1", "0", "-"]
    assert ready.run("id", "ada", check=False).returncode == 1
    newest = ready.shell("ls -t /var/lib/tank/archive/ada-* | head -n 1").stdout.strip()
    assert ready.run("tar", "-xOf", newest, "ada/policy.pt").stdout == "weights\n"
    assert row(fleet("status", **there))[-3] == "0"


def ssh_as_ada(server, home, words):
    return command("ssh", "-F", home / "config", f"ada@{server.address}", words).stdout


def limit(server):
    template = "{{.HostConfig.NanoCpus}}"
    return server.run("docker", "inspect", "-f", template, "tank.ada.main").stdout


def test_an_administrator_without_sudo_is_told_so(fleet, ready):
    ready.run("mv", "/etc/sudoers.d/admin", "/root/admin")
    try:
        done = fleet("apply", account="admin")
    finally:
        ready.run("mv", "/root/admin", "/etc/sudoers.d/admin")
    assert done.returncode == 1
    assert "sudo: a password is required" in done.stdout
