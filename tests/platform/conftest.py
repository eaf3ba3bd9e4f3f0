"""The real container engine, and one build of the shipped images for the whole session.

Nothing here starts an engine: `tests/platform/engine.sh up` does. With `-n 2 --dist loadgroup`
the tests of servers run beside those of images; neither use anything that the others change.
"""

import fcntl
import json
import os
import resource
import shutil
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from box import (  # noqa: F401  (fixtures)
    box,
    box_checkout,
    box_image,
    first_run,
    make_box,
    provisioned_image,
    small_image,
)
from engine_tools import Build, bake_stages, command, copy_checkout, engine_answers
from platform_groups import group_of


def needs_images(item):
    return "build" in item.fixturenames


def pytest_collection_modifyitems(items):
    """Of the tests here, those that need no images come first: meanwhile the images are built."""
    places = [
        place for place, item in enumerate(items) if item.path.parent == Path(__file__).parent
    ]
    ordered = sorted((items[place] for place in places), key=needs_images)
    for place, item in zip(places, ordered, strict=True):
        items[place] = item
        assert ("box_image" in item.fixturenames) == (group_of(item.path.stem) != "images"), (
            f"{item.path}: give it its group in tests/platform_groups.py"
        )


def build_once(checkout, shared):
    """Build, or take what another process of this session has built."""
    result = shared / "build.json"
    with (shared / "build.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not result.exists():
            result.write_text(json.dumps(asdict(bake_stages(checkout))))
    return Build(**json.loads(result.read_text()))


@pytest.fixture(scope="session", autouse=True)
def building(request, checkout, tmp_path_factory):
    """The build of the three images, begun with the first test here if any of them needs it."""
    if not engine_answers() or not any(map(needs_images, request.session.items)):
        yield None
        return
    shared = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        shared = shared.parent
    with ThreadPoolExecutor(1) as pool:
        yield pool.submit(build_once, checkout, shared)


@pytest.fixture(scope="session")
def engine():
    """Skips without an engine.

    An engine without all of root's rights, such as one in a container, cannot raise its hard limit
    of open files to what compose and the dev container ask for.
    """
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    if hard != resource.RLIM_INFINITY:
        os.environ.setdefault("PUFFER_NOFILE", str(min(hard, 65536)))
    if not engine_answers():
        pytest.skip("no container engine answers (start one: tests/platform/engine.sh up)")


@pytest.fixture(scope="session")
def checkout(tmp_path_factory):
    """A copy of this working tree to build from and to change."""
    return copy_checkout(tmp_path_factory.mktemp("checkout"))


@pytest.fixture(scope="session")
def build(engine, building):
    """The three images, built once."""
    return building.result()


@pytest.fixture
def tank(build):
    """Run a command in a new container of stage 3, without a network unless flags say so."""

    def run(*arguments, flags=(), image="puffertank/tank:cpu", **options):
        network = [] if any("net" in str(flag) for flag in flags) else ["--network=none"]
        return command("docker", "run", "--rm", *network, *flags, image, *arguments, **options)

    return run


@pytest.fixture
def background(build):
    """Start containers that are removed after the test; returns their ids."""
    started = []

    def run(*arguments, flags=(), image="puffertank/tank:cpu"):
        done = command("docker", "run", "-d", "--network=none", *flags, image, *arguments)
        started.append(done.stdout.strip())
        return started[-1]

    yield run
    for container in started:
        command("docker", "rm", "-f", container, check=False)


@pytest.fixture
def workspace():
    """Make copies of this checkout, as git repositories that belong to a user of this machine."""
    made = []

    def make(uid=0, gid=None):
        gid = uid if gid is None else gid
        # Not below pytest's own directory, which other users cannot enter.
        directory = Path(tempfile.mkdtemp(prefix="puffertank-"))
        made.append(directory)
        copy_checkout(directory)
        for arguments in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "all"]):
            identity = ["-c", "user.name=test", "-c", "user.email=test@example.com"]
            command("git", "-C", directory, *identity, *arguments)
        command("chown", "-R", f"{uid}:{gid}", directory)
        return directory

    yield make
    for directory in made:
        shutil.rmtree(directory)
