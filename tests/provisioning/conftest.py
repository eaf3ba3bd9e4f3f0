"""A fake machine for each test."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from machine import Machine
from tank_machine import site  # noqa: F401  (fixture)


@pytest.fixture
def machine(tmp_path):
    return Machine(tmp_path)
