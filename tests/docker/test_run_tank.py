"""docker/run-tank.sh: which flags it gives docker, and what it says when it cannot start.

docker and nvidia-smi are fakes on the PATH; the real ones are in tests/platform.
"""

import os
import resource
import shlex
import socket
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "docker" / "run-tank.sh"

FAKE_DOCKER = """
case "$1" in
    version | image | info) ;;
    run)
        case "$*" in
            *--entrypoint*) {gpus} ;;
            *) echo "docker $*" ;;
        esac
        ;;
esac
"""
NO_GPU = "echo 'No devices were found'"
ONE_GPU = "echo 'GPU 0: NVIDIA H200 (UUID: GPU-0)'"
NO_TOOLKIT = (
    'echo \'docker: Error response from daemon: could not select device driver "" with '
    "capabilities: [[gpu]].' >&2; exit 125"
)
MISMATCH = "echo 'Failed to initialize NVML: Driver/library version mismatch'; exit 18"


@pytest.fixture
def run_tank(tmp_path):
    def program(name, script):
        path = tmp_path / name
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)

    def run(*arguments, nvidia_smi=NO_GPU, gpus=":", **variables):
        program("docker", FAKE_DOCKER.format(gpus=gpus))
        program("nvidia-smi", nvidia_smi)
        environment = {
            "PATH": f"{tmp_path}:{os.environ['PATH']}",
            "HOME": str(tmp_path),
            "PUFFER_PORTS": "",
            **variables,
        }
        return subprocess.run(
            [str(SCRIPT), *arguments],
            env=environment,
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
        )

    return run


def flags_of(done):
    assert done.returncode == 0, done.stderr
    words = shlex.split(done.stdout)
    assert words[:2] == ["docker", "run"]
    return words[2:]


def test_flags_without_a_gpu(run_tank):
    words = flags_of(run_tank("--dry-run", "--", "puffer", "train", "nethack"))
    assert words[-4:] == ["puffertank/tank:cpu", "puffer", "train", "nethack"]
    assert {"--rm", "--init"} <= set(words)
    assert "--gpus" not in words
    assert "-t" not in words  # no terminal here
    assert f"{ROOT}:/puffer" in words
    assert f"PUFFER_UID={os.getuid()}" in words
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    expected = 1048576 if hard == resource.RLIM_INFINITY else min(1048576, hard)
    assert f"nofile={expected}" in words
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2**20
    shm = int(words[words.index("--shm-size") + 1].removesuffix("m"))
    assert shm == pytest.approx(min(memory // 2, 16384), abs=2)


def test_gpu_chooses_image_and_flag(run_tank):
    words = flags_of(run_tank("--dry-run", nvidia_smi=ONE_GPU))
    assert words[-1] == "puffertank/tank:cuda"
    assert words[words.index("--gpus") + 1] == "all"
    words = flags_of(run_tank("--dry-run", "--no-gpu", nvidia_smi=ONE_GPU))
    assert words[-1] == "puffertank/tank:cpu"
    assert "--gpus" not in words


def test_name_and_image(run_tank):
    words = flags_of(run_tank("--dry-run", "--name", "mine", "--image", "lab/tank:1"))
    assert words[-1] == "lab/tank:1"
    assert words[words.index("--name") + 1] == "mine"
    assert any(word.startswith("mine-home:/") for word in words)


def test_display_only_where_there_is_one(run_tank, tmp_path):
    assert not [word for word in flags_of(run_tank("--dry-run")) if "DISPLAY" in word]
    socket_path = tmp_path / "wayland-0"
    with socket.socket(socket.AF_UNIX) as wayland:
        wayland.bind(str(socket_path))
        done = run_tank("--dry-run", WAYLAND_DISPLAY="wayland-0", XDG_RUNTIME_DIR=str(tmp_path))
    assert f"{socket_path}:/tmp/wayland-host" in flags_of(done)


def test_ports_are_on_loopback_and_free(run_tank):
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        taken = server.getsockname()[1]
        done = run_tank("--dry-run", PUFFER_PORTS=f"{taken} 6099")
    words = flags_of(done)
    assert "127.0.0.1:6099:6099" in words
    assert not [word for word in words if str(taken) in word]
    assert f"port {taken} is in use" in done.stderr


def test_runs_docker(run_tank):
    done = run_tank("--", "echo", "two words")
    assert done.stdout.startswith("docker run --rm")
    assert done.stdout.endswith("puffertank/tank:cpu echo two words\n")


@pytest.mark.parametrize(
    ("options", "message", "remedy"),
    [
        ({"nvidia_smi": MISMATCH}, "Driver/library version mismatch", "reboot this machine"),
        ({"nvidia_smi": "echo 'No such device'; exit 6"}, "No such device", "--no-gpu"),
        ({"nvidia_smi": ONE_GPU, "gpus": NO_TOOLKIT}, "cannot give it", "nvidia-ctk runtime"),
        ({"nvidia_smi": ONE_GPU, "gpus": "echo odd >&2; exit 1"}, "odd", "--no-gpu"),
    ],
)
def test_gpu_that_cannot_be_used_ends_with_the_remedy(run_tank, options, message, remedy):
    done = run_tank(**options)
    assert done.returncode == 1
    assert message in done.stderr
    assert remedy in done.stderr
    assert done.stdout == ""


def test_usage(run_tank):
    done = run_tank("puffer", "train")
    assert done.returncode == 2
    assert "puffer: unknown argument (a command goes after --)" in done.stderr
    assert "run-tank.sh [--name NAME]" in run_tank("--help").stdout
