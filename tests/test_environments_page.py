"""The page of environments says what the registry, the policies and the modules say."""

import importlib.util
import re
from pathlib import Path

import pytest

from pufferlib import environments

DOCS = Path(__file__).parents[1] / "docs"
PAGE = (DOCS / "pages" / "environments.md").read_text()
ROWS = list(environments.ROWS.values())
SPEC = importlib.util.spec_from_file_location("environments_page", DOCS / "environments_page.py")
script = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(script)


@pytest.mark.parametrize("name", script.BLOCKS)
def test_a_block_is_that_of_the_sources(name):
    written = script.replaced(PAGE, name, script.BLOCKS[name](ROWS))
    assert written == PAGE, "run: python docs/environments_page.py"


def test_every_environment_that_can_be_installed_has_its_speed():
    block = PAGE.partition("<!-- speeds -->")[2].partition("<!-- end of speeds -->")[0]
    measured = re.findall(r"^\| (\w+) \|", block, re.MULTILINE)
    assert measured[1:] == [row.name for row in ROWS if not row.elsewhere]


def test_what_cannot_be_installed_says_so():
    row = environments.ROWS["smac"]
    assert "not here" in script.family(row)[3]
    assert "not run here" in script.family(row)[5]
    assert f"To install it: {row.elsewhere}." in script.note(row)


def test_the_first_sentence_of_a_docstring():
    class Policy:
        """Convolutions over one frame
        of the game, by Mnih et al. 2015. More of it.

        * And much more.
        """

    assert script.first_sentence(Policy) == (
        "Convolutions over one frame of the game, by Mnih et al. 2015."
    )
    assert script.first_sentence(None) == "–"


def test_a_block_that_is_missing_is_an_error():
    with pytest.raises(ValueError, match="expected one block <!-- price -->"):
        script.replaced(PAGE, "price", "")


def test_the_example_runs():
    (source,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    names = {}
    exec(source, names)
    assert names["observations"].shape == (4, 4)
