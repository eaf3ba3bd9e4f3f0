"""`tank clone`: a checkout of its own for any user of a shared box, without rights or network."""

import re
import shutil
import tempfile
from pathlib import Path

import pytest
from engine_tools import VERSION, command

pytestmark = [pytest.mark.platform, pytest.mark.timeout(900)]  # the first one builds the images

NOBODY = ("--user", "1234:1234", "--cap-drop=ALL", "--security-opt=no-new-privileges")
WHERE = "import pufferlib; print(pufferlib.__file__)"
CLONE = "/home/me/pufferlib"
CHECK_CORE = ("python", "-c", "import pufferlib.native")


@pytest.fixture(scope="module")
def home():
    """The home of a user whom the image does not know; it outlives containers."""
    directory = Path(tempfile.mkdtemp(prefix="puffertank-"))
    shutil.chown(directory, 1234, 1234)
    yield directory
    shutil.rmtree(directory)


@pytest.fixture(scope="module")
def box(build, home):
    """Run a command in this user's container, the same for all tests here."""
    flags = (*NOBODY, "--network=none", "-v", f"{home}:/home/me", "-e", "HOME=/home/me")
    done = command("docker", "run", "-d", *flags, "puffertank/tank:cpu", "sleep", "600")
    container = done.stdout.strip()

    def run(*arguments, directory="/", **options):
        return command("docker", "exec", "-w", directory, container, *arguments, **options)

    yield run
    command("docker", "rm", "-f", container)


@pytest.fixture(scope="module")
def cloned(box):
    """The same, after `tank clone`."""
    box("tank", "clone")
    return box


def test_the_clone_is_what_python_imports(cloned):
    for directory in ("/", "/puffer", CLONE):
        assert cloned("python", "-c", WHERE, directory=directory).stdout == (
            f"{CLONE}/pufferlib/__init__.py\n"
        )
    assert cloned("python", "-W", "error", "-c", "import pufferlib.native").stderr == ""
    doctor = cloned("puffer", "doctor", check=False).stdout
    assert re.search(rf"^pufferlib +ok +{re.escape(VERSION)} in {CLONE}/pufferlib", doctor, re.M)


def test_the_clone_is_a_repository_with_what_the_image_was_built_from(cloned, checkout):
    def git(*arguments):
        return cloned("git", *arguments, directory=CLONE).stdout

    assert git("log", "--format=%s") == f"PufferTank {VERSION}, revision 0123abc\n"
    assert git("status", "--porcelain") == ""
    files = {str(path.relative_to(checkout)) for path in checkout.rglob("*") if path.is_file()}
    assert set(git("ls-files").splitlines()) == files
    assert cloned("test", "-x", f"{CLONE}/docker/run-tank.sh").returncode == 0


def test_nothing_is_overwritten(cloned):
    done = cloned("tank", "clone", check=False)
    assert done.returncode == 1
    assert f"error: expected a new or empty directory, got {CLONE}" in done.stderr
    assert f"tank install {CLONE}" in done.stderr


def test_changed_native_sources_warn_until_they_are_installed(cloned, home):
    source = home / "pufferlib" / "pufferlib" / "native" / "module.cpp"
    source.write_text(source.read_text() + "// changed\n")
    stale = cloned(*CHECK_CORE).stderr
    assert "compiled from other sources" in stale
    assert "rebuild it with `tank install` in the repository" in stale
    cloned("tank", "install", directory=CLONE)
    assert cloned(*CHECK_CORE).stderr == ""
    assert cloned("git", "status", "--porcelain", directory=CLONE).stdout == (
        " M pufferlib/native/module.cpp\n"
    )


def test_back_and_forth(cloned):
    """And a dev container whose workspace is not /puffer, as in Codespaces, installs its own."""
    assert cloned("tank", "uninstall").stderr == "pufferlib comes from /puffer/pufferlib now\n"
    assert cloned("python", "-c", WHERE).stdout == "/puffer/pufferlib/__init__.py\n"
    done = cloned("bash", f"{CLONE}/.devcontainer/post-create.sh")
    print(done.stdout.splitlines()[-1])
    assert re.search(r"(\d+) passed", done.stdout)
    assert f"pufferlib comes from {CLONE} now" in done.stderr
    assert cloned("python", "-c", WHERE).stdout == f"{CLONE}/pufferlib/__init__.py\n"


def test_a_mounted_checkout_and_a_clone(cloned, tank, home, workspace):
    """The clone stays what runs, and the start says so; where it is gone, the mount runs."""
    mount = ("-v", f"{workspace(1234)}:/puffer")
    flags = (*NOBODY, "-v", f"{home}:/home/me", "-e", "HOME=/home/me", *mount)
    done = tank("bash", "-c", f"python -c '{WHERE}'; tank clone other", flags=flags, check=False)
    assert done.stdout == f"{CLONE}/pufferlib/__init__.py\n"
    assert f"note: pufferlib comes from {CLONE}, not from the checkout mounted at" in done.stderr
    assert done.returncode == 1
    assert "error: a checkout is mounted at /puffer, and it is what runs" in done.stderr
    (home / "pufferlib").rename(home / "moved")
    done = tank("python", "-c", WHERE, flags=flags)
    (home / "moved").rename(home / "pufferlib")
    assert done.stdout == "/puffer/pufferlib/__init__.py\n"
    assert "note: pufferlib comes" not in done.stderr


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (["frob"], 2, "error: frob: there is no such verb here\n  tank clone [DIR]"),
        (["clone", "a", "b"], 2, "error: clone: unexpected argument b\n"),
        (["install"], 1, "error: expected a checkout of pufferlib, got /\n"),
        (["clone", "/new"], 1, "error: cannot make /new\n"),
    ],
)
def test_mistakes_are_named(box, arguments, status, message):
    done = box("tank", *arguments, check=False)
    assert done.returncode == status
    assert message in done.stderr


def test_help_and_a_home_that_is_none(tank):
    done = tank("bash", "-c", "tank help; tank clone", flags=NOBODY, check=False)
    assert "tank clone [DIR]      copy the image's library to DIR" in done.stdout
    assert "error: expected a home that you can write to, got HOME=/\n" in done.stderr
    assert done.returncode == 1
