"""`invoke …` on a real engine, as on a fresh clone; and images that move over a real ssh."""

import json
import os
import shutil
import sys
import time
from pathlib import Path

import pytest
from engine_tools import BASE_IMAGE, ROOT, bake_settings, command, copy_checkout, wait_for

pytestmark = [pytest.mark.platform, pytest.mark.timeout(900)]

NAME = "puffertank-invoke"
IMAGES = [f"{NAME}/{stage}:cpu" for stage in ("base", "deps", "tank")]
# What `pytest -m smoke` finds in this clone; test_clone and test_devcontainer run all of it.
FEW_TESTS = ("conftest.py", "test_spaces.py", "strategies.py", "toys.py")


def inspect(image):
    return json.loads(command("docker", "image", "inspect", image).stdout)[0]


def present(image):
    return command("docker", "image", "inspect", image, check=False).returncode == 0


@pytest.fixture(scope="module")
def fresh(build, tmp_path_factory):
    """A clone whose images and home have names of their own, so that a developer's stay."""
    pytest.importorskip("invoke")
    directory = copy_checkout(tmp_path_factory.mktemp("fresh"))
    for file, old, new in (
        ("docker/bake.json", '"puffertank/', f'"{NAME}/'),
        ("docker/run-tank.sh", "NAME=puffertank\n", f"NAME={NAME}\n"),
    ):
        text = (directory / file).read_text()
        assert old in text
        (directory / file).write_text(text.replace(old, new))
    for path in (directory / "tests").iterdir():
        if path.name not in FEW_TESTS:
            (shutil.rmtree if path.is_dir() else Path.unlink)(path)
    yield directory
    command("docker", "volume", "rm", f"{NAME}-home", check=False)
    command("docker", "rmi", *IMAGES, check=False)


@pytest.fixture(scope="module")
def invoke(fresh):
    """Run a task in the clone, with the settings that the guide names."""
    programs = Path(sys.executable).parent
    environment = {
        **os.environ,
        "PATH": f"{programs}:{os.environ['PATH']}",
        "BASE_IMAGE": BASE_IMAGE,
        "PUFFER_PORTS": "",
    }

    def run(*words, check=True, **variables):
        return command(
            sys.executable, "-m", "invoke", *words,
            cwd=fresh, env={**environment, **variables}, check=check, timeout=900,
        )  # fmt: skip

    return run


@pytest.fixture(scope="module")
def built(invoke):
    """The output of `invoke build-stage3` where there were no images."""
    assert not any(present(image) for image in IMAGES)
    return invoke("build-stage3", *bake_settings()).stdout


def test_build_stage3_says_what_it_chose_and_builds_missing_parents(built):
    assert "This machine has no NVIDIA GPU: CPU images (--cuda for the others).\n" in built
    assert f"{IMAGES[0]} is missing: building it first\n" in built
    assert all(present(image) for image in IMAGES)


def test_build_stage3_reuses_what_has_not_changed(built, fresh, invoke):
    before = [inspect(name)["RootFS"]["Layers"] for name in IMAGES]
    (fresh / "pufferlib" / "cli.py").open("a").write("# changed\n")
    started = time.monotonic()
    done = invoke("build-stage3", *bake_settings())
    print(f"invoke build-stage3 after a change: {time.monotonic() - started:.1f} s")
    assert f"tank.contexts.parent=docker-image://{IMAGES[1]} " in done.stdout
    assert "deps.contexts.parent" not in done.stdout
    after = [inspect(name)["RootFS"]["Layers"] for name in IMAGES]
    assert after[:2] == before[:2]
    # All but the last layer, in which the Python files lie.
    assert after[2][:-1] == before[2][:-1]
    assert after[2][-1] != before[2][-1]


def test_run(built, invoke):
    done = invoke("run", "sh -c 'puffer --version; pwd; id -u'")
    version, directory, uid = done.stdout.splitlines()[-3:]
    assert (version.split()[0], directory, uid) == ("pufferlib", "/puffer", str(os.getuid()))
    failing = invoke("run", "sh -c 'exit 7'", check=False)
    assert failing.returncode == 7


def test_test_in_the_image(built, invoke):
    done = invoke("test", "--image")
    assert " passed, " in done.stdout
    assert "pytest -m smoke" in done.stdout


def test_doctor(invoke):
    """Its status is the number of lines that failed; which ones depends on this machine."""
    done = invoke("doctor", check=False)
    assert f"{done.returncode} failed, " in done.stdout or "Everything fits." in done.stdout
    assert "Python             ok" in done.stdout


def test_clean(built, fresh, invoke):
    for name in ("build/x", "dist/x", "docs/site/x", "runs/x"):
        (fresh / name).parent.mkdir(parents=True, exist_ok=True)
        (fresh / name).touch()
    invoke("clean", "--images")
    assert [name for name in ("build", "dist", "docs/site", "runs") if (fresh / name).exists()] == [
        "runs"
    ]
    assert not any(present(image) for image in IMAGES)


# --- over ssh


# The server's packages are unpacked only: setting them up takes ten times as long.
START_SSHD = """
apt-get update -qq
apt-get install -yqq --no-install-recommends --download-only openssh-server zstd >/dev/null
for package in /var/cache/apt/archives/*.deb; do
    dpkg-deb --fsys-tarfile "$package" | tar -x --keep-directory-symlink -C /
done
useradd --system sshd
ssh-keygen -A
install -d -m 700 /root/.ssh /run/sshd
cp /key.pub /root/.ssh/authorized_keys
exec /usr/sbin/sshd -D -e -f /dev/null
"""


@pytest.fixture(scope="module")
def other_machine(fresh, tmp_path_factory):
    """A container with an ssh server and this clone at /puffer; it uses the engine of this machine.

    The value is the ssh command that reaches it, as PUFFER_SSH expects it.
    """
    key = tmp_path_factory.mktemp("ssh") / "key"
    command("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key)
    done = command(
        "docker", "run", "-d", "-p", "127.0.0.1::22", "--entrypoint", "bash",
        "-v", f"{key}.pub:/key.pub:ro", "-v", "/var/run/docker.sock:/var/run/docker.sock",
        "-v", f"{shutil.which('docker')}:/usr/local/bin/docker:ro", "puffertank/tank:cpu",
        "-euc", START_SSHD,
    )  # fmt: skip
    container = done.stdout.strip()
    try:
        port = command("docker", "port", container, "22").stdout.rpartition(":")[2].strip()
        options = ("StrictHostKeyChecking=no", "UserKnownHostsFile=/dev/null", "LogLevel=ERROR")
        ssh = ["ssh", "-F", "none", "-p", port, "-i", str(key)]
        ssh += [word for option in options for word in ("-o", option)]

        def answers():
            return command(*ssh, "root@127.0.0.1", "true", check=False).returncode == 0

        wait_for(answers, "the ssh server", 120)
        yield " ".join(ssh)
    finally:
        command("docker", "rm", "-f", container)


@pytest.fixture
def small_images(fresh):
    """Images of nothing but a few files, with the names and the lock of the stages."""
    lock = command("python3", "pufferlib/lock.py", cwd=fresh).stdout.strip()
    archive = shutil.make_archive(str(fresh / "small"), "tar", ROOT / "docker")
    label = f"LABEL io.puffertank.lock-hash={lock}"
    ids = [command("docker", "import", "-c", label, archive, name).stdout for name in IMAGES]
    Path(archive).unlink()
    yield [each.strip() for each in ids]
    command("docker", "rmi", *IMAGES, check=False)


def test_images_move_over_ssh_in_both_directions(fresh, invoke, other_machine, small_images):
    place, archives = "root@127.0.0.1:/puffer", fresh / "dist" / "images"
    done = invoke("save", "--cpu", "--to", place, PUFFER_SSH=other_machine)
    assert all(f"Loaded image: {name}" in done.stdout for name in IMAGES), done.stdout
    command("docker", "rmi", *IMAGES)
    (archive,) = archives.glob("*.tar.*[tz]")
    content = archive.read_bytes()
    shutil.rmtree(archives)
    done = invoke("load", "--cpu", "--from", place, PUFFER_SSH=other_machine)
    assert archive.read_bytes() == content
    assert [inspect(name)["Id"] for name in IMAGES] == small_images
