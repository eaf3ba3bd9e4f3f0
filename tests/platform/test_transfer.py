"""Images move to another engine: `invoke save` and `invoke load`, from one real engine to another.

The second engine belongs to this module alone, so the module starts and stops it itself, by the
script that knows how to leave the first one's network untouched; nobody else has to remember it.
"""

import json
import os
import re
import sys
from pathlib import Path

import pytest
from engine_tools import ROOT, command, copy_checkout

from pufferlib.lock import lock_hash

pytestmark = [pytest.mark.platform, pytest.mark.timeout(300)]

ENGINE = ROOT / "tests" / "platform" / "engine.sh"
# For images of nothing but a program and a few words, so that moving them takes no time.
PRINT_FILES = r"""
#include <stdio.h>
int main(int count, char **names) {
    for (int i = 1; i < count; i++) {
        FILE *file = fopen(names[i], "r");
        if (!file) return 1;
        for (int c; (c = getc(file)) != EOF;) putchar(c);
    }
}
"""
VARIANT = "transfer-test"  # a tag of its own: the real images stay what they are
STAGES = ("base", "deps", "tank")


@pytest.fixture(scope="module")
def second(engine):
    """Variables under which every command talks to the second engine."""
    if os.geteuid() != 0:
        pytest.skip("only root can start a second engine")
    interface = Path("/sys/class/net/docker0/ifindex")  # the first engine's; made anew, it differs
    before = interface.read_text()
    try:
        address = command(ENGINE, "second-up").stdout.splitlines()[-1]
        yield {**os.environ, "DOCKER_HOST": address}
    finally:
        command(ENGINE, "second-down")
    assert interface.read_text() == before


@pytest.fixture(scope="module")
def place(engine, tmp_path_factory):
    """A checkout whose dist/images nobody else uses."""
    return copy_checkout(tmp_path_factory.mktemp("transfer"))


@pytest.fixture(scope="module")
def images(engine, tmp_path_factory):
    """Three small images, each the child of the one before, with names and labels of the stages."""
    context = tmp_path_factory.mktemp("context")
    program = context / "print-files"
    command("cc", "-static", "-x", "c", "-o", program, "-", input=PRINT_FILES, stdin=None)
    parent, names = "scratch", []
    for stage in STAGES:
        (context / stage).write_text(f"{stage}\n")
        copied = "base print-files" if parent == "scratch" else stage
        (context / "Dockerfile").write_text(f"FROM {parent}\nCOPY {copied} /\n")
        parent = f"puffertank/{stage}:{VARIANT}"
        names.append(parent)
        command(
            "docker", "build", "--tag", parent, "--label", "io.puffertank.torch-variant=cpu",
            "--label", f"io.puffertank.lock-hash={lock_hash(ROOT)}", context,
        )  # fmt: skip
    yield names
    command("docker", "rmi", *names)


@pytest.fixture(scope="module")
def archive(place, images):
    """What `invoke save` writes; its tasks know the variants cpu and cuda, so the name is ours."""
    script = f"from puffertank import stack, transfer\ntransfer.save(stack.Stack('{VARIANT}'))"
    path = f"{place}/docker:{place}"
    command(sys.executable, "-c", script, cwd=place, env={**os.environ, "PYTHONPATH": path})
    (manifest,) = (place / "dist" / "images").glob("*.json")
    return manifest.with_suffix("")


def load(place, archive, environment):
    invoke = [sys.executable, "-m", "invoke", "load", "--cpu", "--archive", archive]
    return command(*invoke, cwd=place, env=environment, check=False)


def listed(environment=None):
    done = command("docker", "images", "--quiet", env=environment)
    return set(done.stdout.split())


def inspect(names, environment=None):
    found = json.loads(command("docker", "image", "inspect", *names, env=environment).stdout)
    return [(image["Id"], image["Config"]["Labels"], image["RepoTags"]) for image in found]


def test_another_lock_is_refused_before_anything_is_loaded(place, archive, second):
    lock = place / "constraints.txt"
    text = lock.read_text()
    lock.write_text(re.sub(r"^numpy==.*$", "numpy==1.0", text, flags=re.M))
    other = lock_hash(place)
    try:
        done = load(place, archive, second)
    finally:
        lock.write_text(text)
    assert done.returncode == 1
    assert f"is of lock {lock_hash(place)}, this checkout has {other}" in done.stderr
    assert listed(second) == set()


def test_a_cut_archive_is_refused_before_anything_is_loaded(place, archive, second):
    whole = archive.read_bytes()
    archive.write_bytes(whole[:-1])
    try:
        done = load(place, archive, second)
    finally:
        archive.write_bytes(whole)
    assert done.returncode == 1
    assert f"{len(whole) - 1} of {len(whole)} bytes" in done.stderr
    assert listed(second) == set()


def test_the_second_engine_has_the_identical_images_and_runs_them(place, images, archive, second):
    done = load(place, archive, second)
    assert done.returncode == 0, done.stderr
    assert inspect(images, second) == inspect(images)
    printed = command(
        "docker", "run", "--rm", "--network=none", images[-1], "/print-files",
        *(f"/{stage}" for stage in STAGES), env=second,
    )  # fmt: skip
    assert printed.stdout.split() == list(STAGES)
