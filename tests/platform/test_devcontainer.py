"""The dev container, by the tools that VS Code uses."""

import json
import os
import re
import shutil

import pytest
from engine_tools import command

pytestmark = [pytest.mark.platform, pytest.mark.timeout(900)]  # the first one builds the images

VERSION = "0.89.0"


@pytest.fixture(scope="session")
def devcontainer(engine, tmp_path_factory):
    if shutil.which("npm") is None:
        pytest.skip("npm is missing (tests/platform/engine.sh up installs it)")
    directory = tmp_path_factory.mktemp("npm")
    command("npm", "install", "--silent", f"@devcontainers/cli@{VERSION}", cwd=directory)
    program = directory / "node_modules" / ".bin" / "devcontainer"

    def run(verb, workspace, *arguments, **options):
        return command(program, verb, "--workspace-folder", workspace, *arguments, **options)

    return run


@pytest.fixture
def remove_containers():
    """Removes the dev containers of a workspace."""
    workspaces = []
    yield workspaces.append
    for workspace in workspaces:
        label = f"label=devcontainer.local_folder={workspace}"
        for container in command("docker", "ps", "-aqf", label).stdout.split():
            command("docker", "rm", "-f", container)


def outcome(done):
    """The last line of the tools' output."""
    return json.loads(done.stdout.strip().splitlines()[-1])


def test_configuration(devcontainer, workspace):
    configuration = outcome(devcontainer("read-configuration", workspace()))["configuration"]
    assert configuration["workspaceFolder"] == "/puffer"
    assert configuration["hostRequirements"]["gpu"] == "optional"
    assert configuration["remoteUser"] == "puffer"
    assert "features" not in configuration  # they would need a registry


def test_opens_and_passes_the_smoke_tests(build, devcontainer, workspace, remove_containers):
    directory = workspace(1000)
    remove_containers(directory)
    # The tools run it before `up`, but not before `build`.
    command("bash", ".devcontainer/initialize.sh", cwd=directory)
    assert outcome(devcontainer("build", directory))["outcome"] == "success"
    command("docker", "rmi", "puffertank/tank:devcontainer")
    done = devcontainer("up", directory, timeout=600)  # runs the smoke tests, as uid 1000
    summary = re.search(r"(\d+) passed, .* in ([\d.]+)s", done.stdout + done.stderr)
    print(f"smoke: {summary[0]}")
    assert int(summary[1]) > 30
    assert float(summary[2]) < 60  # 30 where nothing else runs
    up = outcome(done)
    assert up["outcome"] == "success"
    assert up["remoteUser"] == "puffer"
    assert up["remoteWorkspaceFolder"] == "/puffer"
    stale = "import pufferlib.native"
    devcontainer("exec", directory, "python", "-W", "error", "-c", stale)
    script = """
        id -un; touch made-inside; git status --porcelain; df --output=size -BM /dev/shm; ulimit -n
    """
    done = devcontainer("exec", directory, "bash", "-c", script)
    nofile = os.environ["PUFFER_NOFILE"]
    assert done.stdout.split() == ["puffer", "??", "made-inside", "1M-blocks", "2048M", nofile]
    assert (directory / "made-inside").stat().st_uid == 1000
    failing = devcontainer("exec", directory, "sh", "-c", "exit 4", check=False)
    assert failing.returncode == 4
