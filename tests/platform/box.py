"""A bare Debian 12 server to provision: a container with systemd, in seconds.

The fixtures are known to every test in this directory (conftest.py imports them):

- `box`: a fresh server for this module, nothing provisioned
- `make_box`: makes more of them, removed after the module
- `first_run`: one that was provisioned, for the whole session: look, but change nothing
- `provisioned_image`: what `make_box` starts servers from that are provisioned already
- `small_image`: a tank without Python, for tests of everything around it
"""

import os
import platform
import subprocess
from dataclasses import dataclass

import pytest
from engine_tools import BASE_IMAGE, ROOT, command, copy_checkout, wait_for

IMAGE = "puffertank-test/box:bare"
PROVISIONED = "puffertank-test/box:provisioned"
SMALL = "puffertank-test/small:cpu"
CHECKOUT = "/opt/puffertank"
FILES = ROOT / "tests/platform/box"


class Server:
    """What tests do with a server. Each kind has its own `run`, `wait` and `reboot`."""

    def shell(self, script, **options):
        """Run a script of bash."""
        return self.run("bash", "-euo", "pipefail", "-c", script, **options)

    def put(self, path, text, mode="0644"):
        """Write a file."""
        self.run("install", "-D", "-m", mode, "/dev/stdin", path, text=text)

    def read(self, path):
        """Return the text of a file."""
        return self.run("cat", path).stdout

    def exists(self, path):
        return self.run("test", "-e", path, check=False).returncode == 0

    def configure(self, **values):
        """Add lines to the machine's own configuration."""
        lines = "".join(f'{name}="{value}"\n' for name, value in values.items())
        self.put("/etc/tank/tank.conf", self.read("/etc/tank/tank.conf") + lines)

    def provision(self, *arguments, check=True, timeout=600):
        """Run the shipped provision.sh."""
        script = f"{CHECKOUT}/provisioning/provision.sh"
        return self.run(script, *arguments, check=check, timeout=timeout)

    def verify(self, *arguments, check=True):
        """Run the shipped verify.sh."""
        return self.run(f"{CHECKOUT}/provisioning/verify.sh", *arguments, check=check)

    def journal(self, tag="tank-provision"):
        """Return what was logged under a tag."""
        return self.run("journalctl", "-q", "-o", "cat", "-t", tag).stdout


@dataclass
class Box(Server):
    """One container that is a server. Everything runs as root unless a user is named."""

    name: str

    def run(self, *argv, user="root", check=True, text=None, timeout=300):
        """Run a program; `text` is its standard input."""
        options = ["--interactive"] if text is not None else []
        words = ["docker", "exec", *options, "--user", user, self.name, *map(str, argv)]
        if text is None:
            return command(*words, check=check, timeout=timeout)
        return command(*words, check=check, timeout=timeout, stdin=None, input=text)

    @property
    def address(self):
        """The address at which this machine reaches it."""
        template = "{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}"
        return command("docker", "inspect", "-f", template, self.name).stdout.strip()

    def wait(self):
        """Wait until systemd has started everything."""
        wait_for(
            lambda: (
                self.run("systemctl", "is-system-running", check=False).stdout.strip()
                in ("running", "degraded")
            ),
            "systemd",
        )

    def reboot(self):
        """What a reboot does to processes, mounts and /run."""
        command("docker", "restart", self.name)
        self.wait()

    def remove(self):
        command("docker", "rm", "-f", "-v", self.name, check=False)


def start(image, checkout):
    """Boot a container of `image` as a server that has the checkout."""
    done = command(
        "docker", "run", "-d", "--privileged", "--tmpfs", "/run", "--tmpfs", "/tmp:exec",
        "--hostname", "tank-1", "-v", "/var/lib/docker", "-v", "/var/lib/containerd",
        "-v", f"{checkout}:{CHECKOUT}:ro", image,
    )  # fmt: skip
    box = Box(done.stdout.strip()[:12])
    box.wait()
    return box


@dataclass
class FirstRun:
    """A bare server and what provision.sh said on it."""

    box: Box
    said: str


@pytest.fixture(scope="session")
def box_image(engine):
    """The image of a bare server and the repositories beside it."""
    done = subprocess.run(
        ["docker", "build", "-q", "-t", IMAGE, "-f", FILES / "box.dockerfile",
         "--build-arg", f"BASE_IMAGE={BASE_IMAGE}",
         "--build-arg", f"KERNEL={platform.release()}", FILES],
        capture_output=True, text=True, timeout=600, env={**os.environ, "DOCKER_BUILDKIT": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return IMAGE


@pytest.fixture(scope="session")
def box_checkout(tmp_path_factory):
    """A copy of this working tree, which may be worked on while the tests run."""
    return copy_checkout(tmp_path_factory.mktemp("box"))


@pytest.fixture(scope="session")
def first_run(box_image, box_checkout):
    """A bare server after the first run of provision.sh."""
    box = start(IMAGE, box_checkout)
    yield FirstRun(box, box.provision().stdout)
    box.remove()


@pytest.fixture(scope="session")
def provisioned_image(first_run):
    """The image of that server; containers and images of its own engine are not in it."""
    first_run.box.run("apt-get", "clean")
    command("docker", "commit", first_run.box.name, PROVISIONED)
    yield PROVISIONED
    command("docker", "image", "rm", "-f", PROVISIONED, check=False)


@pytest.fixture(scope="session")
def small_image(engine, box_checkout):
    """An image of this machine's engine: Debian, with the labels that make it a tank."""
    lock = command("python3", "pufferlib/lock.py", cwd=box_checkout).stdout.strip()
    lines = [f"FROM {BASE_IMAGE}", "RUN mkdir /puffer", f"LABEL io.puffertank.lock-hash={lock}"]
    command("docker", "build", "-q", "-t", SMALL, "-", stdin=None, input="\n".join(lines))
    return SMALL


@pytest.fixture(scope="module")
def make_box(box_image, box_checkout):
    """A function that boots one more server; all are removed after the module."""
    made = []

    def make(image=IMAGE):
        made.append(start(image, box_checkout))
        return made[-1]

    yield make
    command("docker", "rm", "-f", "-v", *(box.name for box in made), check=False)


@pytest.fixture(scope="module")
def box(make_box):
    """A server that nobody has touched, one for each module."""
    return make_box()
