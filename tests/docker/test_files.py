"""The files of docker/ agree with each other and with the package."""

import importlib.util
import json
import re
import tomllib
from pathlib import Path

import pytest

from pufferlib.environments import ROWS

ROOT = Path(__file__).parents[2]
BAKE = json.loads((ROOT / "docker" / "bake.json").read_text())


def load_requirements():
    spec = importlib.util.spec_from_file_location("requirements", ROOT / "docker/requirements.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def write_lists(tmp_path, monkeypatch):
    """Run docker/requirements.py; returns the lines of its lists."""
    monkeypatch.chdir(tmp_path)

    def write(names):
        files = ("pyproject.toml", "constraints/nodeps.txt", "docker/system-packages.txt")
        load_requirements().main(*(str(ROOT / name) for name in files), names)
        lists = ("python.txt", "nodeps.txt", "system.txt")
        return [Path(name).read_text().splitlines() for name in lists]

    return write


def test_requirements_follow_extras_of_extras(write_lists):
    python, nodeps, system = write_lists("common")
    names = {re.split(r"[=<>;\[]", line)[0] for line in python}
    assert {"torch", "gymnasium", "nle", "pymunk", "mpe2", "pytest", "crafter", "pyboy"} <= names
    assert not [line for line in python if line.startswith("pufferlib")]
    assert nodeps == []
    assert system == ["libegl1", "libgl1", "libvulkan1", "mesa-vulkan-drivers"]


def test_requirements_with_system_packages(write_lists):
    python, nodeps, system = write_lists("java, nethack")
    assert nodeps == []
    assert system == ["default-jre-headless"]
    assert any(line.startswith("nle==") for line in python)


def test_requirements_of_packages_whose_declared_ones_are_outdated(write_lists):
    python, nodeps, system = write_lists("minihack,microrts,procgen")
    assert nodeps == ["gym-microrts==0.6.0", "gym3==0.3.3", "procgen-mirror==0.10.7"]
    assert {"gym>=0.26", "jpype1>=1.5", "minihack>=1.0.2"} <= set(python)
    assert any(line.startswith("nle==") for line in python)
    assert system == ["default-jre-headless", "libgl1"]


def test_everything_that_has_a_list_is_an_extra_or_has_system_packages_only(write_lists):
    optional = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    optional = optional["optional-dependencies"]
    module = load_requirements()
    system = set(module.read_system_packages(ROOT / "docker/system-packages.txt"))
    assert set(module.read_nodeps(ROOT / "constraints/nodeps.txt")) <= set(optional)
    assert system - set(optional) == {"java", "rendering"}


@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS)
def test_images_install_the_system_packages_of_the_registry(row):
    listed = load_requirements().read_system_packages(ROOT / "docker/system-packages.txt")
    assert list(row.system) == listed.get(row.extra, [])


def test_unknown_environment(write_lists):
    with pytest.raises(SystemExit, match="no environment is called 'nethak'; did you mean nethack"):
        write_lists("nethak")


def test_bake_chains_the_stages():
    targets = BAKE["target"]
    assert BAKE["group"]["default"]["targets"] == ["base", "deps", "tank"]
    assert targets["deps"]["contexts"] == {"parent": "target:base"}
    assert targets["tank"]["contexts"] == {"parent": "target:deps"}
    for name in ("base", "deps", "tank"):
        assert (ROOT / targets[name]["dockerfile"]).is_file()
        assert targets[name]["tags"] == [f"puffertank/{name}:${{TORCH_VARIANT}}"]


@pytest.mark.parametrize("name", ["base", "deps", "tank"])
def test_bake_gives_arguments_that_exist(name):
    target = BAKE["target"][name]
    declared = set(
        re.findall(r"([A-Z_]+)=", "\n".join(
            line for line in (ROOT / target["dockerfile"]).read_text().splitlines()
            if line.startswith("ARG ")
        ))
    )  # fmt: skip
    given = set(target["args"]) | set(BAKE["target"]["common"]["args"])
    assert given == declared


def test_arguments_are_variables_of_the_bake_file():
    text = json.dumps(BAKE["target"])
    assert set(re.findall(r"\$\{([A-Z_]+)\}", text)) <= set(BAKE["variable"])


def test_devcontainer_names_the_path_of_the_editable_installation():
    text = (ROOT / ".devcontainer" / "devcontainer.json").read_text()
    configuration = json.loads(re.sub(r"^\s*//.*$", "", text, flags=re.M))
    assert configuration["workspaceFolder"] == "/puffer"
    assert "target=/puffer" in configuration["workspaceMount"]
    assert "WORKDIR /puffer" in (ROOT / "docker" / "tank.dockerfile").read_text()
