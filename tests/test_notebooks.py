"""The notebooks run from top to bottom, as one program, and end as they say."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"
NOTEBOOKS = sorted(EXAMPLES.glob("*.ipynb"))


def cells_of(path):
    return json.loads(path.read_text())["cells"]


def source_of(path):
    """The code of all cells but the one that installs on hosted machines."""
    codes = [
        "".join(cell["source"])
        for cell in cells_of(path)
        if cell["cell_type"] == "code" and "install" not in cell["metadata"].get("tags", [])
    ]
    return "\n\n".join(codes)


def run(name, directory, shorter=("", "")):
    """What a notebook prints; with `shorter`, after a replacement that lets it train less."""
    source = source_of(EXAMPLES / f"{name}.ipynb")
    assert shorter[0] in source
    script = directory / f"{name}.py"
    script.write_text(source.replace(*shorter))
    done = subprocess.run(
        [sys.executable, script],
        cwd=directory,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def numbers(pattern, printed):
    """The number in each line that has the pattern."""
    return [float(number) for number in re.findall(pattern, printed)]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_a_notebook_begins_with_its_installation_and_has_no_outputs(path):
    cells = cells_of(path)
    assert [cell["cell_type"] for cell in cells[:2]] == ["markdown", "code"]
    assert cells[1]["metadata"]["tags"] == ["install"]
    assert "%pip install" in "".join(cells[1]["source"])
    for cell in cells:
        assert not cell.get("outputs")
        assert cell.get("execution_count") is None
    compile(source_of(path), path.name, "exec")


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_links_of_a_notebook_lead_to_files(path):
    text = "".join(line for cell in cells_of(path) for line in cell["source"])
    targets = re.findall(r"\]\((?!http)([^)\s]+)\)", text)
    assert [target for target in targets if not (EXAMPLES / target).exists()] == []


@pytest.mark.slow
def test_the_quickstart_runs(tmp_path):
    printed = run("quickstart", tmp_path, shorter=("60_000", "16_000"))
    assert "4 environments of 3 agents: (12, 18)" in printed
    assert "'glyphs': (4, 21, 79)" in printed
    assert numbers(r"score (\d\.\d+)", printed)[-1] > 0.25
    assert len(list(tmp_path.glob("runs/*/checkpoints/latest.pt"))) == 1


@pytest.mark.slow
def test_the_loop_of_the_cleanrl_notebook_learns(tmp_path):
    printed = run("cleanrl", tmp_path, shorter=("range(1, 71)", "range(1, 31)"))
    assert max(numbers(r"mean return (\d+)", printed)) > 80
    assert "units of the state: (1, 8, 128)" in printed


@pytest.mark.bench
@pytest.mark.timeout(300)  # what a notebook may take
@pytest.mark.parametrize(
    ("name", "pattern", "least"),
    [("quickstart", r"score (\d\.\d+)", 0.85), ("cleanrl", r"mean return (\d+)", 300)],
    ids=["quickstart", "cleanrl"],
)
def test_whole_notebooks_reach_their_scores(tmp_path, name, pattern, least):
    assert max(numbers(pattern, run(name, tmp_path))[-3:]) > least
