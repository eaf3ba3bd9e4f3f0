"""How much a home may hold, where its file system counts by project or by user.

Both kinds are set where both are there. A project's number is the user's uid; the owner of a file
can move it to another project, so it is the count by user that nobody gets around.
"""

import json
import subprocess

from tank.errors import TankError

# Each kind, by its flag of setquota, and the mount options that turn it on (ext4, then XFS).
OPTIONS = {
    "--project": {"prjquota", "pquota"},
    "--user": {"usrquota", "quota", "uquota"},
}
KIB = {"k": 1, "m": 1 << 10, "g": 1 << 20, "t": 1 << 30}


def kinds(home: str) -> list[str]:
    """What the file system of the home limits by; empty: it does not, or there is no such home."""
    try:
        return _kinds(_mount(home))
    except TankError:
        return []


def limit(home: str, uid: int, size: str | None) -> None:
    """Let the home grow to `size`, such as 100g, and no further; None takes the limit away.

    Nothing happens where the file system has no quotas.

    Raises:
        TankError: it has, and refuses.
    """
    mount = _mount(home)
    blocks = int(size[:-1]) * KIB[size[-1]] if size else 0
    for kind in _kinds(mount):
        if kind == "--project" and size:
            _join(home, uid)
        limits = ("0", str(blocks), "0", "0")  # soft and hard, of blocks and of files
        _run("setquota", kind, str(uid), *limits, mount["target"])


def _join(home: str, project: int) -> None:
    """Put all of the home into the project; what is made there later follows."""
    mark = ("-execdir", "chattr", "-p", str(project))
    _run(
        "find", home, "-xdev", "(", "-type", "d", *mark, "+P", "{}", "+", ")",
        "-o", "(", "-type", "f", *mark, "{}", "+", ")",
    )  # fmt: skip


def _kinds(mount: dict[str, str]) -> list[str]:
    options = set(mount["options"].split(","))
    return [kind for kind, names in OPTIONS.items() if options & names]


def _mount(home: str) -> dict[str, str]:
    columns = ["--output", "TARGET,OPTIONS"]
    return json.loads(_run("findmnt", "--json", *columns, "--target", home))["filesystems"][0]


def _run(*command: str) -> str:
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    except FileNotFoundError:
        raise TankError(f"{command[0]} is not installed: provision.sh --only 70") from None
    if done.returncode:
        raise TankError(f"{command[0]} failed: {done.stderr.strip()}")
    return done.stdout
