"""`invoke release`: what it writes and runs, when it refuses, and what publishes its tag."""

import datetime as dt
import subprocess

import pytest
from puffertank import release
from task_tools import BUILDS, CPU, ROOT, VERSION, run

LOG = (
    "# Changelog\n\n## [Unreleased]\n\n### Added\n\n- A thing.\n\n"
    "## [0.0.9] - 2026-01-01\n\n- Old.\n"
)
DAY = dt.date(2026, 12, 24)


@pytest.fixture
def releasable(machine, checkout, monkeypatch):
    monkeypatch.setattr(release, "ROOT", checkout)
    (checkout / "pufferlib").mkdir()
    (checkout / "pufferlib" / "__init__.py").write_text('"""Doc."""\n__version__ = "0.1.0"\n')
    (checkout / "CHANGELOG.md").write_text(LOG)
    return checkout


def test_release(machine, releasable):
    run("release", "0.2.0", "--cpu")
    assert '__version__ = "0.2.0"\n' in (releasable / "pufferlib" / "__init__.py").read_text()
    today = dt.date.today().isoformat()
    assert f"\n## [0.2.0] - {today}\n\n### Added" in (releasable / "CHANGELOG.md").read_text()
    files = ["pufferlib/__init__.py", "CHANGELOG.md"]
    assert machine.commands == [
        ["git", "commit", "--message", "Release 0.2.0", "--", *files],
        ["git", "tag", "--annotate", "--message", "Release 0.2.0", "v0.2.0"],
        ["python", "-m", "build", "--outdir", "dist/0.2.0"],
        *BUILDS,
        *(["docker", "tag", name, f"{name.removesuffix('cpu')}0.2.0-cpu"] for name in CPU),
    ]
    assert machine.variables.get("VERSION") is None, "the last command is no build"


def test_release_labels_the_images_with_the_new_version(machine, releasable, capsys):
    run("release", "0.2.0", "--cpu")
    assert "VERSION=0.2.0" in capsys.readouterr().out


def test_release_without_images_and_dry(machine, releasable, capsys):
    run("release", "0.2.0", "--cpu", "--no-images", "--dry-run")
    text = capsys.readouterr().out
    assert machine.commands == []
    assert (releasable / "CHANGELOG.md").read_text() == LOG
    assert "CHANGELOG.md: would be written" in text
    assert "$ git tag --annotate" in text
    assert "docker" not in text


@pytest.mark.parametrize(
    ("version", "log", "changes", "message"),
    [
        ("0.0.9", LOG, "", "0.0.9 is older than the current version 0.1.0"),
        ("v1", LOG, "", "expected a version like 1.2.3, got 'v1'"),
        ("0.2.0", LOG.replace("Unreleased", "0.1.1"), "", r"no section \[Unreleased\]"),
        (
            "0.2.0",
            LOG.replace("- A thing.\n", ""),
            "",
            "unreleased section of CHANGELOG.md is empty",
        ),
        ("0.2.0", LOG, " M README.md", "commit or discard these changes first:\n M README.md"),
    ],
)
def test_releases_that_are_refused_change_nothing(
    machine, releasable, version, log, changes, message
):
    (releasable / "CHANGELOG.md").write_text(log)
    machine.answers = {"git status": changes}
    with pytest.raises(SystemExit, match=message):
        run("release", version, "--cpu")
    assert machine.commands == []
    assert (releasable / "CHANGELOG.md").read_text() == log
    assert "0.1.0" in (releasable / "pufferlib" / "__init__.py").read_text()


def test_the_first_release_may_keep_its_version():
    log = "## [0.1.0] - unreleased\n\n- A thing.\n"
    assert release.date_changelog(log, "0.1.0", DAY) == "## [0.1.0] - 2026-12-24\n\n- A thing.\n"
    with pytest.raises(SystemExit, match="no section"):
        release.date_changelog(log, "0.2.0", DAY)
    source = (ROOT / "pufferlib" / "__init__.py").read_text()
    assert f'"{VERSION}"' in release.set_version(source, VERSION)


def test_the_publishing_workflow_follows_the_release():
    pytest.importorskip("yaml")
    import yaml

    text = (ROOT / ".github" / "workflows" / "publish.yml").read_text()
    workflow = yaml.safe_load(text)
    assert workflow[True] == {"push": {"tags": ["v*"]}}, "YAML reads the key `on` as true"
    jobs = workflow["jobs"]
    assert jobs["publish"]["permissions"] == {"id-token": "write"}, "a trusted publisher, no token"
    assert {jobs["publish"]["needs"], jobs["images"]["needs"]} == {"packages"}
    commands = [step["run"] for job in jobs.values() for step in job["steps"] if "run" in step]
    assert "invoke build --${{ matrix.variant }} push --${{ matrix.variant }} --release" in commands
    # The same line that the package is versioned by.
    (line,) = [line for line in commands[0].splitlines() if "sed" in line]
    found = subprocess.run(
        ["bash", "-c", f'{line}; echo "$version"'], cwd=ROOT, capture_output=True, text=True
    )
    assert found.stdout.strip() == VERSION
