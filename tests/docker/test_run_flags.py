"""docker/run-tank.sh, compose and the dev container start the image with the same flags."""

import itertools
import json
import os
import re
import shlex
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
GIVEN = {"PUFFER_SHM": "3g", "PUFFER_NOFILE": "4096"}
VARIABLE = re.compile(r"\$\{(?:localEnv:)?([A-Z_]+):-?([^}]*)\}")


def fill(text, variables):
    """The text with `${NAME:-default}` or `${localEnv:NAME:default}` replaced."""
    return VARIABLE.sub(lambda match: variables.get(match[1], match[2]), text)


def of_script(variables):
    done = subprocess.run(
        [ROOT / "docker" / "run-tank.sh", "--dry-run", "--no-gpu"],
        env={**os.environ, "PUFFER_PORTS": "6006", **variables},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=True,
    )
    words = shlex.split(done.stdout)
    following = dict(itertools.pairwise(words))
    return {
        "init": "--init" in words,
        "shm": following["--shm-size"],
        "nofile": following["--ulimit"].removeprefix("nofile="),
        "checkout": next(word.rpartition(":")[2] for word in words if word.startswith(f"{ROOT}:")),
    }


def of_compose(service, variables):
    content = yaml_of((ROOT / "docker" / "docker-compose.yaml").read_text(), variables)
    service = content["services"][service]
    mounts = dict(volume.split(":") for volume in service["volumes"])
    return {
        "init": service["init"],
        "shm": service["shm_size"],
        "nofile": str(service["ulimits"]["nofile"]),
        "checkout": mounts[".."],
    }


def yaml_of(text, variables):
    import yaml

    return yaml.safe_load(fill(text, variables))


def of_devcontainer(variables):
    text = (ROOT / ".devcontainer" / "devcontainer.json").read_text()
    content = json.loads(fill(re.sub(r"^\s*//.*$", "", text, flags=re.M), variables))
    flags = dict(argument.split("=", 1) for argument in content["runArgs"])
    assert set(flags) == {"--shm-size", "--ulimit"}
    mount = dict(part.split("=") for part in content["workspaceMount"].split(","))
    assert mount["target"] == content["workspaceFolder"]
    return {
        "init": content["init"],
        "shm": flags["--shm-size"],
        "nofile": flags["--ulimit"].removeprefix("nofile="),
        "checkout": mount["target"],
    }


SERVICES = ("trainer", "tensorboard", "trainer-gpu", "tensorboard-gpu")


def test_variables_set_all_of_them():
    pytest.importorskip("yaml")
    expected = {"init": True, "shm": "3g", "nofile": "4096", "checkout": "/puffer"}
    assert of_script(GIVEN) == expected
    assert of_devcontainer(GIVEN) == expected
    for service in SERVICES:
        assert of_compose(service, GIVEN) == expected


def test_defaults_that_nothing_computes_are_the_same():
    pytest.importorskip("yaml")
    expected = {"init": True, "shm": "2g", "nofile": "65536", "checkout": "/puffer"}
    assert of_devcontainer({}) == expected
    for service in SERVICES:
        assert of_compose(service, {}) == expected


@pytest.mark.parametrize("service", SERVICES)
def test_ports_of_compose_are_on_loopback(service):
    pytest.importorskip("yaml")
    text = (ROOT / "docker" / "docker-compose.yaml").read_text()
    ports = yaml_of(text, {})["services"][service].get("ports", [])
    assert ports == (["127.0.0.1:6006:6006"] if "tensorboard" in service else [])
