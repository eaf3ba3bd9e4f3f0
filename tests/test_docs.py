"""The documentation's code runs, and its pages are in the navigation."""

import math
import re
from pathlib import Path

import pytest
import torch

from pufferlib import native

PAGES = Path(__file__).parents[1] / "docs" / "pages"


def run(page):
    """What the code of a page defines, run as one program."""
    sources = re.findall(r"```python\n(.*?)```", (PAGES / page).read_text(), re.DOTALL)
    namespace = {}
    exec("\n".join(sources), namespace)
    return namespace


def test_the_native_example_keeps_the_contract():
    assert run("native.md")["Drift"]().num_agents == 1_000


@pytest.mark.skipif(not native.available, reason="needs the compiled core")
def test_the_example_of_native_squared_runs():
    assert run("ocean.md")["env"].num_agents == 4096


def test_the_examples_of_emulation_run():
    pytest.importorskip("mpe2")
    examples = run("emulation.md")
    env = examples["make_env"]()
    env.reset(seed=1)
    row, reward, *_ = env.step([2.0])
    assert env.observation_plan.decode(row)["phase"] == 0
    assert reward < -0.2
    teams = examples["make_teams"]()
    assert teams.possible_agents == ["red", "blue"]
    assert teams.reset(seed=1)[0]["red"].shape == (36,)


def test_the_policy_of_the_masks_page_opens_no_closed_door():
    examples = run("masks.md")
    closed = [True, False, False, True, False]
    assert (examples["logits"][0] == -math.inf).tolist() == closed
    row = torch.from_numpy(examples["env"].reset(seed=0)[0][None])
    assert (examples["policy"](row)[0][0] == -math.inf).tolist() == closed


def test_the_examples_of_wrappers_run():
    pytest.importorskip("mpe2")
    env = run("wrappers.md")["env"]
    observations, _ = env.reset(seed=0)
    assert {agent: row.shape for agent, row in observations.items()} == dict.fromkeys(
        ("agent_0", "agent_1", "agent_2"), (4, 18)
    )


def test_every_page_is_in_the_navigation():
    navigation = (PAGES.parent / "mkdocs.yml").read_text()
    assert [p.name for p in PAGES.glob("*.md") if p.name not in navigation] == []
