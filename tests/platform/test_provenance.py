"""Where the content of an image comes from, as far as it can be shown without building it there."""

import json
import os

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
chmod +x /tools/*
PATH=/tools:$PATH bash /files/install-deepmind-lab
"""


def test_a_changed_download_is_not_executed(engine):
    done = in_debian(FAKE_TOOLS, "install-deepmind-lab")
    assert done.returncode == 1
    assert "FAILED" in done.stdout
    assert "changed" not in done.stderr
    assert "git was called" not in done.stderr
