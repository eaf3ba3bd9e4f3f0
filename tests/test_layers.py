"""Imports go downwards only, and nothing below the torch line loads torch.

The table is the architecture: a module imports from a lower layer or from its own package, never
from a neighbour of its own layer, function-level imports included. The errors are below everything,
and the version and the place of the package may be read anywhere.
"""

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest

import pufferlib
from pufferlib import exceptions

PACKAGE = Path(pufferlib.__file__).parent

LAYERS = {
    "exceptions": 0,
    "lock": 0,
    "native": 0,
    "pictures": 0,
    "spaces": 0,
    "buffers": 1,
    "ends": 1,
    "flatten": 1,
    "snapshot": 1,
    "environment": 2,
    "wrappers": 2,
    "postprocess": 2,
    "emulation": 3,
    "vector": 4,
    "testing": 5,
    # ---- torch line
    "pytorch": 6,
    "models": 7,
    "frameworks": 8,
    "environments": 9,
    "trainer": 10,
    "selfplay": 11,
    "sweep": 11,
    "clean_pufferl": 12,
    "commands": 13,  # what the command line is made of
    "cli": 14,
    "__main__": 15,
}
TORCH_LINE = 6
FREE = {"pufferlib.exceptions", "pufferlib.__version__", "pufferlib.__file__"}

# Each belongs to an extra, so only the modules that are about it may import it.
OPTIONAL = {
    "imageio": "trainer/rendering.py",
    "imageio_ffmpeg": "trainer/rendering.py",
    "matplotlib": "commands/plot.py",
    "mpe2": "environments/mpe/",
    "nle": "environments/nethack/",
    "pygame": "environments/",
    "pymunk": "environments/butterfly/",
    "ray": ("frameworks/rllib.py", "vector/ray"),
    "sb3_contrib": "frameworks/sb3_contrib.py",
    "stable_baselines3": "frameworks/sb3.py",
    "tensordict": "frameworks/torchrl.py",
    "tianshou": "frameworks/tianshou.py",
    "torchrl": "frameworks/torchrl.py",
}


def package_files():
    return sorted(PACKAGE.rglob("*.py"))


def module_name(path):
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return ".".join(("pufferlib", *(part for part in parts if part != "__init__")))


def is_module(name):
    path = PACKAGE.parent.joinpath(*name.split("."))
    return path.with_suffix(".py").exists() or path.is_dir()


def imported_names(tree):
    """Yield what a module imports: dotted names, of modules where they are modules.

    ``import pufferlib`` gives what is then taken from it, since its submodules load by attribute.
    """
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"line {node.lineno}: relative import; name the package"
            for alias in node.names:
                full = f"{node.module}.{alias.name}"
                found = node.module == "pufferlib" or is_module(full)
                yield full if found else node.module
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name != "pufferlib")
        elif isinstance(node, ast.Attribute) and getattr(node.value, "id", None) == "pufferlib":
            yield f"pufferlib.{node.attr}"


def imports_of(path):
    tree = ast.parse(path.read_text(), str(path))
    names = set(imported_names(tree))
    # PufferEnv is offered by the package itself; it comes from its module.
    return {"pufferlib.environment" if name == "pufferlib.PufferEnv" else name for name in names}


def part_of(module):
    return module.split(".")[1]


def violations(module, imports):
    layer = LAYERS[part_of(module)]
    for name in sorted(imports - FREE):
        if not name.startswith("pufferlib.") or name == "pufferlib._native":
            continue
        part = part_of(name)
        if part != part_of(module) and LAYERS.get(part, layer) >= layer:
            yield f"{module} (layer {layer}) imports {name} (layer {LAYERS.get(part)})"


MODULES = [path for path in package_files() if path != PACKAGE / "__init__.py"]


@pytest.mark.smoke
def test_every_module_has_a_layer():
    unknown = {part_of(module_name(path)) for path in MODULES} - set(LAYERS)
    assert not unknown, f"give these a layer in this file: {sorted(unknown)}"


@pytest.mark.smoke
def test_imports_go_downwards():
    found = [line for path in MODULES for line in violations(module_name(path), imports_of(path))]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("from pufferlib import vector", "pufferlib.vector"),
        ("from pufferlib.vector import make", "pufferlib.vector"),
        ("import pufferlib.vector as v", "pufferlib.vector"),
        ("def f():\n    import pufferlib\n    return pufferlib.vector.make()", "pufferlib.vector"),
    ],
)
def test_the_rule_sees_every_form_of_import(source, expected):
    imports = set(imported_names(ast.parse(source)))
    assert expected in imports
    assert list(violations("pufferlib.emulation", imports))
    assert list(violations("pufferlib.vector.serial", imports)) == []
    assert list(violations("pufferlib.trainer.collect", imports)) == []


def test_neighbours_of_a_layer_do_not_import_each_other():
    assert list(violations("pufferlib.wrappers", {"pufferlib.postprocess"}))
    assert list(violations("pufferlib.spaces", {"pufferlib.exceptions"})) == []


def below_the_torch_line(path):
    environment = path.name == "environment.py" and path.parent != PACKAGE
    registry = path == PACKAGE / "environments" / "__init__.py"
    return environment or registry or LAYERS[part_of(module_name(path))] < TORCH_LINE


def test_no_torch_import_is_written_below_the_line():
    found = [
        module_name(path)
        for path in filter(below_the_torch_line, MODULES)
        if any(name.split(".")[0] == "torch" for name in imports_of(path))
    ]
    assert not found


def test_optional_packages_are_imported_in_their_own_file():
    found = []
    for path in MODULES:
        relative = path.relative_to(PACKAGE).as_posix()
        roots = {name.split(".")[0] for name in imports_of(path)}
        found += [
            f"{relative} imports {name}, which belongs in {OPTIONAL[name]}"
            for name in roots & set(OPTIONAL)
            if not relative.startswith(OPTIONAL[name])
        ]
    assert not found, "\n".join(found)


def fresh_imports(*modules):
    """Import modules in a new process: seconds of CPU time, and what was loaded after each."""
    script = (
        "import importlib, json, sys, time\n"
        "start = time.process_time()\n"
        "loaded = []\n"
        f"for name in {modules!r}:\n"
        "    importlib.import_module(name)\n"
        "    loaded.append(sorted(sys.modules))\n"
        "print(json.dumps([time.process_time() - start, loaded]))\n"
    )
    output = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60
    ).stdout
    seconds, loaded = json.loads(output)
    return seconds, dict(zip(modules, map(set, loaded), strict=True))


LIGHT_MODULES = ["pufferlib.vector", "pufferlib.environments"] + [
    module_name(path) for path in sorted((PACKAGE / "environments").glob("*/environment.py"))
]


def test_imports_below_the_line_load_no_torch():
    _, loaded = fresh_imports(*LIGHT_MODULES)
    assert [name for name in LIGHT_MODULES if "torch" in loaded[name]] == []


def test_vector_imports_in_half_a_second():
    # CPU time and the best of a few: other processes of the machine take their share.
    assert any(fresh_imports("pufferlib.vector")[0] < 0.5 for _ in range(4))


def test_the_package_itself_is_only_names():
    loaded = fresh_imports("pufferlib")[1]["pufferlib"]
    assert {name for name in loaded if name.startswith("pufferlib")} == {
        "pufferlib",
        "pufferlib.exceptions",
    }
    assert not loaded & {"numpy", "gymnasium", "torch"}


class TestNames:
    def test_everything_listed_is_there(self):
        assert set(pufferlib.__all__) <= set(dir(pufferlib))
        for name in pufferlib.__all__:
            assert getattr(pufferlib, name) is not None

    def test_every_error_is_listed(self):
        """A program that catches one need not know the module it lies in."""
        errors = {name for name, kind in vars(exceptions).items() if isinstance(kind, type)}
        assert len(errors) > 10
        assert errors <= set(pufferlib.__all__)

    def test_submodules_load_when_used(self):
        script = (
            "import pufferlib, sys\n"
            "make = pufferlib.vector.make\n"
            "from pufferlib.vector import make as same\n"
            "assert make is same and 'torch' not in sys.modules\n"
        )
        subprocess.run([sys.executable, "-c", script], check=True, timeout=60)

    def test_every_public_part_is_reachable(self):
        internal = {"exceptions", "commands", "cli", "__main__", "config"}
        parts = {part_of(module_name(path)) for path in MODULES} - internal
        assert parts <= set(dir(pufferlib))

    def test_unknown_name(self):
        with pytest.raises(AttributeError, match="module 'pufferlib' has no attribute 'nothing'"):
            pufferlib.nothing  # noqa: B018
