"""docker-compose.yaml: a training with TensorBoard beside it, on a real engine."""

import json
import os
import socket
import urllib.request

import pytest
from engine_tools import ROOT, command, wait_for

pytestmark = [pytest.mark.platform, pytest.mark.timeout(900)]  # the first one builds the images

COMPOSE = ("docker", "compose", "-f", "docker/docker-compose.yaml")


def test_profiles(engine):
    def services(profile):
        done = command(*COMPOSE, "--profile", profile, "config", "--format", "json", cwd=ROOT)
        return json.loads(done.stdout)["services"]

    cpu, gpu = services("cpu"), services("gpu")
    assert set(cpu) == {"trainer", "tensorboard"}
    assert set(gpu) == {"trainer-gpu", "tensorboard-gpu"}
    (device,) = gpu["trainer-gpu"]["deploy"]["resources"]["reservations"]["devices"]
    assert device["capabilities"] == ["gpu"]
    assert "deploy" not in cpu["trainer"]
    for service in (*cpu.values(), *gpu.values()):
        assert service["init"] is True
        assert int(service["shm_size"]) == 2 * 1024**3
        assert service["ulimits"] == {"nofile": int(os.environ["PUFFER_NOFILE"])}
        assert all(port["host_ip"] == "127.0.0.1" for port in service.get("ports", ()))


def test_training_appears_in_tensorboard(build, workspace):
    directory = workspace(1001)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    environment = {
        **os.environ,
        "COMPOSE_PROJECT_NAME": "puffertank-test",
        "PUFFER_COMMAND": "puffer train squared --train.total-timesteps 100000000",
        "PUFFER_TENSORBOARD_PORT": str(port),
    }
    compose = (*COMPOSE, "--profile", "cpu")
    options = {"cwd": directory, "env": environment}

    def runs():
        url = f"http://127.0.0.1:{port}/data/runs"
        with urllib.request.urlopen(url, timeout=10) as answer:
            return json.loads(answer.read())

    try:
        command(*compose, "up", "-d", "--wait", **options)
        assert wait_for(runs, "the run in TensorBoard", 120)[0].startswith("squared-")
        assert next(directory.glob("runs/*")).stat().st_uid == 1001
    finally:
        command(*compose, "down", "-v", **options)
    assert list(directory.glob("runs/*/checkpoints/*.pt"))
