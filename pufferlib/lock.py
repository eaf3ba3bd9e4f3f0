"""The one lock of the stack: its hash, where it lies, and what hardware it needs.

`constraints.txt` locks the core and all environments that fit together; every file of
`constraints/` locks one island that cannot share it, and `constraints/nodeps.txt` the packages that
are installed without what they declare to need. Machines with the same hash install the same
versions, whatever variant of torch (CPU or CUDA) they chose.

Runs without anything installed: `python3 pufferlib/lock.py` prints the hash.
"""

from __future__ import annotations

import configparser
import hashlib
import re
from collections.abc import Iterator
from pathlib import Path

LOCK = "constraints.txt"
ISLANDS = "constraints"
NODEPS = f"{ISLANDS}/nodeps.txt"

# What the locked torch needs where it computes on a GPU: its build from the default index.
TORCH = "2.13.0"
"""The torch for which the numbers below were looked up; a new pin needs a new look."""
TORCH_CUDA = "13.0"
"""CUDA version that the wheel is built with."""
MIN_DRIVER = 580
"""Oldest NVIDIA driver branch that runs programs of this CUDA version."""
MIN_COMPUTE_CAPABILITY = (7, 5)
"""Oldest GPU generation that this CUDA version compiles for: Turing, 2018."""

_COMMENT = re.compile(r"(^|\s)#.*")
_PIN = re.compile(r"(?P<name>[A-Za-z0-9][A-Za-z0-9._-]*)(?P<rest>.*)")


def find_root() -> Path | None:
    """The directory of the lock: the source tree this file lies in, else the installed package.

    None where neither has one.
    """
    package = Path(__file__).resolve().parent
    tree = package.parent
    candidates = [tree, package] if (tree / "pyproject.toml").is_file() else [package]
    return next((root for root in candidates if (root / LOCK).is_file()), None)


def lock_hash(root: Path) -> str:
    """Twelve hexadecimal digits that change with every version the lock under `root` pins.

    Comments, blank lines, the order of lines, spelling of names and torch's local version
    (`+cpu`) change nothing.

    Raises:
        FileNotFoundError: there is no `constraints.txt` in `root`.
    """
    digest = hashlib.sha256()
    for path in [root / LOCK, *sorted((root / ISLANDS).glob("*.txt"))]:
        digest.update(f"[{path.relative_to(root).as_posix()}]\n".encode())
        for line in sorted(set(_normalized(path.read_text()))):
            digest.update(f"{line}\n".encode())
    return digest.hexdigest()[:12]


def pins(text: str) -> dict[str, str]:
    """Version of each name that the text of a lock pins with `==`; names are canonical."""
    pairs = (line.partition("==") for line in _normalized(text))
    return {name: version.partition(";")[0] for name, operator, version in pairs if operator}


def without_dependencies(root: Path, extra: str) -> list[str]:
    """What is installed beside an extra without its declared requirements, as pip takes it.

    Raises:
        FileNotFoundError: there is no `constraints/nodeps.txt` in `root`.
    """
    parser = configparser.ConfigParser(
        allow_no_value=True, delimiters=("\0",), inline_comment_prefixes=("#",)
    )
    parser.read_string((root / NODEPS).read_text())
    return list(parser[extra]) if parser.has_section(extra) else []


def canonical(name: str) -> str:
    """The one spelling of a distribution's name (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()


def _normalized(text: str) -> Iterator[str]:
    for line in text.splitlines():
        line = _COMMENT.sub("", line).strip()
        pin = _PIN.fullmatch(line)
        if pin is None:
            if line:
                yield line
            continue
        name, rest = canonical(pin["name"]), re.sub(r"\s+", "", pin["rest"])
        if name == "torch":
            rest = re.sub(r"\+[A-Za-z0-9.]+", "", rest)
        yield name + rest


def main() -> None:
    """Print the hash of the lock."""
    root = find_root()
    if root is None:
        raise SystemExit(f"expected {LOCK} beside pyproject.toml or in the package, found none")
    print(lock_hash(root))


if __name__ == "__main__":
    main()
