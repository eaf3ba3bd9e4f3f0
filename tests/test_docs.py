"""The documentation's code runs; its links, names and options lead somewhere."""

import contextlib
import dataclasses
import io
import math
import pkgutil
import re
from pathlib import Path

import gymnasium
import needs
import pytest
import torch

from pufferlib.cli import COMMANDS, main
from pufferlib.exceptions import EnvironmentSetupError
from pufferlib.trainer.config import TrainConfig, VecConfig

ROOT = Path(__file__).parents[1]
PAGES = ROOT / "docs" / "pages"
TEXTS = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "tests/REPORTS.md")),
    *sorted(PAGES.glob("*.md")),
]
# Names of PufferLib in the README's table for those who come from there.
NOT_HERE = re.compile(r"\.(NAME|registry|vectorization|GymPufferEnv|Binding)\b")


def run(page):
    """What the code of a page defines, run as one program."""
    sources = re.findall(r"```python\n(.*?)```", (PAGES / page).read_text(), re.DOTALL)
    namespace = {}
    exec("\n".join(sources), namespace)
    return namespace


def test_the_native_example_keeps_the_contract():
    assert run("native.md")["Drift"]().num_agents == 1_000


@needs.compiled_core
def test_the_examples_of_native_games_run():
    names = run("ocean.md")
    assert (names["actions"].shape, names["env"].game) == ((4096,), "maze")


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


def test_the_examples_of_other_learning_libraries_run():
    examples = run("learning_libraries.md")
    try:
        assert examples["action"].shape == (4, 2)
        assert examples["squares"].spec.id == "Squared-v0"
        assert examples["model"].num_timesteps == 1024
    finally:
        del gymnasium.registry["Squared-v0"]


@pytest.mark.parametrize("list_of_pages", ["mkdocs.yml", "pages/index.md"])
def test_every_page_is_listed(list_of_pages):
    listed = (PAGES.parent / list_of_pages).read_text()
    pages = {path.name for path in PAGES.glob("*.md")} - {"index.md"}
    assert [name for name in pages if name not in listed] == []


def heading_anchors(page):
    headings = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading).lower().replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("text", TEXTS, ids=lambda path: path.name)
def test_links_lead_to_files_and_headings(text):
    for target in re.findall(r"\]\((?!http)([^)\s]+)\)", text.read_text()):
        path, _, anchor = target.partition("#")
        page = text.parent / path if path else text
        assert page.exists(), target
        assert not anchor or anchor in heading_anchors(page), target


@pytest.mark.parametrize("text", TEXTS, ids=lambda path: path.name)
def test_files_that_are_named_exist(text):
    folders = "benchmarks|constraints|docker|docs|examples|provisioning|pufferlib|tests"
    pattern = rf"(?<![\w/.-])(?:{folders})/[\w./-]*\w"
    named = set(re.findall(pattern, text.read_text()))
    templates = {"pufferlib/config/ENV.toml", "pufferlib/config/NAME.toml"}
    assert [name for name in named - templates if not (ROOT / name).exists()] == []


@pytest.mark.parametrize("text", TEXTS, ids=lambda path: path.name)
def test_names_of_the_library_exist(text):
    names = set(re.findall(r"\bpufferlib(?:\.[A-Za-z_]\w*)+", text.read_text()))
    assert [name for name in names if not NOT_HERE.search(name) and not is_name(name)] == []


def is_name(dotted):
    """Whether a dotted name is that of a module or of something in one."""
    try:
        pkgutil.resolve_name(dotted)
    except AttributeError:
        return False
    except EnvironmentSetupError as error:  # of an extra that is not installed
        return "pip install" in str(error)
    return True


@pytest.mark.parametrize("text", TEXTS, ids=lambda path: path.name)
def test_options_exist(text):
    known = {
        f"{group}.{spec.name}"
        for group, kind in (("train", TrainConfig), ("vec", VecConfig))
        for spec in dataclasses.fields(kind)
    }
    written = re.findall(r"(?:`|--)((?:train|vec)\.[a-z][\w-]+)", text.read_text())
    options = {option.replace("-", "_") for option in written}
    negations = {option.replace(".no_", ".") for option in options}
    assert options <= known or negations <= known, sorted(options - known)


@pytest.fixture(scope="module")
def help_of():
    """From a command of `puffer` to what its --help says."""
    told = {}

    def ask(command):
        if command not in told:
            wants_name = command in ("train", "eval", "export", "autotune", "profile")
            words = [command, *(["squared"] if wants_name else []), "--help"]
            output = io.StringIO()
            with contextlib.redirect_stdout(output), pytest.raises(SystemExit):
                main(words)
            told[command] = output.getvalue()
        return told[command]

    return ask


@pytest.mark.parametrize("text", TEXTS, ids=lambda path: path.name)
def test_commands_and_their_options_exist(text, help_of):
    lines = re.findall(r"(?:`|^ *|\$ )puffer ([^\n`#;]+)", text.read_text(), re.MULTILINE)
    for line in lines:
        command, *words = line.split()
        assert command in COMMANDS, line
        for word in words:
            if word.startswith("--") and "." not in word:
                assert word.replace("--no-", "--") in help_of(command), line


@pytest.mark.parametrize("text", TEXTS, ids=lambda path: path.name)
def test_examples_are_python(text):
    for source in re.findall(r"```python\n(.*?)```", text.read_text(), re.DOTALL):
        compile(source, text.name, "exec")
