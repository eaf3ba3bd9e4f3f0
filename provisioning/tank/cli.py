"""The command line of `tank`: for administrators on the machine, and for users over ssh.

A user has the verbs that concern the user's own containers, and no flag to name another user.
"""

import argparse
import os
import sys
from collections.abc import Callable
from typing import Any, NoReturn

from tank import admin, own
from tank.errors import USAGE, TankError
from tank.store import CREDENTIALS

USER_VERBS = ("new", "ls", "enter", "default", "reset", "rm", "logs", "stats", "gpu")


class Parser(argparse.ArgumentParser):
    """argparse that raises instead of ending the process."""

    def error(self, message: str) -> NoReturn:
        """Raise a usage error."""
        raise TankError(message, self.format_usage().strip(), status=USAGE)


def parser(user: str | None) -> Parser:
    """The grammar for `user`, or for administrators if None."""
    top = Parser(prog="tank", description=__doc__, allow_abbrev=False)
    verbs = top.add_subparsers(dest="verb", required=True, metavar="VERB", parser_class=Parser)
    _own_verbs(verbs, user)
    if user is None:
        _user_verbs(verbs)
        _upgrade_verb(verbs)
        closed = verbs.add_parser("close", help="start no container until 'tank open'")
        closed.add_argument("reason", help="what users are told")
        closed.set_defaults(run=admin.close)
        verbs.add_parser("open", help="start containers again").set_defaults(run=admin.open_)
    return top


def _own_verbs(verbs: Any, user: str | None) -> None:
    def verb(name: str, run: Callable, about: str) -> argparse.ArgumentParser:
        made = verbs.add_parser(name, help=about, allow_abbrev=False)
        if user is None:
            made.add_argument("--user", metavar="USER", help="whose container")
        made.set_defaults(run=run)
        return made

    new = verb("new", own.new, "make a container")
    new.add_argument("name")
    new.add_argument("--image", help="a PufferTank image of this machine, or one made from it")
    verb("ls", own.ls, "list containers; administrators see everybody's")
    for name, run, about in (
        ("enter", own.enter, "open a shell in a container"),
        ("default", own.default, "say, or choose, which container ssh enters"),
        ("logs", own.logs, "show what a container's start said"),
    ):
        verb(name, run, about).add_argument("name", nargs="?")
    for name, run, about, count in (
        ("reset", own.reset, "make a container anew; the home stays", "?"),
        ("rm", own.rm, "remove a container; the home stays", None),
    ):
        made = verb(name, run, about)
        made.add_argument("name", nargs=count)
        _add_yes(made)
    verb("stats", own.stats, "show what containers use")
    _gpu_verbs(verb("gpu", own.gpu_who, "lease GPUs, and see who has them"))


def _add_yes(made: argparse.ArgumentParser) -> None:
    made.add_argument("--yes", action="store_true", help="even if something runs in it")


def _gpu_verbs(gpu: argparse.ArgumentParser) -> None:
    verbs = gpu.add_subparsers(dest="gpu_verb", required=True, metavar="VERB", parser_class=Parser)
    lease = verbs.add_parser("lease", help="have GPUs for one of your containers alone")
    lease.add_argument("count", type=int)
    lease.add_argument("--hours", type=float)
    lease.add_argument("--name", help="the container (default: the one that ssh enters)")
    _add_yes(lease)
    lease.set_defaults(run=own.gpu_lease)
    verbs.add_parser("release", help="give them back").set_defaults(run=own.gpu_release)
    verbs.add_parser("who", help="who has which GPU").set_defaults(run=own.gpu_who)


def _user_verbs(verbs: Any) -> None:
    user = verbs.add_parser("user", help="add, change, remove and list users", allow_abbrev=False)
    kinds = user.add_subparsers(dest="kind", required=True, metavar="VERB", parser_class=Parser)
    add = kinds.add_parser("add", help="an account whose login is a container")
    add.add_argument("name")
    add.add_argument("--key", metavar="FILE", help="the user's public ssh keys; - reads them here")
    add.add_argument("--image", help="default: TANK_IMAGE of tank.conf")
    add.set_defaults(run=admin.user_add)
    change = kinds.add_parser("set", help="change a user's quota, or what lets the user in")
    change.add_argument("name")
    change.add_argument(
        "--credential", choices=CREDENTIALS, help="what lets the user in; --tailscale alone: both"
    )
    change.set_defaults(run=admin.user_set)
    for made in (add, change):
        made.add_argument("--cpus", help="such as 8, or none for no limit")
        made.add_argument("--memory", type=str.lower, help="such as 64g, or none")
        made.add_argument("--shm", type=str.lower, help="size of /dev/shm, such as 8g")
        made.add_argument("--gpus", help="all (shared), or how many may be leased")
        made.add_argument("--disk", type=str.lower, help="of the home, such as 100g, or none")
        made.add_argument(
            "--tailscale", metavar="LOGIN", help="whose devices in the tailnet let the user in"
        )
    remove = kinds.add_parser("rm", help="close an account; the home becomes an archive")
    remove.add_argument("name")
    remove.set_defaults(run=admin.user_rm)
    listed = kinds.add_parser("list", help="everybody: containers, quota, GPUs, disk")
    listed.add_argument("--json", action="store_true")
    listed.set_defaults(run=admin.user_list)


def _upgrade_verb(verbs: Any) -> None:
    upgrade = verbs.add_parser("upgrade", help="move users to another image; homes stay")
    upgrade.add_argument("name", nargs="?", metavar="USER")
    upgrade.add_argument("--all", action="store_true", help="all users")
    upgrade.add_argument("--image", help="default: TANK_IMAGE of tank.conf")
    upgrade.add_argument("--back", action="store_true", help="to the image before the last upgrade")
    _add_yes(upgrade)
    upgrade.set_defaults(run=admin.upgrade)


def parse(words: list[str], user: str | None) -> argparse.Namespace:
    """Parse a command line.

    Raises:
        TankError: it is not in the grammar.
    """
    arguments = parser(user).parse_args(words)
    if user is not None:
        arguments.user = user
    return arguments


def run(arguments: argparse.Namespace) -> int:
    """Run what was parsed; returns the exit status."""
    arguments.run(arguments)
    return 0


def main() -> int:
    """Entry point of administrators."""
    try:
        arguments = parse(sys.argv[1:], None)
        if os.geteuid() != 0:
            raise TankError("expected root", f"sudo tank {' '.join(sys.argv[1:])}")
        return run(arguments)
    except TankError as error:
        print(error, file=sys.stderr)
        return error.status
