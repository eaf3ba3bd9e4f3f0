"""The lock's hash: it changes with every pinned version, and with nothing else."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pufferlib import lock

ROOT = Path(__file__).parents[1]

names = st.from_regex(r"[a-z][a-z0-9]{0,4}(-[a-z0-9]{1,4}){0,2}", fullmatch=True)
versions = st.lists(st.integers(0, 99), min_size=1, max_size=3).map(
    lambda parts: ".".join(map(str, parts))
)
locks = st.dictionaries(names, versions, min_size=1, max_size=6)


def write(root, pins, islands=None):
    """A tree with nothing but a lock."""
    shutil.rmtree(root, ignore_errors=True)
    (root / "constraints").mkdir(parents=True)
    for path, text in {"constraints.txt": pins, **(islands or {})}.items():
        if isinstance(text, dict):
            text = "".join(f"{name}=={version}\n" for name, version in text.items())
        (root / path).write_text(text)
    return root


@pytest.fixture(scope="module")
def tree(tmp_path_factory):
    return tmp_path_factory.mktemp("lock") / "tree"


@st.composite
def respelled(draw):
    """A lock, and another text of the same lock."""
    pins = draw(locks)
    lines = []
    for name in draw(st.permutations(sorted(pins))):
        spelling = draw(st.sampled_from([name, name.upper(), name.replace("-", "_"), name.title()]))
        blank = draw(st.sampled_from(["", " "]))
        comment = draw(st.sampled_from(["", "  # why", "\t#why == 3"]))
        line = f"{blank}{spelling}{blank}=={blank}{pins[name]}{comment}"
        lines += draw(st.sampled_from([[line], ["", line], ["# other==1", line], [line, line]]))
    return pins, draw(st.sampled_from(["\n", "\r\n"])).join(lines)


@settings(max_examples=25)
@given(respelled())
def test_spelling_changes_nothing(tree, both):
    pins, text = both
    expected = lock.lock_hash(write(tree, pins))
    assert lock.lock_hash(write(tree, text)) == expected
    assert re.fullmatch(r"[0-9a-f]{12}", expected)
    assert lock.pins(text) == pins


@settings(max_examples=25)
@given(pins=locks, data=st.data())
def test_every_pin_counts(tree, pins, data):
    before = lock.lock_hash(write(tree, pins))
    name = data.draw(st.sampled_from(sorted(pins)))
    others = {other: version for other, version in pins.items() if other != name}
    changed = {**pins, name: data.draw(versions.filter(lambda version: version != pins[name]))}
    added = {**pins, "one-more-" + name: "1"}
    hashes = {lock.lock_hash(write(tree, each)) for each in (changed, others, added)}
    assert before not in hashes
    assert len(hashes) == 3


@settings(max_examples=25)
@given(pins=locks, island=locks)
def test_islands_count_each_for_itself(tree, pins, island):
    hashes = {
        lock.lock_hash(write(tree, pins, islands))
        for islands in (
            {},
            {"constraints/mario.txt": island},
            {"constraints/rllib.txt": island},
            {"constraints/mario.txt": {**island, "zz-one-more": "1"}},
        )
    }
    assert len(hashes) == 4
    notes = {"constraints/README.md": island}
    assert lock.lock_hash(write(tree, pins, notes)) == lock.lock_hash(write(tree, pins))


@pytest.mark.parametrize("local", ["+cpu", "+cu130", "+rocm7.0"])
def test_variants_of_torch_share_the_lock(tree, local):
    plain = lock.lock_hash(write(tree, "torch==2.13.0\nnumpy==2.4.6\n"))
    assert lock.lock_hash(write(tree, f"torch==2.13.0{local}\nnumpy==2.4.6\n")) == plain
    # Of torch alone: another package's local version is another package.
    assert lock.lock_hash(write(tree, f"torch==2.13.0\nnumpy==2.4.6{local}\n")) != plain


@pytest.mark.parametrize(
    ("line", "same"),
    [
        ("a==1;python_version<'3.12'", True),
        ("a == 1 ; python_version < '3.12'", True),
        ("a==1", False),
        ("a==1;python_version<'3.13'", False),
        ("a==1;python_version<'3.12'\n--no-binary=a", False),
    ],
)
def test_markers_and_options_count(tree, line, same):
    expected = lock.lock_hash(write(tree, "a==1; python_version < '3.12'  # reason\n"))
    assert (lock.lock_hash(write(tree, line)) == expected) is same


def test_prints_the_hash_without_an_installation(tmp_path):
    (tmp_path / "pufferlib").mkdir()
    script = shutil.copy(ROOT / "pufferlib" / "lock.py", tmp_path / "pufferlib")
    command = [sys.executable, "-I", "-S", script]
    missing = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert missing.returncode == 1
    assert "expected constraints.txt" in missing.stderr

    # A wheel has the lock in the package; a source tree beside it, and that one wins.
    shutil.copy(ROOT / "constraints.txt", tmp_path / "pufferlib")
    (tmp_path / "constraints.txt").write_text("a==1\n")
    for tree, root in (("wheel", tmp_path / "pufferlib"), ("sources", tmp_path)):
        if tree == "sources":
            (tmp_path / "pyproject.toml").touch()
        found = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
        assert found.stdout.strip() == lock.lock_hash(root)


class TestMinimums:
    """What the lock says about hardware belongs to exactly the torch that it pins."""

    PINS = lock.pins((ROOT / "constraints.txt").read_text())

    def test_they_were_looked_up_for_the_pinned_torch(self):
        assert self.PINS["torch"] == lock.TORCH

    def test_cuda_version_is_that_of_the_pinned_runtime(self):
        for name in ("cuda-toolkit", "nvidia-cuda-runtime", "nvidia-cuda-nvrtc"):
            assert self.PINS[name].startswith(lock.TORCH_CUDA + "."), name

    def test_driver_is_the_first_branch_of_that_cuda(self):
        # CUDA release notes, "minimum driver version for minor version compatibility".
        branches = {"11": 450, "12": 525, "13": 580}
        assert branches[lock.TORCH_CUDA.split(".")[0]] == lock.MIN_DRIVER

    @pytest.mark.smoke
    def test_installed_build_agrees(self):
        """Says most in a CUDA image; a CPU build has neither CUDA nor architectures."""
        import torch

        capabilities = [int(name.removeprefix("sm_")) for name in torch.cuda.get_arch_list()]
        found = (torch.version.cuda, divmod(min(capabilities, default=0), 10))
        assert found in [(lock.TORCH_CUDA, lock.MIN_COMPUTE_CAPABILITY), (None, (0, 0))]

    def test_the_texts_for_users_name_them(self):
        for name in ("README.md", "constraints.txt"):
            text = (ROOT / name).read_text()
            assert f"{lock.MIN_DRIVER}" in text
            assert "Turing" in text
