"""The tutorial as its readers go through it: files are written and commands run in its order."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from pufferlib.cli import main
from pufferlib.exceptions import APIUsageError
from pufferlib.testing import check_env

PAGE = (Path(__file__).parents[1] / "docs" / "pages" / "tutorial.md").read_text()
BLOCKS = re.findall(r"```(\w+)(?: title=\"(.*?)\")?\n(.*?)```", PAGE, re.DOTALL)


@pytest.fixture
def here(tmp_path, monkeypatch):
    """An empty working directory, whose packages are forgotten afterwards."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    yield tmp_path
    for name in [name for name in sys.modules if name.split(".")[0] in ("catch", "catch_c")]:
        del sys.modules[name]


def run(command):
    """A line of the reader's shell."""
    program, *words = shlex.split(command)
    if program == "puffer":
        assert main(words) == 0, command
    else:
        assert program == "pytest"
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *words],
            env=os.environ | {"CFLAGS": "-Werror"},
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
def test_the_tutorial_ends_as_it_says(here, capsys):
    written, namespace = set(), {}
    for language, title, text in BLOCKS:
        if title:
            before = Path(title).read_text() if title in written else ""
            Path(title).write_text(before + text)
            written.add(title)
        elif language == "python":
            exec(text, namespace)
        elif language == "bash":
            for command in text.splitlines():
                run(command)
    output = capsys.readouterr().out
    scores = [float(score) for score in re.findall(r"^score (\d\.\d+) ", output, re.MULTILINE)]
    assert scores[0] > 0.99
    assert " o" in output
    assert "in C: " in output
    (said,) = [text for language, _, text in BLOCKS if language == "text"]
    assert of_a_new_array(namespace["Catch"]).startswith(said.removesuffix("…\n"))


def of_a_new_array(catch):
    """What check_env says where the rows are replaced."""

    def observe(self):
        self.observations = np.stack([self.row, self.column, self.basket], 1, dtype=np.float32)

    with pytest.raises(APIUsageError) as caught:
        check_env(type("Catch", (catch,), {"_observe": observe}))
    return str(caught.value)
