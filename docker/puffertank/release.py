"""A release: version → changelog → sdist and wheel → image tags. Nothing leaves this machine."""

from __future__ import annotations

import datetime as dt
import re
from pathlib import Path

from puffertank.runner import ROOT
from puffertank.stack import Stack

VERSION_FILE = "pufferlib/__init__.py"
CHANGELOG = "CHANGELOG.md"

_VERSION = re.compile(r'^__version__ = "(?P<version>[^"]+)"$', re.MULTILINE)
_UNRELEASED = re.compile(r"^## \[(?P<name>[^\]]+)\](?: - unreleased)?$", re.MULTILINE)


def release(stack: Stack, version: str, images: bool) -> None:
    """Write the version, date the changelog, commit, tag, build the packages and tag the images.

    Raises:
        SystemExit: the version is none or not newer, the changelog has nothing to release, or the
            working tree has changes; nothing was changed.
    """
    edits = {
        VERSION_FILE: lambda text: set_version(text, version),
        CHANGELOG: lambda text: date_changelog(text, version, dt.date.today()),
    }
    changed = {name: edit((ROOT / name).read_text()) for name, edit in edits.items()}
    refuse_changes(stack)
    for name, text in changed.items():
        write(stack, ROOT / name, text)
    stack.run("git", "commit", "--message", f"Release {version}", "--", *changed)
    stack.run("git", "tag", "--annotate", "--message", f"Release {version}", f"v{version}")
    stack.run("python", "-m", "build", "--outdir", f"dist/{version}")
    if images:
        tag_images(stack, version)
    print("To publish: git push --follow-tags (.github/workflows/publish.yml does the rest)")


def set_version(text: str, version: str) -> str:
    """The package's `__init__` with a newer version.

    Raises:
        SystemExit: `version` is not of the form X.Y.Z, or older than what is there.
    """
    if not re.fullmatch(r"\d+\.\d+\.\d+", version):
        raise SystemExit(f"error: expected a version like 1.2.3, got {version!r}")
    match = _VERSION.search(text)
    if match is None:
        raise SystemExit(f'error: {VERSION_FILE} has no line __version__ = "..."')
    current = match["version"]
    if _key(version) < _key(current):
        raise SystemExit(f"error: {version} is older than the current version {current}")
    return _VERSION.sub(f'__version__ = "{version}"', text)


def date_changelog(text: str, version: str, today: dt.date) -> str:
    """The changelog with its unreleased section named and dated.

    The section is `## [Unreleased]` or `## [VERSION] - unreleased`.

    Raises:
        SystemExit: there is no such section, or it is empty.
    """
    for match in _UNRELEASED.finditer(text):
        if match["name"] in ("Unreleased", version):
            break
    else:
        raise SystemExit(
            f"error: {CHANGELOG} has no section [Unreleased] or [{version}] - unreleased"
        )
    if not re.search(r"^- ", text[match.end() :].partition("\n## ")[0], re.MULTILINE):
        raise SystemExit(f"error: the unreleased section of {CHANGELOG} is empty")
    return f"{text[: match.start()]}## [{version}] - {today.isoformat()}{text[match.end() :]}"


def refuse_changes(stack: Stack) -> None:
    """Demand a working tree without changes.

    Raises:
        SystemExit: there are some.
    """
    changes = stack.run.ask("git", "status", "--porcelain", "--untracked-files=no")
    if changes:
        raise SystemExit(f"error: commit or discard these changes first:\n{changes}")


def tag_images(stack: Stack, version: str) -> None:
    """Build the images, labelled with the version, and tag them VERSION-VARIANT."""
    stack.build(stack.stages[-1], version=version, parents=True)
    for name in stack.images:
        stack.run("docker", "tag", name, f"{name.rpartition(':')[0]}:{version}-{stack.variant}")


def write(stack: Stack, path: Path, text: str) -> None:
    """Write a file, or say that a dry run would."""
    print(f"{path.relative_to(ROOT)}: {'would be' if stack.run.dry_run else 'is'} written")
    if not stack.run.dry_run:
        path.write_text(text)


def _key(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version))
