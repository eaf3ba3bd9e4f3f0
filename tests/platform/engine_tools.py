"""What the platform tests share: programs, builds and copies of this checkout."""

import functools
import json
import os
import re
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
VERSION = re.search(r'^__version__ = "(.+)"', (ROOT / "pufferlib/__init__.py").read_text(), re.M)[1]
STAGES = ("base", "deps", "tank")
BASE_IMAGE = "puffertank-test/debian:bookworm"
CERTIFICATES = Path("/etc/ssl/certs/ca-certificates.crt")


def command(*arguments, check=True, timeout=300, **options):
    """Run a program without a terminal; its output is text."""
    options.setdefault("stdin", subprocess.DEVNULL)
    done = subprocess.run(
        [str(argument) for argument in arguments],
        capture_output=True,
        text=True,
        timeout=timeout,
        **options,
    )
    if check and done.returncode:
        pytest.fail(f"{arguments} exited with {done.returncode}:\n{done.stdout}\n{done.stderr}")
    return done


@functools.cache
def engine_answers():
    if shutil.which("docker") is None:
        return False
    return command("docker", "version", check=False).returncode == 0


def wait_for(condition, what, seconds=60):
    """Poll `condition` until it is true; returns its value."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        value = condition()
        if value:
            return value
        time.sleep(0.2)
    pytest.fail(f"waited {seconds} s in vain for {what}")


def in_debian(script, *files, network="none", **variables):
    """Run a bash script in the base image, with files of docker/ in /files."""
    mounts = [f"--volume={ROOT}/docker/{name}:/files/{name}:ro" for name in files]
    settings = [f"--env={name}={value}" for name, value in variables.items()]
    return command(
        "docker", "run", "--rm", f"--network={network}", *mounts, *settings, BASE_IMAGE,
        "bash", "-c", script, check=False,
    )  # fmt: skip


def resolve(directory, *arguments):
    """What pip would install under the lock, from wheels of the default index; installs nothing."""
    # Local wheels would hide the index: they are of one variant and one platform.
    environment = {k: v for k, v in os.environ.items() if k not in ("PIP_FIND_LINKS", "PYTHONPATH")}
    report = directory / "report.json"
    command(
        sys.executable, "-m", "pip", "install", "--quiet", "--dry-run", "--ignore-installed",
        "--only-binary=:all:", "--report", report, "-c", ROOT / "constraints.txt", *arguments,
        env={**environment, "PIP_CONFIG_FILE": os.devnull},
    )  # fmt: skip
    return json.loads(report.read_text())["install"]


def copy_checkout(target):
    """What git would commit of this working tree: what a build gets, whatever else lies around."""
    listed = command("git", "ls-files", "-co", "--exclude-standard", "-z", cwd=ROOT).stdout
    for name in filter(None, listed.split("\0")):
        if (ROOT / name).is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, target / name)
    return target


@dataclass
class Build:
    """What buildx bake printed; its steps are numbered by target."""

    log: str
    seconds: float

    def ran(self, step):
        """Whether the step of a Dockerfile that contains `step` was run, not taken from cache."""
        steps = [
            line.split()[0] for line in self.log.splitlines() if step in line and " RUN " in line
        ]
        assert steps, f"no step {step!r} in the log:\n{self.log}"
        cached = {line.split()[0] for line in self.log.splitlines() if line.endswith(" CACHED")}
        return not set(steps) <= cached


def bake_settings(variant="cpu"):
    """What this machine's network asks for, as arguments of bake and of the tasks that build."""
    settings = []
    if CERTIFICATES.exists():
        settings.append(f"*.secrets=id=ca,src={CERTIFICATES}")
    wheels = os.environ.get("PIP_FIND_LINKS", "")
    # Local wheels are of the CPU variant.
    if variant == "cpu" and Path(wheels).is_absolute() and Path(wheels).is_dir():
        settings.append(f"base.contexts.wheels={wheels}")
    return [word for setting in settings for word in ("--set", setting)]


def bake_stages(checkout, image="puffertank/{}:cpu", **options):
    """Build the three stages one after the other, as `invoke build` does, under these names."""
    logs, seconds, parent = [], 0.0, None
    for stage in STAGES:
        settings = [f"{stage}.tags={image.format(stage)}"]
        if parent:
            settings.append(f"{stage}.contexts.parent=docker-image://{parent}")
        built = bake(checkout, stage, settings=settings, **options)
        logs.append(built.log)
        seconds += built.seconds
        parent = image.format(stage)
    return Build("\n".join(logs), seconds)


def bake(checkout, target, settings=(), timeout=900, **variables):
    """Build a shipped Dockerfile, unchanged, on the Debian that engine.sh made."""
    options = [word for setting in settings for word in ("--set", setting)]
    options += bake_settings(variables.get("TORCH_VARIANT", "cpu"))
    variables = {
        "BASE_IMAGE": BASE_IMAGE,
        "TORCH_INDEX": os.environ.get("PUFFER_TORCH_INDEX", ""),
        "VERSION": VERSION,
        "REVISION": "0123abc",
        "LOCK_HASH": command("python3", "pufferlib/lock.py", cwd=checkout).stdout.strip(),
        **variables,
    }
    started = time.monotonic()
    done = command(
        "docker", "buildx", "bake", "-f", "docker/bake.json", "--progress", "plain", "--load",
        *options, target,
        cwd=checkout, env={**os.environ, **variables}, timeout=timeout,
    )  # fmt: skip
    log = re.sub("^#", f"{target}#", done.stdout + done.stderr, flags=re.MULTILINE)
    return Build(log, time.monotonic() - started)
