"""What the README shows is what happens."""

import functools
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from pufferlib.cli import main

README = (Path(__file__).parents[1] / "README.md").read_text()


def blocks(language):
    return re.findall(rf"```{language}\n(.*?)```", README, re.DOTALL)


@pytest.mark.slow
def test_python_blocks_run_in_order(tmp_path):
    script = tmp_path / "readme.py"
    script.write_text("\n\n".join(blocks("python")))
    result = subprocess.run(
        [sys.executable, "-W", "error::DeprecationWarning:pufferlib", script],
        cwd=tmp_path,
        env=os.environ | {"OMP_NUM_THREADS": "1"},  # so small a network is slower on several
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert result.returncode == 0, result.stderr
    checkpoints = list(tmp_path.glob("runs/*/checkpoints/latest.pt"))
    assert len(checkpoints) == 1


COMMANDS = [
    line.split("#")[0].strip()
    for block in blocks("bash")
    for line in block.splitlines()
    if line.startswith("puffer ")
]


@pytest.mark.parametrize("command", COMMANDS)
def test_commands_use_options_that_exist(command, capsys):
    """The parser accepts every `puffer` line; the ones that act are run by other tests."""
    _, verb, *words = command.split()
    env_name = words[:1] if words and not words[0].startswith("-") else []
    run = functools.partial(run_puffer, capsys, verb)
    help_text = run(*env_name, "--help")
    options = [word for word in words if word.startswith("--") and "." not in word]
    assert [option for option in options if option not in help_text] == []
    if verb == "train":
        settings = [word for word in words if word not in ("--resume", "latest")]
        assert '"train"' in run(*settings, "--print-config")


def run_puffer(capsys, *words):
    try:
        status = main(words)
    except SystemExit as end:
        status = end.code
    assert status == 0, words
    return capsys.readouterr().out


def test_links_lead_somewhere():
    for target in re.findall(r"\]\(([^)#]+)\)", README):
        if not target.startswith("http"):
            assert (Path(__file__).parents[1] / target).exists(), target
