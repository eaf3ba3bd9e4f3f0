"""What the tests of `invoke …` share: a machine that records commands, and names of things."""

from pathlib import Path

import pytest
from puffertank import engine

import pufferlib
from pufferlib.lock import lock_hash

invoke = pytest.importorskip("invoke")  # part of the extra dev, which images do not have

ROOT = Path(__file__).parents[2]
LOCK = lock_hash(ROOT)
VERSION = pufferlib.__version__
CPU = ["puffertank/base:cpu", "puffertank/deps:cpu", "puffertank/tank:cpu"]
BAKE = ["docker", "buildx", "bake", "--file", "docker/bake.json", "--load"]
BUILDS = [
    [*BAKE, "base"],
    [*BAKE, "--set", "deps.contexts.parent=docker-image://puffertank/base:cpu", "deps"],
    [*BAKE, "--set", "tank.contexts.parent=docker-image://puffertank/deps:cpu", "tank"],
]


def load_tasks():
    """The module `tasks.py` as invoke loads it."""
    return invoke.loader.FilesystemLoader(start=str(ROOT)).load("tasks")[0]


def collection():
    """All tasks."""
    return invoke.Collection.from_module(load_tasks())


def run(*words):
    """`invoke WORDS` in this process."""
    invoke.Program(namespace=collection()).run(["invoke", *words], exit=False)


class Machine:
    """Records commands instead of running them, and has the images that a test gives it."""

    def __init__(self):
        self.commands = []
        self.variables = {}
        self.asked = []
        self.answers = {}
        self.status = 0
        self.images = {}

    def execute(self, command, environment):
        self.commands.append(list(command))
        self.variables = dict(environment)
        return self.status

    def execute_pipe(self, first, second):
        self.commands.append([*first, "|", *second])
        return self.status

    def ask(self, command):
        self.asked.append(list(command))
        return next((text for part, text in self.answers.items() if part in " ".join(command)), "")

    def has(self, *names, lock=LOCK, **labels):
        labels = {"io.puffertank.lock-hash": lock, **labels}
        self.images |= {name: engine.Image(f"sha256:{len(name)}", labels) for name in names}
