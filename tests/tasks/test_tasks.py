"""`invoke …`: the tasks there are, and the commands of those that build and move no images."""

import ast

import pytest
from task_tools import BUILDS, CPU, ROOT, collection, run

TASKS = (
    "build-stage1 build-stage2 build-stage3 build push pull save load run shell test lint docs "
    "bench demo doctor release clean"
)
TANK = ["docker/run-tank.sh", "--no-gpu", "--image", "puffertank/tank:cpu", "--"]


def test_the_tasks_are_these():
    names = set(collection().tasks)  # those of several machines: test_fleet.py
    assert names == set(TASKS.split())


def test_tasks_are_thin_and_documented():
    tree = ast.parse((ROOT / "tasks.py").read_text())
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    assert len(functions) == len(TASKS.split())
    for function in functions:
        assert ast.get_docstring(function), function.name
        body = function.body[1:]
        assert body[-1].end_lineno - body[0].lineno + 1 <= 10, function.name


def test_every_option_has_its_help():
    for name, task in collection().tasks.items():
        for argument in task.get_arguments():
            assert argument.help, f"{name} --{argument.name}"


def test_modules_are_small():
    for path in (ROOT / "docker" / "puffertank").glob("*.py"):
        text = path.read_text()
        assert len(text.splitlines()) <= 350
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef):
                assert node.end_lineno - node.lineno < 60, f"{path.name} {node.name}"


@pytest.mark.parametrize(
    ("words", "commands"),
    [
        (["run", "puffer train 'a b'", "--cpu"], [[*TANK, "puffer", "train", "a b"]]),
        (["shell", "--cpu"], [[*TANK, "bash", "-l"]]),
        (
            ["shell", "--cuda"],
            [["docker/run-tank.sh", "--image", "puffertank/tank:cuda", "--", "bash", "-l"]],
        ),
        (["test"], [["pytest"]]),
        (["test", "--image", "--cpu"], [[*TANK, "pytest", "-m", "smoke"]]),
        (["lint"], [["pre-commit", "run", "--all-files"]]),
        (["docs"], [["mkdocs", "build", "--strict", "--config-file", "docs/mkdocs.yml"]]),
        (["docs", "--serve"], [["mkdocs", "serve", "--config-file", "docs/mkdocs.yml"]]),
        (["bench"], [["python", "benchmarks/vector.py"], ["python", "benchmarks/emulation.py"]]),
        (
            ["demo", "--env", "cartpole"],
            [
                ["puffer", "train", "cartpole"],
                ["puffer", "eval", "cartpole", "--checkpoint", "latest", "--render"],
            ],
        ),
        (["doctor"], [["puffer", "doctor"]]),
    ],
)
def test_other_commands(machine, words, commands):
    machine.has("puffertank/tank:cpu", "puffertank/tank:cuda")
    run(*words)
    assert machine.commands == commands


def test_files_that_tasks_name_are_there():
    named = ("docker/run-tank.sh", "docker/bake.json", "docs/mkdocs.yml", "benchmarks/vector.py")
    for name in (*named, "benchmarks/emulation.py", ".github/workflows/publish.yml"):
        assert (ROOT / name).is_file(), name


def test_run_builds_what_is_missing(machine):
    run("run", "puffer envs", "--cpu")
    assert machine.commands == [*BUILDS, [*TANK, "puffer", "envs"]]


def test_clean_keeps_runs_and_sources(machine):
    machine.has(*CPU)
    run("clean", "--cpu", "--images")
    removed, images = machine.commands
    assert removed[:5] == ["rm", "-rf", "build", "dist", "docs/site"]
    assert not set(removed) & {"runs", "pufferlib", ".venv", ".git"}
    assert images == ["docker", "image", "rm", *reversed(CPU)]
