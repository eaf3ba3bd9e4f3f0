"""Move the images between machines without a registry: one compressed archive, over ssh.

    PYTHONPATH=docker python3 -m puffertank.transfer ARCHIVE

loads an archive; it needs Python and Docker only, so it is what `save --to` runs on the other
machine. An archive is named after its content, and beside it lies a manifest with the hash of the
lock: an archive of another lock is refused before anything is sent or loaded. rsync continues a
transfer that was interrupted.
"""

from __future__ import annotations

import hashlib
import json
import os
import shlex
import shutil
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pufferlib.lock import lock_hash
from puffertank.runner import ROOT, Runner

if TYPE_CHECKING:
    from puffertank.stack import Stack

DIRECTORY = "dist/images"
"""Where archives lie in a checkout, on both machines."""

RSYNC = ("rsync", "--partial", "--append-verify", "--times", "--progress")

# Pack and unpack, by suffix; both read stdin or the file named last.
COMPRESSORS = {
    ".zst": (["zstd", "-q", "-T0", "-f", "-o"], ["zstd", "-q", "-d", "-c"]),
    ".gz": (["sh", "-c", 'gzip -1 >"$0"'], ["gzip", "-d", "-c"]),
}


@dataclass(frozen=True)
class Manifest:
    """What an archive holds; lies beside it as JSON."""

    lock: str
    images: dict[str, str]
    """Id by name."""
    sha256: str
    bytes: int


def save(stack: Stack) -> Path:
    """Write the stages' images to an archive, unless it is there already, and return its path.

    Raises:
        SystemExit: an image is missing or was built from another lock.
    """
    ids = {name: stack.refuse_another_lock(name).id for name in stack.images}
    content = hashlib.sha256(json.dumps(ids, sort_keys=True).encode()).hexdigest()[:8]
    suffix = ".zst" if shutil.which("zstd") else ".gz"
    name = f"puffertank-{stack.variant}-{stack.lock}-{content}.tar{suffix}"
    archive = ROOT / DIRECTORY / name
    if _manifest_path(archive).exists() and archive.exists():
        print(f"{DIRECTORY}/{name} is there already")
        return archive
    stack.run("mkdir", "-p", DIRECTORY)
    part = f"{DIRECTORY}/{name}.part"
    stack.run.pipe(["docker", "save", *ids], [*COMPRESSORS[suffix][0], part])
    stack.run("mv", part, f"{DIRECTORY}/{name}")
    if not stack.run.dry_run:
        manifest = Manifest(stack.lock, ids, _sha256(archive), archive.stat().st_size)
        _manifest_path(archive).write_text(json.dumps(asdict(manifest), indent=2) + "\n")
    return archive


def send(archive: Path, lock: str, destination: str, run: Runner) -> None:
    """Copy an archive to the checkout HOST:DIR and load it there.

    Raises:
        SystemExit: the checkout there has another lock; nothing was sent.
    """
    host, directory = _split(destination)
    _refuse_another_checkout(host, directory, lock, run)
    name = f"{DIRECTORY}/{archive.name}"
    target = f"{host}:{directory}/{DIRECTORY}/"
    run(*RSYNC, "-e", shlex.join(_ssh()), name, target)
    # Small, and not to be continued: an old one may be longer.
    run("rsync", "--times", "-e", shlex.join(_ssh()), f"{name}.json", target)
    loader = "PYTHONPATH=docker python3 -m puffertank.transfer"
    there = f"cd {shlex.quote(directory)} && {loader} {shlex.quote(name)}"
    run(*_ssh(), host, there)


def fetch(variant: str, lock: str, source: str, run: Runner) -> Path:
    """Copy the newest archive of a variant from the checkout HOST:DIR, and return its path here.

    Raises:
        SystemExit: the checkout there has another lock or no archive; nothing was copied.
    """
    host, directory = _split(source)
    _refuse_another_checkout(host, directory, lock, run)
    pattern = f"{shlex.quote(directory)}/{DIRECTORY}/puffertank-{variant}-{lock}-*.json"
    newest = run.ask(*_ssh(), host, f"ls -t {pattern} | head -n 1")
    if not newest:
        raise SystemExit(f"error: {source} has no archive of lock {lock}; there: invoke save")
    run("mkdir", "-p", DIRECTORY)
    shell = shlex.join(_ssh())
    run(*RSYNC, "-e", shell, f"{host}:{newest.removesuffix('.json')}", f"{DIRECTORY}/")
    run("rsync", "--times", "-e", shell, f"{host}:{newest}", f"{DIRECTORY}/")
    return ROOT / DIRECTORY / Path(newest).name.removesuffix(".json")


def find(variant: str, lock: str) -> Path:
    """The newest archive of a variant and lock on this machine.

    Raises:
        SystemExit: there is none.
    """
    archives = (ROOT / DIRECTORY).glob(f"puffertank-{variant}-{lock}-*.json")
    newest = max(archives, key=lambda path: path.stat().st_mtime, default=None)
    if newest is None:
        raise SystemExit(
            f"error: {DIRECTORY} has no archive of the {variant} images and lock {lock}; "
            "fetch one: invoke load --from HOST:DIRECTORY"
        )
    return newest.with_name(newest.name.removesuffix(".json"))


def load(archive: Path, run: Runner) -> None:
    """Load the images of an archive into this machine's engine.

    Raises:
        SystemExit: it is incomplete, damaged, or of another lock; nothing was loaded.
    """
    if archive.exists() or not run.dry_run:  # a dry run of --from has fetched nothing
        check(archive)
    run.pipe([*COMPRESSORS[archive.suffix][1], str(archive)], ["docker", "load"])


def check(archive: str | Path) -> Path:
    """The path of an archive that is whole and of this checkout's lock.

    Raises:
        SystemExit: it is not.
    """
    archive = Path(archive).resolve()
    manifest = _read_manifest(archive)
    if manifest.lock != (here := lock_hash(ROOT)):
        raise SystemExit(
            f"error: {archive.name} is of lock {manifest.lock}, this checkout has {here}; "
            "check out the same commit on both machines"
        )
    if archive.stat().st_size != manifest.bytes or _sha256(archive) != manifest.sha256:
        raise SystemExit(
            f"error: {archive.name} is not what was saved ({archive.stat().st_size} of "
            f"{manifest.bytes} bytes, or damaged); copy it again, an interrupted copy continues"
        )
    return archive


def _read_manifest(archive: Path) -> Manifest:
    for path in (archive, _manifest_path(archive)):
        if not path.is_file():
            raise SystemExit(f"error: expected {path}, which does not exist; make it: invoke save")
    if archive.suffix not in COMPRESSORS:
        raise SystemExit(f"error: {archive.name}: expected the suffix .tar.zst or .tar.gz")
    try:
        return Manifest(**json.loads(_manifest_path(archive).read_text()))
    except (TypeError, ValueError) as error:
        raise SystemExit(f"error: {_manifest_path(archive)} is no manifest: {error}") from error


def _refuse_another_checkout(host: str, directory: str, lock: str, run: Runner) -> None:
    command = f"cd {shlex.quote(directory)} && mkdir -p {DIRECTORY} && python3 pufferlib/lock.py"
    there = run.ask(*_ssh(), host, command)
    if there != lock:
        raise SystemExit(
            f"error: the checkout {host}:{directory} has lock {there}, this one {lock}; "
            "check out the same commit on both machines"
        )


def _split(place: str) -> tuple[str, str]:
    host, colon, directory = place.partition(":")
    if not (host and colon and directory):
        raise SystemExit(f"error: expected HOST:DIRECTORY of a checkout, got {place!r}")
    return host, directory


def _ssh() -> list[str]:
    return shlex.split(os.environ.get("PUFFER_SSH", "ssh"))


def _manifest_path(archive: Path) -> Path:
    return archive.with_name(archive.name + ".json")


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


if __name__ == "__main__":
    load(Path(sys.argv[1]).resolve(), Runner())
