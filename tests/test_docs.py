"""The documentation's code runs, and its pages are in the navigation."""

import re
from pathlib import Path

PAGES = Path(__file__).parents[1] / "docs" / "pages"


def run(page):
    """What the code of a page defines, run as one program."""
    sources = re.findall(r"```python\n(.*?)```", (PAGES / page).read_text(), re.DOTALL)
    namespace = {}
    exec("\n".join(sources), namespace)
    return namespace


def test_the_native_example_keeps_the_contract():
    assert run("native.md")["Drift"]().num_agents == 1_000


def test_the_examples_of_emulation_run(requires):
    requires("mpe2")
    examples = run("emulation.md")
    env = examples["make_env"]()
    env.reset(seed=1)
    row, reward, *_ = env.step([2.0])
    assert env.observation_plan.decode(row)["phase"] == 0
    assert reward < -0.2
    teams = examples["make_teams"]()
    assert teams.possible_agents == ["red", "blue"]
    assert teams.reset(seed=1)[0]["red"].shape == (36,)


def test_every_page_is_in_the_navigation():
    navigation = (PAGES.parent / "mkdocs.yml").read_text()
    assert [p.name for p in PAGES.glob("*.md") if p.name not in navigation] == []
