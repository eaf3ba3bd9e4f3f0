"""What is published: the sdist builds a wheel, the wheel works in a new environment, and without
a compiler the library still installs.

The new environments see this one's packages through a path file, so nothing is downloaded, and
builds are not isolated: the build requirements are part of the extra `test`.
"""

import json
import os
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest

from pufferlib.lock import lock_hash

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "pufferlib"

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

# Uses the library from outside the tree. The site directory of the new environment comes first.
PROBE = """
import importlib.resources, json, sys, warnings
import numpy as np
import pufferlib
from pufferlib import native

with warnings.catch_warnings(record=True) as notices:
    warnings.simplefilter("always")
    out = np.zeros((1, 4), np.float32)
    flags = np.zeros((1, 4), bool)
    for _ in range(2):
        native.advantage_scan(
            np.ones_like(out), out * 0, np.array([[0, 0, 0, 10]], np.float32),
            flags, flags, ~flags, 1.0, 1.0, out,
        )
files = importlib.resources.files("pufferlib")
print(json.dumps({
    "version": pufferlib.__version__,
    "file": pufferlib.__file__,
    "native": native.available,
    "advantages": out.tolist(),
    "notices": [str(notice.message) for notice in notices],
    "typed": files.joinpath("py.typed").is_file(),
    "configs": sorted(p.name for p in files.joinpath("config").iterdir()),
    "templates": sorted(
        f"{kind}/{path.name}"
        for kind in ("common", "native", "python")
        for path in files.joinpath("templates", kind).iterdir()
    ),
}))
"""

CONFIGS = sorted(path.name for path in (PACKAGE / "config").glob("*.toml"))
TEMPLATES = sorted(
    path.relative_to(PACKAGE / "templates").as_posix()
    for path in (PACKAGE / "templates").rglob("*.in")
)


def run(command, env=None, **options):
    """Run a command; its output is in the error when it fails."""
    result = subprocess.run(
        [str(part) for part in command],
        env={**os.environ, "PYTHONPATH": "", **(env or {})},
        capture_output=True,
        text=True,
        **options,
    )
    if result.returncode:
        raise subprocess.CalledProcessError(
            result.returncode, command, result.stdout + result.stderr
        )
    return result


def build(kind, source, target, **env):
    """Build an sdist or a wheel of a tree, and return its path."""
    python_build = [sys.executable, "-m", "build", "--no-isolation", f"--{kind}"]
    run([*python_build, "--outdir", target, source], env)
    (built,) = target.iterdir()
    return built


class FreshEnvironment:
    """A new virtual environment that finds this one's packages, but not this pufferlib."""

    def __init__(self, directory):
        venv.create(directory, with_pip=False, symlinks=True)
        self.python = directory / "bin" / "python"
        self.site = Path(
            sysconfig.get_path("purelib", "venv", {"base": str(directory), "platbase": ""})
        )
        # Plain directories only: this environment's own path files, among them the one of an
        # editable pufferlib, are not read again.
        (self.site / "packages.pth").write_text(sysconfig.get_path("purelib") + "\n")

    def install(self, *what, **env):
        pip = [sys.executable, "-m", "pip", "--python", self.python, "install"]
        return run([*pip, "--no-deps", "--no-index", "--no-build-isolation", *what], env)

    def probe(self, cwd):
        return json.loads(run([self.python, "-c", PROBE], cwd=cwd).stdout)


@pytest.fixture(scope="module")
def sdist(tmp_path_factory):
    return build("sdist", ROOT, tmp_path_factory.mktemp("sdist"))


@pytest.fixture(scope="module")
def sources(sdist, tmp_path_factory):
    """The tree that the sdist unpacks to."""
    target = tmp_path_factory.mktemp("sources")
    with tarfile.open(sdist) as archive:
        archive.extractall(target, filter="data")
    (tree,) = target.iterdir()
    return tree


@pytest.fixture(scope="module")
def no_compiler(tmp_path_factory):
    """Variables under which every compiler fails."""
    compiler = tmp_path_factory.mktemp("compiler") / "broken-compiler"
    compiler.write_text("#!/bin/sh\nexit 1\n")
    compiler.chmod(0o755)
    return {"CC": str(compiler), "CXX": str(compiler), "PUFFER_REQUIRE_NATIVE": "0"}


def test_sdist_has_what_a_build_needs_and_nothing_else(sources):
    expected = {path.relative_to(ROOT) for path in PACKAGE.rglob("*") if path.is_file()}
    expected = {path for path in expected if path.suffix not in {".pyc", ".so"}}
    expected |= {
        Path(name) for name in ("pyproject.toml", "CMakeLists.txt", "LICENSE", "README.md")
    }
    found = {path.relative_to(sources) for path in sources.rglob("*") if path.is_file()}
    assert expected <= found
    assert {path.parts[0] for path in found}.isdisjoint(
        {"tests", "docs", "docker", "tasks.py", ".ci", ".git", "runs"}
    )


def test_wheel_of_the_sdist_works_outside_the_tree(sources, tmp_path):
    wheel = build("wheel", sources, tmp_path / "wheel", PUFFER_REQUIRE_NATIVE="1")
    names = zipfile.ZipFile(wheel).namelist()
    assert not [
        name for name in names if name.endswith((".c", ".cpp", ".h", ".hpp", "CMakeLists.txt"))
    ]
    assert "cp3" in wheel.name
    environment = FreshEnvironment(tmp_path / "venv")
    environment.install(wheel)
    found = environment.probe(tmp_path)
    assert Path(found.pop("file")).is_relative_to(environment.site)
    assert found.pop("configs") == CONFIGS
    assert found.pop("templates") == TEMPLATES
    assert CONFIGS
    assert "native/NAME.c.in" in TEMPLATES
    version = (PACKAGE / "__init__.py").read_text().split('__version__ = "')[1].split('"')[0]
    assert found == {
        "version": version,
        "native": True,
        "advantages": [[14, 13, 12, 11]],
        "notices": [],
        "typed": True,
    }
    scripts = {path.name for path in environment.python.parent.iterdir()}
    assert "puffer" in scripts
    # `puffer install` and `puffer doctor` have the whole lock where there is no source tree.
    ask = "from pufferlib import lock; r = lock.find_root(); print(r.name, lock.lock_hash(r))"
    shipped = run([environment.python, "-c", ask], cwd=tmp_path).stdout
    assert shipped == f"pufferlib {lock_hash(ROOT)}\n"


def assert_pure_and_noticed(found):
    assert found["native"] is False
    assert found["advantages"] == [[14, 13, 12, 11]]
    (notice,) = found["notices"]
    assert "without its native core" in notice
    assert "g++" in notice


def test_without_a_compiler_the_wheel_is_pure_and_works(sources, no_compiler, tmp_path):
    wheel = build("wheel", sources, tmp_path / "wheel", **no_compiler)
    assert wheel.name.endswith("py3-none-any.whl")
    environment = FreshEnvironment(tmp_path / "venv")
    environment.install(wheel)
    assert_pure_and_noticed(environment.probe(tmp_path))


def test_an_editable_install_sees_new_and_moved_modules(sources, no_compiler, tmp_path):
    environment = FreshEnvironment(tmp_path / "venv")
    environment.install("-e", sources, **no_compiler)
    assert_pure_and_noticed(environment.probe(tmp_path))
    assert not list(environment.site.rglob("constraints.txt")), "the tree's is the only one"

    module = sources / "pufferlib" / "brand_new.py"
    module.write_text("KIND = 'module'\n")
    ask = [environment.python, "-c", "import pufferlib.brand_new as new; print(new.KIND)"]
    assert run(ask, cwd=tmp_path).stdout == "module\n"
    package = module.with_suffix("")
    package.mkdir()
    module.rename(package / "__init__.py").write_text("KIND = 'package'\n")
    assert run(ask, cwd=tmp_path).stdout == "package\n"


@pytest.mark.parametrize("what", [["."], ["-e", "."]], ids=["wheel", "editable"])
def test_a_required_core_that_cannot_be_built_is_an_error(
    sources, no_compiler, tmp_path, what, monkeypatch
):
    monkeypatch.chdir(sources)
    environment = FreshEnvironment(tmp_path / "venv")
    with pytest.raises(subprocess.CalledProcessError) as error:
        environment.install(*what, **{**no_compiler, "PUFFER_REQUIRE_NATIVE": "1"})
    assert "CMake" in error.value.output
    assert not list(environment.site.glob("*pufferlib*"))
