"""How tests reach the benchmarks, which are scripts beside each other."""

import importlib
from pathlib import Path

import pytest


@pytest.fixture
def load(monkeypatch):
    """A function that imports a script."""
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "benchmarks"))
    return importlib.import_module
