"""What the images need exists for arm64, as far as it can be asked from here: none is built.

By hand, after a change of the lock or of the Debian packages:

    pytest -m bench tests/platform/test_arm64.py
"""

import re
import sys

import pytest
from engine_tools import ROOT, command, in_debian, resolve

pytestmark = [pytest.mark.bench, pytest.mark.timeout(600)]

# Debian 12 has glibc 2.36. torch is left out: its CPU build for arm64 is on an index of its own.
ARM64 = [f"--platform=manylinux_2_{minor}_aarch64" for minor in range(17, 37)]
TORCH_NEEDS = ("filelock", "fsspec", "jinja2", "networkx", "sympy")
TOOLS = ("cmake", "nanobind", "ninja", "scikit-build-core", "setuptools")


def test_the_locked_packages_of_common_exist_for_arm64(tmp_path):
    """No image is built there; what pip would install can be asked from here."""
    lists = ("pyproject.toml", "constraints/nodeps.txt", "docker/system-packages.txt")
    paths = [ROOT / name for name in lists]
    command(sys.executable, ROOT / "docker/requirements.py", *paths, "common", cwd=tmp_path)
    python = (tmp_path / "python.txt").read_text().splitlines()
    found = resolve(
        tmp_path, *ARM64, "--platform=manylinux2014_aarch64", "--python-version=3.11",
        "--target", tmp_path / "target", *TORCH_NEEDS, *TOOLS,
        *(line for line in python if not line.startswith("torch")),
    )  # fmt: skip
    names = {item["metadata"]["name"] for item in found}
    assert {"nle", "numpy", "pygame-ce", "pymunk", "mpe2", "gymnasium"} <= names
    wheels = [item["download_info"]["url"].rpartition("/")[2] for item in found]
    assert [name for name in wheels if not name.endswith(("aarch64.whl", "-any.whl"))] == []


ASK_APT_FOR_ARM64 = """
cat >/usr/local/bin/apt-get <<'END'
#!/bin/bash
options=(-o APT::Architecture=arm64 -o APT::Architectures=arm64 -o Dir::State::status=/dev/null)
case $1 in
    update) [[ -e /updated ]] || exec /usr/bin/apt-get "${options[@]}" "$@" ;;
    install) exec /usr/bin/apt-get "${options[@]}" "$@" --simulate ;;
esac
END
chmod +x /usr/local/bin/apt-get
sh /files/apt-install grub-pc # amd64 only; what fails leaves the lists
touch /updated
sh /files/apt-install $PACKAGES
"""


def test_the_debian_packages_of_all_stages_exist_for_arm64(engine):
    packages = set()
    for stage in ("base", "tank"):
        (line,) = re.findall(
            r"^RUN apt-install (.+)$", (ROOT / f"docker/{stage}.dockerfile").read_text(), re.M
        )
        packages.update(line.split())
    for line in (ROOT / "docker/system-packages.txt").read_text().splitlines():
        packages.update([] if line.startswith("#") else line.partition(":")[2].split())
    assert {"g++", "nvtop", "mesa-vulkan-drivers"} <= packages
    done = in_debian(
        ASK_APT_FOR_ARM64, "apt-install", network="bridge", PACKAGES=" ".join(packages)
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "'grub-pc' has no installation candidate" in done.stderr
