"""Tasks of this repository: `invoke --list`, and `invoke --help TASK` for one.

Each prints the commands it runs; `--dry-run` only prints them. What a task needs and is missing,
a parent image for example, is built first. The work is in `docker/puffertank/`.
The tasks `fleet.…`, for several machines, are in `provisioning/fleet/`.
"""

import sys
from pathlib import Path

from invoke import Collection, Task, task

sys.path.insert(0, str(Path(__file__).parent / "docker"))  # invoke loads this file by its path
sys.path.insert(0, str(Path(__file__).parent / "provisioning"))

from fleet import tasks as fleet
from puffertank import release as releases
from puffertank import transfer
from puffertank.runner import Runner
from puffertank.stack import choose

BUILD_HELP = {
    "cpu": "the CPU variant; the default is what this machine can use",
    "cuda": "the CUDA variant",
    "envs": "environments of stage 2, separated by commas (default: those of docker/bake.json)",
    "set": "a further setting of docker buildx bake, such as base.args.CUDA_TOOLKIT=1; repeatable",
    "dry-run": "print the commands only",
}
REGISTRY_HELP = {
    "cpu": BUILD_HELP["cpu"],
    "cuda": BUILD_HELP["cuda"],
    "registry": "HOST[/PATH] to push to and pull from (default: the variable PUFFER_REGISTRY)",
    "dry-run": BUILD_HELP["dry-run"],
}
IMAGE_HELP = {name: BUILD_HELP[name] for name in ("cpu", "cuda", "dry-run")}


@task(help=BUILD_HELP, iterable=["set_"])
def build_stage1(_, cpu=False, cuda=False, envs="", set_=None, dry_run=False):
    """Build stage 1, `puffertank/base`: Debian, Python and torch of the lock."""
    choose(cpu, cuda, dry_run=dry_run).build("base", envs, set_)


@task(help=BUILD_HELP, iterable=["set_"])
def build_stage2(_, cpu=False, cuda=False, envs="", set_=None, dry_run=False):
    """Build stage 2, `puffertank/deps`: what the environments need."""
    choose(cpu, cuda, dry_run=dry_run).build("deps", envs, set_)


@task(help=BUILD_HELP, iterable=["set_"])
def build_stage3(_, cpu=False, cuda=False, envs="", set_=None, dry_run=False):
    """Build stage 3, `puffertank/tank`: this checkout. Missing parents are built first."""
    choose(cpu, cuda, dry_run=dry_run).build("tank", envs, set_)


@task(help=BUILD_HELP, iterable=["set_"])
def build(_, cpu=False, cuda=False, envs="", set_=None, dry_run=False):
    """Build all three stages; what has not changed comes from the engine's cache."""
    choose(cpu, cuda, dry_run=dry_run).build("tank", envs, set_, parents=True)


@task(help={**REGISTRY_HELP, "release": "also under this version: VERSION-cpu, VERSION-cuda"})
def push(_, cpu=False, cuda=False, registry="", release=False, dry_run=False):
    """Push the images to a registry."""
    choose(cpu, cuda, registry, dry_run).push(release)


@task(help={**REGISTRY_HELP, "tag": "another tag than the variant, such as 1.2.3-cpu"})
def pull(_, cpu=False, cuda=False, registry="", tag="", dry_run=False):
    """Pull the images from a registry; refuses those of another lock."""
    choose(cpu, cuda, registry, dry_run).pull(tag)


@task(help={**IMAGE_HELP, "to": "HOST:DIRECTORY of a checkout that gets and loads the images"})
def save(_, cpu=False, cuda=False, to="", dry_run=False):
    """Save the images to one compressed file in dist/images and, with --to, move them over ssh.

    The other checkout must have the same lock. An interrupted copy continues when run again.
    """
    stack = choose(cpu, cuda, dry_run=dry_run)
    archive = transfer.save(stack)
    if to:
        transfer.send(archive, stack.lock, to, stack.run)


@task(
    help={
        **IMAGE_HELP,
        "archive": "a file that `invoke save` made (default: the one in dist/images)",
        "from": "HOST:DIRECTORY of a checkout where `invoke save` was run",
    }
)
def load(_, archive="", from_="", cpu=False, cuda=False, dry_run=False):
    """Load images that `invoke save` saved; refuses those of another lock.

    With --from, the newest archive is fetched over ssh; an interrupted copy continues.
    """
    stack = choose(cpu, cuda, dry_run=dry_run)
    if from_:
        found = transfer.fetch(stack.variant, stack.lock, from_, stack.run)
    else:
        found = Path(archive).resolve() if archive else transfer.find(stack.variant, stack.lock)
    transfer.load(found, stack.run)


@task(help={**IMAGE_HELP, "command": "what to run, quoted: 'puffer train nethack'"})
def run(_, command, cpu=False, cuda=False, dry_run=False):
    """Run a command in a container of stage 3."""
    choose(cpu, cuda, dry_run=dry_run).start(command)


@task(help=IMAGE_HELP)
def shell(_, cpu=False, cuda=False, dry_run=False):
    """Open a shell in a container of stage 3."""
    choose(cpu, cuda, dry_run=dry_run).start("bash -l")


@task(help={**IMAGE_HELP, "image": "the smoke tests in a container instead"})
def test(_, image=False, cpu=False, cuda=False, dry_run=False):
    """Run the quick tests here, or with --image the smoke tests in a container."""
    if image:
        choose(cpu, cuda, dry_run=dry_run).start("pytest -m smoke")
    else:
        Runner(dry_run)("pytest")


@task(help={"dry-run": BUILD_HELP["dry-run"]})
def lint(_, dry_run=False):
    """Check style and types of everything, as before each commit."""
    Runner(dry_run)("pre-commit", "run", "--all-files")


@task(help={"serve": "show the pages in a browser instead", "dry-run": BUILD_HELP["dry-run"]})
def docs(_, serve=False, dry_run=False):
    """Build the documentation to docs/site; needs the extra docs."""
    verb = ["serve"] if serve else ["build", "--strict"]
    Runner(dry_run)("mkdocs", *verb, "--config-file", "docs/mkdocs.yml")


@task(help={"dry-run": BUILD_HELP["dry-run"]})
def bench(_, dry_run=False):
    """Measure vectorization and emulation against their peers."""
    for script in ("benchmarks/vector.py", "benchmarks/emulation.py"):
        Runner(dry_run)("python", script)


@task(help={"env": "a name from `puffer envs`", "dry-run": BUILD_HELP["dry-run"]})
def demo(_, env="squared", dry_run=False):
    """Train an environment, then watch the policy play in the terminal."""
    runner = Runner(dry_run)
    runner("puffer", "train", env)
    runner("puffer", "eval", env, "--checkpoint", "latest", "--render")


@task(help={"dry-run": BUILD_HELP["dry-run"]})
def doctor(_, dry_run=False):
    """Check that everything on this machine fits together; see also `puffer doctor --help`."""
    Runner(dry_run)("puffer", "doctor")


@task(
    help={
        **IMAGE_HELP,
        "version": "the new version, X.Y.Z",
        "images": "build and tag the images too (default), or --no-images",
    }
)
def release(_, version, images=True, cpu=False, cuda=False, dry_run=False):
    """Make a release: version, changelog, commit and tag, sdist and wheel, image tags.

    Nothing is published; pushing the tag starts .github/workflows/publish.yml.
    """
    releases.release(choose(cpu, cuda, dry_run=dry_run), version, images)


@task(help={**IMAGE_HELP, "images": "also the images of one variant"})
def clean(_, images=False, cpu=False, cuda=False, dry_run=False):
    """Remove what builds and tests leave: build, dist, docs/site, caches. Runs stay."""
    caches = [".mypy_cache", ".pytest_cache", ".ruff_cache", ".hypothesis"]
    Runner(dry_run)("rm", "-rf", "build", "dist", "docs/site", *caches)
    if images:
        stack = choose(cpu, cuda, dry_run=dry_run)
        stack.run("docker", "image", "rm", *reversed(stack.images))


namespace = Collection(*(each for each in list(vars().values()) if isinstance(each, Task)))
namespace.add_collection(Collection.from_module(fleet, name="fleet"))
