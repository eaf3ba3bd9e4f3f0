"""Where the content of an image comes from, as far as it can be shown without building it there."""

import json
import os
import re

import pytest
from engine_tools import ROOT, command, in_debian

pytestmark = [pytest.mark.platform, pytest.mark.timeout(300)]

DIGEST = "debian@sha256:" + "0123456789abcdef" * 4


# --- Debian

# Everything but the download: apt itself reads what it would fetch.
ASK_APT = """
printf '#!/bin/sh\\n[ "$1" != update ] || exec /usr/bin/apt-get update --print-uris\\n' \
    >/usr/local/bin/apt-get
chmod +x /usr/local/bin/apt-get
sed 's/apt-get update -qq/apt-get update/' /files/apt-install >/install
sh /install something
"""


def test_a_snapshot_is_the_only_source_of_debian_packages(engine):
    done = in_debian(ASK_APT, "apt-install", DEBIAN_SNAPSHOT="20261101T000000Z")
    assert done.returncode == 0, done.stderr
    fetched = [line.split("'")[1] for line in done.stdout.splitlines() if "InRelease" in line]
    archive = "http://snapshot.debian.org/archive"
    assert fetched == [
        f"{archive}/debian/20261101T000000Z/dists/bookworm/InRelease",
        f"{archive}/debian/20261101T000000Z/dists/bookworm-updates/InRelease",
        f"{archive}/debian-security/20261101T000000Z/dists/bookworm-security/InRelease",
    ]


DEB822 = "Types: deb\\nURIs: http://mirror/\\nSuites: bookworm\\nComponents: main\\n"
ONE_LINE = "deb http://mirror/ bookworm main\\n"


@pytest.mark.parametrize(
    ("path", "text", "line"),
    [
        ("sources.list.d/debian.sources", DEB822, "Components: main contrib"),
        ("sources.list", ONE_LINE, "deb http://mirror/ bookworm main contrib"),
    ],
)
def test_contrib_is_added_in_either_format_and_once(engine, path, text, line):
    setup = f"rm -rf /etc/apt/sources.list*; mkdir /etc/apt/sources.list.d; printf '{text}' "
    script = f"{setup} >/etc/apt/{path}; {ASK_APT} sh /install again; cat /etc/apt/{path}"
    done = in_debian(script, "apt-install")
    assert done.stdout.splitlines().count(line) == 1, done.stdout + done.stderr
    assert "contrib contrib" not in done.stdout


# --- arguments of the bake file


def bake_plan(**variables):
    done = command(
        "docker", "buildx", "bake", "-f", "docker/bake.json", "--print", cwd=ROOT,
        env={**os.environ, **variables},
    )  # fmt: skip
    return json.loads(done.stdout)["target"]


def test_a_digest_and_a_snapshot_reach_the_build(engine):
    plan = bake_plan(BASE_IMAGE=DIGEST, DEBIAN_SNAPSHOT="20261101T000000Z")
    assert plan["base"]["args"]["BASE_IMAGE"] == DIGEST
    assert {plan[stage]["args"]["DEBIAN_SNAPSHOT"] for stage in plan} == {"20261101T000000Z"}
    assert plan["deps"]["args"]["BASE_IMAGE"] == plan["tank"]["args"]["BASE_IMAGE"] == "parent"


def test_platforms_are_those_that_were_asked_for(engine):
    assert {target.get("platforms") for target in bake_plan().values()} == {None}
    both = bake_plan(PLATFORMS="linux/amd64,linux/arm64")
    assert [both[stage]["platforms"] for stage in ("base", "deps", "tank")] == [
        ["linux/amd64", "linux/arm64"]
    ] * 3


# --- what is fetched from elsewhere

FAKE_TOOLS = """
mkdir /tools
printf '#!/bin/sh\\n' >/tools/apt-install
printf '#!/bin/sh\\necho "echo changed >&2" >"$3"\\n' >/tools/curl
printf '#!/bin/sh\\necho "git was called" >&2\\n' >/tools/git
printf '#!/bin/sh\\necho "$0 was called" >&2; exit 1\\n' >/tools/unzip
cp /tools/unzip /tools/python
cp /tools/unzip /tools/tar
chmod +x /tools/*
PATH=/tools:$PATH bash /files/"$RECIPE"
"""
RECIPES = ("install-deepmind-lab", "install-minerl", "install-smac")


def run_recipe(recipe, **variables):
    return in_debian(FAKE_TOOLS, recipe, RECIPE=recipe, **variables)


@pytest.mark.parametrize("recipe", RECIPES)
def test_a_changed_download_is_not_used(engine, recipe):
    done = run_recipe(recipe, STARCRAFT_LICENCE="accepted")
    assert done.returncode == 1
    assert "FAILED" in done.stdout
    assert "changed" not in done.stderr
    assert not re.search("(git|unzip|tar) was called", done.stderr)


def test_starcraft_is_not_fetched_before_its_licence_is_accepted(engine):
    done = run_recipe("install-smac")
    assert done.returncode == 1
    assert "If you accept it, set STARCRAFT_LICENCE" in done.stderr
    assert "FAILED" not in done.stdout


def test_minerl_does_not_replace_a_newer_gym_or_java(engine):
    for tool, message in (
        ("python", "leave environments that bring a newer gym"),
        ("java", "Java 8"),
    ):
        script = f"mkdir /tools; printf '#!/bin/sh\\n' >/tools/{tool}; chmod +x /tools/{tool}; "
        done = in_debian(f"{script} PATH=/tools:$PATH bash /files/install-minerl", "install-minerl")
        assert done.returncode == 1
        assert message in done.stderr


def test_recipes_of_large_games_are_off_unless_they_are_asked_for(engine):
    names = ("DEEPMIND_LAB", "MINERL", "SMAC")
    assert [bake_plan()["deps"]["args"][name] for name in names] == ["0", "0", "0"]
    plan = bake_plan(SMAC="1", STARCRAFT_LICENCE="accepted")["deps"]["args"]
    assert (plan["SMAC"], plan["STARCRAFT_LICENCE"], plan["MINERL"]) == ("1", "accepted", "0")
