"""The files of docker/ agree with each other and with the package."""

import importlib.util
import json
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BAKE = json.loads((ROOT / "docker" / "bake.json").read_text())


def load_requirements():
    spec = importlib.util.spec_from_file_location("requirements", ROOT / "docker/requirements.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def write_lists(tmp_path, monkeypatch):
    """Run docker/requirements.py; returns the lines of both lists."""
    monkeypatch.chdir(tmp_path)

    def write(names):
        arguments = (ROOT / "pyproject.toml", ROOT / "docker/system-packages.txt", names)
        load_requirements().main(*map(str, arguments))
        return [Path(name).read_text().splitlines() for name in ("python.txt", "system.txt")]

    return write


def test_requirements_follow_extras_of_extras(write_lists):
    python, system = write_lists("common")
    names = {re.split(r"[=<>;\[]", line)[0] for line in python}
    assert {"torch", "gymnasium", "nle", "pymunk", "mpe2", "pytest"} <= names
    assert not [line for line in python if line.startswith("pufferlib")]
    assert system == []


def test_requirements_with_system_packages(write_lists):
    python, system = write_lists("java, nethack")
    assert system == ["default-jre-headless"]
    assert any(line.startswith("nle==") for line in python)


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
