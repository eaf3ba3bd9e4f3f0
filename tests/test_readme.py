"""What the README shows is what happens."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

README = (Path(__file__).parents[1] / "README.md").read_text()


def blocks(language):
    return re.findall(rf"```{language}\n(.*?)```", README, re.DOTALL)


def test_python_blocks_run_in_order(tmp_path):
    script = tmp_path / "readme.py"
    script.write_text("\n\n".join(blocks("python")))
    result = subprocess.run(
        [sys.executable, "-W", "error::DeprecationWarning:pufferlib", script],
        cwd=tmp_path,
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
def test_commands_use_options_that_exist(command):
    """The parser accepts every `puffer` line; the ones that act are run by other tests."""
    words = command.split()
    if words[1] == "train":
        words = [w for w in words if w not in ("--resume", "latest")] + ["--print-config"]
    else:
        words = [*words[:2], "--help"]
    result = subprocess.run(
        [sys.executable, "-m", "pufferlib", *words[1:]], capture_output=True, text=True, timeout=60
    )
    assert result.returncode == 0, result.stderr
    options = [w for w in command.split() if w.startswith("--") and w != "--train.learning-rate"]
    help_text = subprocess.run(
        [sys.executable, "-m", "pufferlib", words[1], *words[2:3], "--help"],
        capture_output=True,
        text=True,
        timeout=60,
    ).stdout
    assert [w for w in options if w not in help_text] == []


def test_links_lead_somewhere():
    for target in re.findall(r"\]\(([^)#]+)\)", README):
        if not target.startswith("http"):
            assert (Path(__file__).parents[1] / target).exists(), target
