"""Tasks for several machines; fleet.toml names them and who is assigned to which."""

import os

from invoke.context import Context
from invoke.tasks import task
from puffertank import transfer
from puffertank.stack import choose

from fleet import actions

FILE = os.environ.get("PUFFER_FLEET", str(actions.ROOT / "provisioning/fleet.toml"))
HELP = {
    "on": "machines and groups, separated by commas (default: all)",
    "file": "the fleet file (default: the variable PUFFER_FLEET, then provisioning/fleet.toml)",
    "minutes": "time limit of each machine (default: that of the fleet file)",
}
CHANGE_HELP = {**HELP, "dry-run": "print what would be done only"}
IMAGE_HELP = {
    "archive": "a file that `invoke save` made (default: it is made from this machine's images)",
    "cpu": "the CPU variant; the default is what this machine can use",
    "cuda": "the CUDA variant",
}


@task(help=HELP)
def status(_: Context, on: str = "", file: str = FILE, minutes: float = 0.0) -> None:
    """Show what every machine is: state, lock, image, driver, load, users, GPUs."""
    actions.status(actions.select(file, on, minutes))


@task(help=CHANGE_HELP)
def provision(
    _: Context, on: str = "", file: str = FILE, minutes: float = 0.0, dry_run: bool = False
) -> None:
    """Copy this checkout's provisioning to the machines and run it there."""
    actions.provision(actions.select(file, on, minutes, dry_run))


@task(help=HELP)
def verify(_: Context, on: str = "", file: str = FILE, minutes: float = 0.0) -> None:
    """Run verify.sh everywhere; fails if machines differ in image, lock or driver."""
    actions.verify(actions.select(file, on, minutes))


@task(help={**CHANGE_HELP, "prune": "also remove users that the fleet file does not know"})
def apply(
    _: Context,
    on: str = "",
    file: str = FILE,
    minutes: float = 0.0,
    prune: bool = False,
    dry_run: bool = False,
) -> None:
    """Add, change and remove users until each machine has those assigned to it.

    The home of a removed user becomes an archive on the machine.
    """
    actions.apply(actions.select(file, on, minutes, dry_run), prune)


@task(help={**CHANGE_HELP, **IMAGE_HELP})
def load_image(
    _: Context,
    on: str = "",
    file: str = FILE,
    minutes: float = 0.0,
    archive: str = "",
    cpu: bool = False,
    cuda: bool = False,
    dry_run: bool = False,
) -> None:
    """Load this machine's images on all machines, over ssh and without a registry."""
    chosen = actions.select(file, on, minutes, dry_run)
    stack = choose(cpu, cuda, dry_run=dry_run)
    found = transfer.check(archive) if archive else transfer.save(stack)
    actions.load_image(chosen, found, stack.lock)


@task(help={**CHANGE_HELP, "command": "what to run, quoted: 'nvidia-smi -L'"})
def run(
    _: Context,
    command: str,
    on: str = "",
    file: str = FILE,
    minutes: float = 0.0,
    dry_run: bool = False,
) -> None:
    """Run a command on the machines, as the account that logs in."""
    actions.run(actions.select(file, on, minutes, dry_run), command)
