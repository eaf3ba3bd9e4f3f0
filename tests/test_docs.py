"""The documentation's code runs, and its pages are in the navigation."""

import re
from pathlib import Path

PAGES = Path(__file__).parents[1] / "docs" / "pages"


def test_the_native_example_keeps_the_contract():
    from pufferlib.testing import check_env

    (source,) = re.findall(r"```python\n(.*?)```", (PAGES / "index.md").read_text(), re.DOTALL)
    namespace = {}
    exec(source, namespace)
    check_env(namespace["Drift"])


def test_every_page_is_in_the_navigation():
    navigation = (PAGES.parent / "mkdocs.yml").read_text()
    assert [p.name for p in PAGES.glob("*.md") if p.name not in navigation] == []
