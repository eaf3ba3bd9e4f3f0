"""The three shipped Dockerfiles, built on a real engine on a debootstrapped Debian 12."""

import json
import re
import shutil
import socket
import subprocess
import uuid

import pytest
from engine_tools import BASE_IMAGE, ROOT, STAGES, VERSION, bake, bake_stages, command, wait_for

pytestmark = [pytest.mark.platform, pytest.mark.timeout(900)]

GIGABYTE = 10**9
BUDGETS = {"base": 2.0 * GIGABYTE, "tank": 2.3 * GIGABYTE}


def inspect(image):
    return json.loads(command("docker", "image", "inspect", image).stdout)[0]


def test_build_prints_no_warning(build):
    warnings = re.findall(r".*(?:WARNING|\bW: ).*", build.log)
    print(f"build of all stages: {build.seconds:.0f} s")
    assert warnings == []


@pytest.mark.parametrize("stage", STAGES)
def test_checks_pass(build, stage):
    done = command(
        "docker", "run", "--rm", "--network=none", "-v", f"{ROOT}/docker/checks:/checks:ro",
        "--entrypoint", "bash", f"puffertank/{stage}:cpu", f"/checks/{stage}.sh",
    )  # fmt: skip
    parents = STAGES[: STAGES.index(stage) + 1]
    assert [line for line in done.stdout.splitlines() if line.endswith(": ok")] == [
        f"{parent}: ok" for parent in parents
    ]
    assert "WARNING" not in done.stdout + done.stderr


@pytest.mark.parametrize("stage", STAGES)
def test_size_is_within_budget(build, stage):
    size = inspect(f"puffertank/{stage}:cpu")["Size"]
    print(f"{stage}: {size / GIGABYTE:.2f} GB")
    assert size <= BUDGETS.get(stage, BUDGETS["tank"])


@pytest.mark.parametrize("stage", STAGES)
def test_labels_say_what_it_is(build, checkout, stage):
    labels = inspect(f"puffertank/{stage}:cpu")["Config"]["Labels"]
    lock = command("python3", "pufferlib/lock.py", cwd=checkout).stdout.strip()
    assert labels["org.opencontainers.image.version"] == VERSION
    assert labels["org.opencontainers.image.revision"] == "0123abc"
    assert labels["io.puffertank.lock-hash"] == lock
    assert labels["io.puffertank.torch-variant"] == "cpu"
    assert labels["org.opencontainers.image.base.name"] == BASE_IMAGE


def test_nethack_trains_inside(tank):
    done = tank(
        "puffer", "train", "nethack", "--train.total-timesteps", "2048", "--vec.num-envs", "8",
        "--train.data-dir", "/tmp/runs",
    )  # fmt: skip
    assert "WARNING" not in done.stderr
    assert re.search(r"score", done.stdout + done.stderr)


INSTALL_STEPS = (
    "apt-install ca-certificates",
    "/tmp/install-torch",
    "-r /opt/puffertank/python.txt",
    "apt-install htop",
)


def rebuild(checkout, file, comment):
    """Build after a change of one file; print the time; no package may be installed again.

    The change is one that the engine's cache has never seen, whatever ran on it before.
    """
    before = (checkout / file).read_bytes()
    (checkout / file).write_bytes(before + f"\n{comment} {uuid.uuid4()}\n".encode())
    try:
        again = bake_stages(checkout)
    finally:
        (checkout / file).write_bytes(before)
    print(f"rebuild after a change of {file}: {again.seconds:.1f} s")
    assert [step for step in INSTALL_STEPS if again.ran(step)] == []
    return again


def test_python_change_copies_only(build, checkout):
    again = rebuild(checkout, "pufferlib/cli.py", "#")
    assert not again.ran("--no-build-isolation -e .")
    assert again.seconds < 30


def test_c_change_compiles_only(build, checkout):
    again = rebuild(checkout, "pufferlib/native/module.cpp", "//")
    assert again.ran("--no-build-isolation -e .")
    assert again.seconds < 90


def test_unknown_environment_is_named(build, checkout):
    with pytest.raises(pytest.fail.Exception, match="did you mean nethack"):
        bake(checkout, "deps", ENVS="nethak")


def test_wrong_variant_is_refused(build, checkout):
    """A CPU wheel where CUDA was asked for, as a wrong index would give it."""
    done = command(
        "docker", "run", "--rm", "--network=none", "-e", "TORCH_VARIANT=cuda",
        "-v", f"{ROOT}/docker/install-torch:/install-torch:ro", "--entrypoint", "bash",
        "puffertank/base:cpu",
        "-c", "pip() { :; }; export -f pip; TORCH_INDEX= CUDA_TOOLKIT=0 bash /install-torch",
        check=False,
    )  # fmt: skip
    assert done.returncode == 1
    assert "TORCH_VARIANT=cuda, but torch 2.13.0+cpu is a cpu build" in done.stderr


@pytest.fixture
def registry(engine, tmp_path):
    """A registry on this machine; engines trust 127.0.0.1 without TLS."""
    if shutil.which("docker-registry") is None:
        pytest.fail("docker-registry is missing; tests/platform/engine.sh up installs it")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    config = tmp_path / "registry.yml"
    config.write_text(
        f"version: 0.1\nstorage: {{filesystem: {{rootdirectory: {tmp_path}/registry}}}}\n"
        f"http: {{addr: '127.0.0.1:{port}'}}\n"
    )
    server = subprocess.Popen(
        ["docker-registry", "serve", str(config)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )

    def listens():
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", port)) == 0

    wait_for(listens, "the registry", 20)
    yield f"127.0.0.1:{port}"
    server.terminate()
    server.wait(10)


def test_push_and_pull_through_a_registry(registry, tmp_path):
    """With a small image: a tank takes a minute to compress and would show nothing else."""
    name = f"{registry}/puffertank/small:cpu"
    archive = shutil.make_archive(str(tmp_path / "small"), "tar", ROOT / "docker")
    command("docker", "import", archive, name)
    pushed = inspect(name)["Id"]
    command("docker", "push", name)
    command("docker", "rmi", name)
    command("docker", "pull", name)
    digests = inspect(name)["RepoDigests"]
    assert inspect(name)["Id"] == pushed
    assert any(digest.startswith(f"{registry}/puffertank/small@sha256:") for digest in digests)
    command("docker", "rmi", name)
