"""How containers of the shipped image behave: users, files, signals, memory, GPUs that fail."""

import os
import re
import time
from pathlib import Path

import pytest
from engine_tools import VERSION, command, wait_for

pytestmark = [pytest.mark.platform, pytest.mark.timeout(900)]  # the first one builds the images


@pytest.fixture
def nvidia_smi(tmp_path):
    """A fake of the program that the NVIDIA toolkit mounts into containers."""

    def make(script):
        path = tmp_path / "nvidia-smi"
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)
        return f"-v={path}:/usr/bin/nvidia-smi:ro"

    return make


# --- what the entrypoint says


def test_start_prints_one_quiet_line(tank):
    done = tank("true", flags=["--shm-size=1g"])
    assert done.stdout == ""
    assert re.fullmatch(
        rf"PufferTank {re.escape(VERSION)}: Python 3\.11\.\d+, torch 2\.13\.0\+cpu, CPU only"
        r" \(lock [0-9a-f]{12}\)\n",
        done.stderr,
    )


def test_small_shm_gives_the_remedy(tank):
    said = tank("true").stderr
    assert "note: /dev/shm has 64 MB" in said
    assert "--shm-size=2g" in said


NVML = "Failed to initialize NVML: "


@pytest.mark.parametrize(
    ("message", "remedy"),
    [
        (NVML + "Driver/library version mismatch", "reboot the host"),
        (NVML + "Unknown Error", "restart it"),
        ("NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.", "dkms"),
        ("No devices were found", "Does 'nvidia-smi' work on the host?"),
    ],
)
def test_gpu_that_fails_is_explained(tank, nvidia_smi, message, remedy):
    done = tank("echo", "ran", flags=[nvidia_smi(f'echo "{message}"; exit 1')])
    assert message in done.stderr
    assert remedy in done.stderr
    assert "CPU only" in done.stderr
    assert done.stdout == "ran\n"


@pytest.mark.parametrize(
    ("gpu", "expected"),
    [
        ("NVIDIA H200, 535.261.03, 9.0", "needs driver 580 or newer, the host has 535.261.03"),
        ("Tesla V100, 580.95.05, 7.0", "needs compute capability 7.5 or newer, this GPU has 7.0"),
        ("NVIDIA H200, 580.95.05, 9.0", "torch 2.13.0, NVIDIA H200, driver 580.95.05"),
    ],
)
def test_driver_and_gpu_against_the_lock(tank, nvidia_smi, tmp_path, gpu, expected):
    (tmp_path / "torch").write_text("2.13.0 13.0\n")
    flags = [nvidia_smi(f'echo "{gpu}"'), f"-v={tmp_path}/torch:/opt/puffertank/torch:ro"]
    done = tank("true", flags=flags)
    assert expected in done.stderr
    assert ("GPU:" in done.stderr) == ("needs" in expected)


# --- users and files


def run_tank(workspace, uid, *arguments, **variables):
    """The shipped script, run by the user `uid` of this machine."""
    groups = [Path("/var/run/docker.sock").stat().st_gid]
    environment = {**os.environ, "PUFFER_PORTS": "", "HOME": str(workspace), **variables}
    return command(
        workspace / "docker" / "run-tank.sh", "--name", f"puffertank-test-{uid}", *arguments,
        user=uid, group=uid, extra_groups=groups, env=environment, cwd=workspace,
    )  # fmt: skip


@pytest.mark.parametrize("uid", [1000, 1001, 501, 0])
def test_files_in_the_checkout_belong_to_the_host_user(build, workspace, uid):
    directory = workspace(uid)
    script = """
        set -e
        touch made-inside && mkdir -p runs/made
        echo "name=$(id -un) group=$(id -gn) home=$HOME"
        echo "status=[$(git status --porcelain)]"
        test -w "$HOME" && test -e "$HOME/.bashrc"
        sleep 9 & ps -o user= -p $! | sed 's/^/process=/'; kill $!
    """
    done = run_tank(directory, uid, "--", "bash", "-c", script)
    command("docker", "volume", "rm", f"puffertank-test-{uid}-home", check=False)
    name = "puffer" if uid else "root"
    assert f"name={name} group={name} home={'/home/puffer' if uid else '/root'}" in done.stdout
    assert "status=[?? made-inside]" in done.stdout
    assert f"process={name}" in done.stdout
    for made in ("made-inside", "runs/made"):
        status = (directory / made).stat()
        assert (status.st_uid, status.st_gid) == (uid, uid)
    assert "note:" not in done.stderr  # the shipped flags give shared memory


def test_owner_of_the_mount_is_the_default(tank, workspace):
    directory = workspace(1001)
    done = tank("sh", "-c", "id -u; touch made-inside", flags=["-v", f"{directory}:/puffer"])
    assert done.stdout == "1001\n"
    assert (directory / "made-inside").stat().st_uid == 1001


def test_group_that_exists_in_the_image(tank):
    """20 is everybody's group on a Mac, and dialout in Debian."""
    done = tank("id", flags=["-e", "PUFFER_UID=501", "-e", "PUFFER_GID=20"])
    assert "uid=501(puffer) gid=20(dialout)" in done.stdout


def test_no_setup_without_root(tank):
    """As on a shared box: any user, nothing to change, no rights to change it."""
    flags = ["--user", "1234:1234", "--cap-drop=ALL", "--security-opt=no-new-privileges"]
    done = tank("sh", "-c", "id -u; python -c 'import pufferlib'", flags=flags)
    assert done.stdout == "1234\n"


def test_pip_installs_into_the_home_of_a_user_outside_the_group(tank, workspace):
    home = workspace(1234)
    flags = ["--user", "1234:1234", "-v", f"{home}:/home/user", "-e", "HOME=/home/user"]
    script = """
        mkdir /tmp/extra && cd /tmp/extra
        printf '[project]\\nname = "extra"\\nversion = "1"\\nscripts = {extra = "extra:main"}\\n' \
            >pyproject.toml
        echo 'main = lambda: print("works")' >extra.py
        pip install --quiet --no-build-isolation . && extra
    """
    assert tank("bash", "-c", script, flags=flags).stdout == "works\n"


# --- processes


def test_sigterm_reaches_the_command_and_its_status_comes_back(background):
    handler = "import signal, sys, time; signal.signal(15, lambda *_: sys.exit(7))"
    container = background("python", "-c", f"{handler}; print('up', flush=True); time.sleep(60)")
    wait_for(lambda: "up" in command("docker", "logs", container).stdout, "the command")
    started = time.monotonic()
    command("docker", "stop", container)
    assert time.monotonic() - started < 8
    status = command("docker", "inspect", "-f", "{{.State.ExitCode}}", container).stdout
    assert status == "7\n"


@pytest.mark.parametrize("init", [[], ["--init"]])
def test_orphans_are_reaped(tank, init):
    script = "(sleep 0.1 &) ; sleep 0.5; ps -eo stat= | grep -c ^Z"
    done = tank("bash", "-c", script, flags=init, check=False)
    assert done.stdout == "0\n"
    assert "WARN" not in done.stderr


def test_worker_crash_leaves_no_zombie(tank):
    script = """
import os, signal, subprocess
import pufferlib.vector
from pufferlib.environments.ocean import env_creator
from pufferlib.exceptions import WorkerError

envs = pufferlib.vector.make(env_creator(), backend="multiprocessing", num_envs=4, num_workers=2)
envs.reset()
children = subprocess.run(["pgrep", "-P", str(os.getpid())], capture_output=True, text=True)
os.kill(int(children.stdout.split()[-2]), signal.SIGKILL)
try:
    for _ in range(1000):
        envs.step(envs.action_space.sample())
except WorkerError:
    print("told")
envs.close()
states = subprocess.run(["ps", "-eo", "stat="], capture_output=True, text=True).stdout.split()
print("zombies", sum(state.startswith("Z") for state in states))
"""
    done = tank("python", "-c", script)
    assert done.stdout.splitlines() == ["told", "zombies 0"]


def test_stop_during_training_leaves_a_checkpoint(background, tank, workspace):
    directory = workspace(1000)
    mount = ["-v", f"{directory}:/puffer"]
    training = ["puffer", "train", "squared", "--train.total-timesteps", "100000000"]
    container = background(*training, flags=mount)
    wait_for(lambda: list(directory.glob("runs/*/events*")), "the first numbers of the training")
    command("docker", "stop", container)
    status = command("docker", "inspect", "-f", "{{.State.ExitCode}}", container).stdout
    assert status == "143\n"
    done = tank("puffer", "eval", "squared", "--episodes", "8", flags=mount)
    assert "score" in done.stdout


def test_health(background, nvidia_smi):
    container = background("sleep", "60", flags=["--health-interval=1s"])

    def state():
        return command("docker", "inspect", "-f", "{{.State.Health.Status}}", container).stdout

    wait_for(lambda: state() == "healthy\n", "a healthy container", 30)


def test_health_names_a_gpu_that_vanished(background, nvidia_smi):
    container = background("sleep", "60", flags=[nvidia_smi(f"echo '{NVML}Unknown Error'; exit 1")])
    command("docker", "exec", container, "touch", "/dev/nvidiactl")
    done = command("docker", "exec", container, "/opt/puffertank/healthcheck", check=False)
    assert done.returncode == 1
    assert done.stdout == f"the GPU is gone; restart the container ({NVML}Unknown Error)\n"


# --- shared memory

BIG_OBSERVATIONS = """
import gymnasium, numpy as np
import pufferlib.emulation, pufferlib.vector

class Big(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(0, 255, (1_000_000,), np.uint8)
    action_space = gymnasium.spaces.Discrete(2)
    def reset(self, seed=None, options=None):
        super().reset(seed=seed)
        return np.full(1_000_000, 7, np.uint8), {}
    def step(self, action):
        return np.full(1_000_000, 8, np.uint8), 0.0, False, False, {}

def make():
    return pufferlib.emulation.GymnasiumPufferEnv(Big())

envs = pufferlib.vector.make(make, backend="multiprocessing", num_envs=80, num_workers=2)
envs.reset()
observations, *_ = envs.step(envs.action_space.sample())
print(observations.shape, int(observations.min()))
envs.close()
"""

LOADER = """
import torch
from torch.utils.data import DataLoader, Dataset

class Big(Dataset):
    def __len__(self):
        return 8
    def __getitem__(self, index):
        return torch.ones(16_000_000)

print(sum(int(batch.sum()) for batch in DataLoader(Big(), num_workers=2)))
"""


def test_buffers_do_not_need_dev_shm(tank):
    """80 MB of buffers with 64 MB in /dev/shm: they are anonymous memory of the container."""
    assert tank("python", "-c", BIG_OBSERVATIONS).stdout == "(80, 1000000) 8\n"


def test_loader_dies_in_64_mb_and_works_with_the_shipped_flags(tank, build, workspace):
    done = tank("python", "-c", LOADER, check=False)
    assert done.returncode != 0
    assert re.search("shared memory|Bus error|No space left", done.stderr)
    assert "note: /dev/shm has 64 MB" in done.stderr
    directory = workspace(1000)
    assert run_tank(directory, 1000, "--", "python", "-c", LOADER).stdout == "128000000\n"
    command("docker", "volume", "rm", "puffertank-test-1000-home")


# --- a machine whose engine cannot give GPUs


def test_gpus_flag_that_fails_is_explained(build, workspace, tmp_path):
    """The engine here really refuses --gpus; only the GPU is a fake."""
    fake = tmp_path / "nvidia-smi"
    fake.write_text("#!/bin/sh\necho 'GPU 0: NVIDIA H200 (UUID: GPU-0)'\n")
    fake.chmod(0o755)
    path = f"{tmp_path}:{os.environ['PATH']}"
    arguments = [workspace() / "docker" / "run-tank.sh", "--image", "puffertank/tank:cpu"]
    environment = {**os.environ, "PATH": path, "PUFFER_PORTS": ""}
    done = command(*arguments, "--", "true", env=environment, check=False)
    assert done.returncode == 1
    assert "docker cannot give it to containers" in done.stderr
    assert "nvidia-ctk runtime configure" in done.stderr
    command(*arguments, "--name", "puffertank-test", "--no-gpu", "--", "true", env=environment)
    command("docker", "volume", "rm", "puffertank-test-home")
