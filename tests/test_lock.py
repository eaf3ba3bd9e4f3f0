"""constraints.txt is the one lock: it pins everything that the extras install, and is what runs."""

import re
import sys
import tomllib
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).parents[1]
LOCK = ROOT / "constraints.txt"
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
ALL_EXTRAS = PYPROJECT["project"]["optional-dependencies"]
ISLANDS = {"rllib", "tianshou"}
"""Extras with locks of their own."""
EXTRAS = {extra: texts for extra, texts in ALL_EXTRAS.items() if extra not in ISLANDS}


def lock_lines(lock=LOCK):
    lines = (line.split("#")[0].strip() for line in lock.read_text().splitlines())
    return [Requirement(line) for line in lines if line]


def pins(lock=LOCK):
    return {canonicalize_name(line.name): line.specifier for line in lock_lines(lock)}


def dependencies(name, extras, declared=None):
    """Yield the requirements of a distribution that apply here, with these extras."""
    for text in declared or metadata.requires(name) or ():
        requirement = Requirement(text)
        marker = requirement.marker
        if marker is None or any(marker.evaluate({"extra": extra}) for extra in (*extras, "")):
            yield requirement


def closure(requirements):
    """Every distribution that these requirements lead to, mapped to its installed version or None.

    None: not installed here, so what it needs in turn is unknown.
    """
    found = {}
    seen = set()
    pending = list(requirements)
    while pending:
        requirement = pending.pop()
        name = canonicalize_name(requirement.name)
        key = (name, frozenset(requirement.extras))
        if key in seen or name == "pufferlib":
            continue
        seen.add(key)
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            found[name] = None
        else:
            pending += dependencies(name, requirement.extras)
    return found


def ours(extras):
    """What pyproject.toml asks for, the core and these extras."""
    texts = PYPROJECT["project"]["dependencies"] + [t for e in extras for t in ALL_EXTRAS[e]]
    return list(dependencies("pufferlib", extras, texts))


def test_lock_is_exact_and_has_each_name_once():
    names = [canonicalize_name(line.name) for line in lock_lines()]
    assert len(names) == len(set(names)) > 50
    for line in lock_lines():
        (specifier,) = line.specifier
        assert specifier.operator == "==", line
        assert "*" not in specifier.version, line
        assert Version(specifier.version).local is None, f"{line}: machines share the lock"


def test_lock_names_no_place():
    text = LOCK.read_text()
    assert not re.search(r"https?://|file://|^\s*-", text, re.MULTILINE)


@pytest.mark.parametrize("extra", sorted(EXTRAS))
def test_everything_an_extra_brings_is_pinned(extra):
    unpinned = set(closure(ours([extra]))) - set(pins())
    assert not unpinned


@pytest.mark.skipif(sys.version_info[:2] != (3, 11), reason="the lock is tested on Python 3.11")
def test_what_runs_is_what_is_locked():
    installed = {name: version for name, version in closure(ours(EXTRAS)).items() if version}
    assert len(installed) > 50
    differing = {
        name: f"installed {version}, locked {pins()[name]}"
        for name, version in installed.items()
        if not pins()[name].contains(Version(version).public, prereleases=True)
    }
    assert not differing, "install again: provisioning/venv.sh dev"


def test_the_lock_is_within_what_pyproject_allows():
    for requirement in ours(EXTRAS):
        name = canonicalize_name(requirement.name)
        if name != "pufferlib":
            (pin,) = pins()[name]
            assert requirement.specifier.contains(pin.version), requirement


@pytest.mark.parametrize("extra", sorted(ISLANDS))
def test_an_island_pins_what_it_asks_for_beside_the_smoke_tests(extra):
    locked = pins(ROOT / "constraints" / f"{extra}.txt")
    for requirement in ours(["smoke", extra]):
        (pin,) = locked[canonicalize_name(requirement.name)]
        assert requirement.specifier.contains(pin.version), requirement
        assert pin.operator == "=="


def test_build_requirements_are_the_locked_versions():
    for text in PYPROJECT["build-system"]["requires"]:
        requirement = Requirement(text)
        assert requirement.specifier == pins()[canonicalize_name(requirement.name)]


def test_a_wheel_carries_the_whole_lock():
    """Else a machine that installed it would have another hash."""
    whole = [ROOT / "constraints.txt", *(ROOT / "constraints").glob("*.txt")]
    carried = PYPROJECT["tool"]["scikit-build"]["wheel"]["force-include"]
    assert carried == {
        str(path.relative_to(ROOT)): f"pufferlib/{path.relative_to(ROOT)}" for path in whole
    }
