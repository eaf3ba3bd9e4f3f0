"""provisioning/venv.sh: what it says when something is missing, and that it installs only once.

No test here installs packages: pip and the interpreters are fakes on a PATH of our own.
"""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TOOLS = (
    "bash",
    "cat",
    "cp",
    "dirname",
    "env",
    "grep",
    "head",
    "mkdir",
    "rm",
    "sed",
    "tail",
    "touch",
)

FAKE_PYTHON = """#!/bin/sh
# Real Python, but -m venv makes a venv whose own python only records its calls.
case "$*" in
    "-m venv --clear "*)
        mkdir -p "$4/bin"
        cp "{stub}" "$4/bin/python"
        touch "$4/pyvenv.cfg"
        ;;
    *) exec "{python}" "$@" ;;
esac
"""

STUB_PYTHON = """#!/bin/sh
echo "$*" >>"{calls}"
[ "$3" = "{failing}" ] && echo "cannot do that" && exit 1
exit 0
"""


@pytest.fixture
def bin_dir(tmp_path):
    """A PATH with the usual tools, but neither Python, compiler nor apt-get."""
    directory = tmp_path / "bin"
    directory.mkdir()
    for tool in TOOLS:
        (directory / tool).symlink_to(shutil.which(tool))
    return directory


def executable(path, text):
    path.write_text(text)
    path.chmod(0o755)
    return path


@pytest.fixture
def fake_python(bin_dir, tmp_path):
    def make(failing="nothing"):
        calls = tmp_path / "calls"
        stub = executable(tmp_path / "stub", STUB_PYTHON.format(calls=calls, failing=failing))
        executable(bin_dir / "python3.11", FAKE_PYTHON.format(stub=stub, python=sys.executable))
        executable(bin_dir / "c++", "#!/bin/sh\n")
        return calls

    return make


def venv_sh(bin_dir, *arguments, **variables):
    return subprocess.run(
        ["bash", str(ROOT / "provisioning" / "venv.sh"), *arguments],
        env={"PATH": str(bin_dir), "HOME": str(bin_dir.parent), **variables},
        cwd=bin_dir.parent,
        capture_output=True,
        text=True,
        timeout=60,
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "EXTRAS: expected at least one"),
        (["--"], "--: expected a command"),
        (["--venv"], "--venv: expected a directory"),
        (["--lock"], "--lock: expected a file"),
        (["--lock", "no.txt", "dev"], "--lock: no.txt is no file of the repository"),
        (["--fast", "dev"], "--fast: unknown option"),
        (["dev", "pytest"], "pytest: expected -- between extras and command"),
    ],
)
def test_usage_errors(bin_dir, arguments, message):
    result = venv_sh(bin_dir, *arguments)
    assert result.returncode == 2
    assert message in result.stderr
    assert "usage: provisioning/venv.sh" in result.stderr


def test_help_documents_the_variables(bin_dir):
    result = venv_sh(bin_dir, "--help")
    assert result.returncode == 0
    for word in ("PUFFER_TORCH_INDEX", "PUFFER_REQUIRE_NATIVE", "EXTRAS", "-- pytest"):
        assert word in result.stdout


def test_missing_python_names_the_apt_line(bin_dir):
    executable(bin_dir / "apt-get", "#!/bin/sh\n")
    result = venv_sh(bin_dir, "dev")
    assert result.returncode == 1
    assert "expected Python 3.11 or newer" in result.stderr
    assert "sudo apt-get install -y python3 python3-venv python3-dev g++" in result.stderr


def test_old_python_is_not_taken(bin_dir):
    # An interpreter that answers every check of its version with 'too old'.
    executable(bin_dir / "python3", "#!/bin/sh\nexit 1\n")
    result = venv_sh(bin_dir, "dev")
    assert result.returncode == 1
    assert "found none as: python3.11 python3.12 python3.13 python3" in result.stderr
    assert "install with your package manager" in result.stderr  # no apt-get on this PATH


def test_missing_venv_module_names_the_apt_line(bin_dir, tmp_path):
    executable(bin_dir / "apt-get", "#!/bin/sh\n")
    executable(
        bin_dir / "python3.11",
        f'#!/bin/sh\ncase "$*" in *ensurepip*) exit 1 ;; esac\nexec "{sys.executable}" "$@"\n',
    )
    result = venv_sh(bin_dir, "--venv", "made", "dev")
    assert result.returncode == 1
    assert "no complete venv module" in result.stderr
    assert "sudo apt-get install -y python3-venv" in result.stderr
    assert not (tmp_path / "made").exists()


def test_unknown_extra_names_the_nearest(bin_dir, fake_python):
    fake_python()
    result = venv_sh(bin_dir, "nethak")
    assert result.returncode == 2
    assert "unknown extra 'nethak'; did you mean nethack?" in result.stderr


def test_missing_compiler_stops_development_and_only_slows_training(bin_dir, fake_python):
    fake_python()
    (bin_dir / "c++").unlink()
    development = venv_sh(bin_dir, "--venv", "made", "dev")
    assert development.returncode == 1
    assert "needs a C++ compiler" in development.stderr
    assert "g++" in development.stderr
    training = venv_sh(bin_dir, "--venv", "made", "nethack")
    assert training.returncode == 0
    assert "slower NumPy functions" in training.stderr


def test_installs_once_for_each_list_of_extras(bin_dir, fake_python, tmp_path):
    calls = fake_python()

    def installed():
        lines = calls.read_text().splitlines()
        calls.write_text("")
        return [line for line in lines if "pip install" in line]

    command = ["--", "bash", "-c", 'echo "$VIRTUAL_ENV $1"', "-", "two words"]
    first = venv_sh(bin_dir, "--venv", "made", "nethack", *command)
    assert first.returncode == 0, first.stderr
    assert first.stdout == f"{tmp_path}/made two words\n"
    newer_pip, everything = installed()
    assert newer_pip.startswith("-m pip install --disable-pip-version-check pip==")
    assert everything == (
        "-m pip install --disable-pip-version-check --no-compile -c constraints.txt -e .[nethack]"
    )
    assert venv_sh(bin_dir, "--venv", "made", "nethack", *command).stdout == first.stdout
    assert installed() == []
    venv_sh(bin_dir, "--venv", "made", "test")
    assert installed()[-1].endswith("-e .[test]")
    venv_sh(bin_dir, "--venv", "made", "nethack")
    assert installed() == []


def test_an_island_is_installed_under_its_lock(bin_dir, fake_python):
    calls = fake_python()
    for lock in ("rllib", "tianshou", "tianshou"):
        venv_sh(bin_dir, "--venv", "made", "--lock", f"constraints/{lock}.txt", "smoke")
    installed = [line for line in calls.read_text().splitlines() if line.endswith("-e .[smoke]")]
    assert [line.split(" -c ")[1].split()[0] for line in installed] == [
        "constraints/rllib.txt",
        "constraints/tianshou.txt",  # another lock, another state; the third time there is none
    ]


def test_the_command_may_write_bytecode(bin_dir, fake_python):
    fake_python()
    command = ["--", "bash", "-c", "echo ${PYTHONDONTWRITEBYTECODE-unset}"]
    result = venv_sh(bin_dir, "--venv", "made", "nethack", *command, PYTHONDONTWRITEBYTECODE="1")
    assert result.stdout == "unset\n"


def test_torch_index_is_used_for_torch_alone(bin_dir, fake_python):
    calls = fake_python()
    venv_sh(bin_dir, "--venv", "made", "nethack", PUFFER_TORCH_INDEX="file:///torch")
    _, torch, rest = [line for line in calls.read_text().splitlines() if "pip install" in line]
    assert "--no-deps --force-reinstall --index-url file:///torch" in torch
    assert "--index-url" not in rest


def test_failing_pip_shows_the_log_and_is_tried_again(bin_dir, fake_python, tmp_path):
    fake_python(failing="install")
    for _ in range(2):
        result = venv_sh(bin_dir, "--venv", "made", "nethack", "--", "bash", "-c", "echo ran")
        assert result.returncode == 1
        assert "cannot do that" in result.stderr
        assert "pip install failed; the whole log is" in result.stderr
        assert result.stdout == ""


def test_a_directory_that_is_no_venv_is_left_alone(bin_dir, fake_python, tmp_path):
    fake_python()
    precious = tmp_path / "home" / "thesis.tex"
    precious.parent.mkdir()
    precious.write_text("chapter 1")
    result = venv_sh(bin_dir, "--venv", "home", "nethack")
    assert result.returncode == 1
    assert "is no virtual environment" in result.stderr
    assert precious.read_text() == "chapter 1"


def test_missing_command_is_named(bin_dir, fake_python):
    fake_python()
    result = venv_sh(bin_dir, "--venv", "made", "nethack", "--", "no-such-command")
    assert result.returncode == 1
    assert "no-such-command: no such command" in result.stderr
