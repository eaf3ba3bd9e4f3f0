"""What CONTRIBUTING.md promises of the sources and no linter checks."""

from pathlib import Path

ROOT = Path(__file__).parents[1]
FOLDERS = ("pufferlib", "tests", "benchmarks", "docker", "provisioning")


def test_modules_stay_readable_in_one_sitting():
    modules = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py")]
    assert len(modules) > 200
    lengths = {str(path.relative_to(ROOT)): len(path.read_text().splitlines()) for path in modules}
    assert {name: lines for name, lines in lengths.items() if lines > 500} == {}
