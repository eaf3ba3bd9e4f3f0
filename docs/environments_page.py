"""Writes what `docs/pages/environments.md` has of the registry, the policies and the modules.

    python docs/environments_page.py                     # after a change of an environment
    python benchmarks/environments.py > speeds.md
    python docs/environments_page.py --speeds speeds.md  # with the table that was measured
    python benchmarks/families.py --report --markdown learning.md
    python docs/environments_page.py --learning learning.md

The page has blocks between `<!-- NAME -->` and `<!-- end of NAME -->`, which this replaces; the
rest is written by hand. `tests/test_environments_page.py` compares the blocks with the sources.
"""

from __future__ import annotations

import argparse
import ast
import importlib
import inspect
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from pufferlib import environments
from pufferlib.environments.row import Row

PAGE = Path(__file__).parent / "pages" / "environments.md"


def table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """In Markdown."""
    lines = [headings, ["---"] * len(headings), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def families(rows: Iterable[Row]) -> str:
    """What there is, and what brings it."""
    headings = ("environment", "what it is", "default task", "install", "of Debian", "to know")
    return table(headings, map(family, rows))


def family(row: Row) -> list[str]:
    """A row of `families`, from that of the registry."""
    install = "not here, see below"
    if not row.elsewhere:
        install = f"`puffer install {row.name}`" if row.extra else "in every installation"
    needs = [f"`{name}`" for name in row.system]
    if row.file_variable:
        needs.append(f"and a file of your own, named by `{row.file_variable}`")
    texts = (row.description, f"`{row.default}`", install, ", ".join(needs) or "–")
    return [f"[`{row.name}`](#{row.name})", *texts, row.notes or "–"]


def policies(rows: Iterable[Row]) -> str:
    """The networks that come with each environment."""
    return table(("environment", "`Policy`", "`Recurrent`"), map(policy, rows))


def policy(row: Row) -> list[str]:
    """A row of `policies`: the first sentences of the classes' docstrings."""
    module = importlib.import_module(f"{row.module}.torch")
    docs = [first_sentence(getattr(module, name, None)) for name in ("Policy", "Recurrent")]
    return [f"`{row.name}`", *docs]


def first_sentence(kind: type | None) -> str:
    """Of a class's docstring, on one line."""
    if kind is None:
        return "–"
    paragraph = (inspect.getdoc(kind) or "").partition("\n\n")[0]
    text = " ".join(paragraph.split())
    return re.split(r"(?<=\.) (?=[A-Z])", text)[0]


def notes(rows: Iterable[Row]) -> str:
    """How each library behaves and what is changed here: the docstrings of the modules."""
    return "\n\n".join(f"### {row.name}\n\n{note(row)}" for row in rows)


def note(row: Row) -> str:
    """The docstring of the module that makes the environment, and why pip cannot install it."""
    folder = Path(environments.__file__).parent / row.name
    text = ast.get_docstring(ast.parse((folder / "environment.py").read_text())) or ""
    return f"{text}\n\nTo install it: {row.elsewhere}." if row.elsewhere else text


BLOCKS = {"families": families, "policies": policies, "notes": notes}


def replaced(page: str, name: str, content: str) -> str:
    """The page with another content of a block.

    Raises:
        ValueError: the page has no such block, or several.
    """
    first, last = f"<!-- {name} -->", f"<!-- end of {name} -->"
    pattern = re.compile(f"({re.escape(first)}\n).*?({re.escape(last)})", re.DOTALL)
    new, count = pattern.subn(lambda match: f"{match[1]}\n{content.strip()}\n\n{match[2]}", page)
    if count != 1:
        raise ValueError(f"{PAGE}: expected one block {first} … {last}, got {count}")
    return new


def main() -> None:
    """Read the command line and write the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--speeds", type=Path, help="what benchmarks/environments.py printed")
    parser.add_argument("--learning", type=Path, help="what benchmarks/families.py wrote")
    arguments = parser.parse_args()
    page = PAGE.read_text()
    for name, make in BLOCKS.items():
        page = replaced(page, name, make(environments.ROWS.values()))
    for name in ("speeds", "learning"):
        if measured := getattr(arguments, name):
            page = replaced(page, name, measured.read_text())
    PAGE.write_text(page)


if __name__ == "__main__":
    main()
