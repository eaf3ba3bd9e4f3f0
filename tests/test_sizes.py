"""Modules and functions stay small enough to read: CONTRIBUTING.md names the limits."""

import ast
import statistics
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "pufferlib"
FILES = sorted(PACKAGE.rglob("*.py"))


def body_lines(function):
    """Count a function's lines from its first statement on, the docstring left out."""
    has_docstring = ast.get_docstring(function, clean=False) is not None
    body = function.body[1:] if has_docstring else function.body
    return body[-1].end_lineno - body[0].lineno + 1 if body else 0


def functions():
    for path in FILES:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                yield f"{path.relative_to(PACKAGE)}:{node.lineno} {node.name}", body_lines(node)


def test_modules_have_at_most_500_lines_tests_and_tools_included():
    others = ("tests", "benchmarks", "docker", "provisioning")
    modules = [*FILES, *(path for name in others for path in (ROOT / name).rglob("*.py"))]
    lines = {str(path.relative_to(ROOT)): len(path.read_text().splitlines()) for path in modules}
    assert {name: count for name, count in lines.items() if count > 500} == {}


def test_functions_have_at_most_60_lines_and_most_have_ten():
    sizes = dict(functions())
    assert {name: count for name, count in sizes.items() if count > 60} == {}
    assert statistics.median(sizes.values()) <= 10
