"""provisioning/lib/apt.sh: packages, components, vendors' repositories, what failures mean."""

import pytest

DEB822 = """\
Types: deb
URIs: http://deb.debian.org/debian
Suites: bookworm bookworm-updates
Components: main
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg

Types: deb
URIs: http://deb.debian.org/debian-security
Suites: bookworm-security
Components: main non-free-firmware
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg

Types: deb
URIs: https://vendor.example.com/debian
Suites: bookworm
Components: main
Signed-By: /etc/apt/keyrings/vendor.gpg
"""

ONE_LINE = """\
# deb http://mirror/debian bookworm main
deb http://mirror/debian/ bookworm main
deb [arch=amd64] http://mirror/debian-security bookworm-security main contrib
deb http://mirror/debian trixie main
deb https://vendor.example.com/apt bookworm main
"""


def test_only_missing_packages_are_installed(machine):
    machine.install("vim")
    done = machine.step(machine.script("install_packages vim tmux\ninstall_packages tmux htop"))
    assert done.stdout == "install tmux\ninstall htop\n"
    installs = [call.split(" install ")[1] for call in machine.called("apt-get") if "inst" in call]
    assert installs == ["--no-install-recommends tmux", "--no-install-recommends htop"]
    # The lists are fetched once in a run.
    assert sum(call.endswith(" update") for call in machine.called("apt-get")) == 1
    # dpkg reads all it knows for each question: one before and one after, however many packages.
    assert len(machine.called("dpkg-query")) == 4


def test_package_that_apt_did_not_install(machine):
    machine.program("apt-get", "")
    done = machine.step(machine.script("install_packages tmux"))
    assert done.returncode == 1
    assert "tmux is not installed, although apt-get reports success" in done.stderr


def test_interrupted_installation_is_finished_first(machine):
    machine.program("dpkg", "[[ $1 != --audit ]] || echo 'half installed: vim'")
    machine.step(machine.script("install_packages tmux"))
    assert "--configure -a" in machine.called("dpkg")[1]
    commands = [call.split("force-confold ")[1] for call in machine.called("apt-get")]
    assert commands == ["-f install", "update", "install --no-install-recommends tmux"]


@pytest.mark.parametrize(
    ("output", "remedy"),
    [
        ("dpkg: error: No space left on device", "free space"),
        ("E: You don't have enough free space in /var/cache/apt", "free space"),
        ("E: Conflicting values set for option Signed-By regarding source", "keep one: grep -rn"),
        ("W: GPG error: NO_PUBKEY 7EA0A9C3F273FCD8", "not signed by the key of tank.conf"),
        ("E: Could not get lock /var/lib/dpkg/lock-frontend", "another package manager runs"),
        ("E: dpkg was interrupted, you must manually run", "dpkg --configure -a"),
        ("W: Temporary failure resolving 'deb.debian.org'", "check network and proxy"),
        ("E: Unable to locate package tmux", "the configured mirrors lack it"),
        ("E: Unmet dependencies; unmet dependencies", "apt-mark showhold"),
        ("Segmentation fault", "repeat by hand"),
    ],
)
def test_failure_of_apt_is_explained(machine, output, remedy):
    machine.program("apt-get", f'echo "{output}" >&2; exit 100')
    done = machine.step(machine.script("install_packages tmux\necho went on"))
    assert done.returncode == 1
    assert output in done.stderr
    assert remedy in done.stderr
    assert "went on" not in done.stdout


def test_index_that_could_not_be_fetched_is_a_failure(machine):
    """apt-get update itself calls that a success."""
    machine.program("apt-get", "echo 'W: Failed to fetch http://mirror/x  Connection timed out'")
    done = machine.step(machine.script("update_lists"))
    assert done.returncode == 1
    assert "check network and proxy" in done.stderr


def test_components_are_added_to_debian_alone(machine):
    blocks = machine.put("/etc/apt/sources.list.d/debian.sources", DEB822)
    lines = machine.put("/etc/apt/sources.list", ONE_LINE)
    script = machine.script("enable_components contrib non-free-firmware")
    machine.step(script)
    first, second, third = blocks.read_text().split("\n\n")
    assert "Components: main contrib non-free-firmware\n" in first
    assert "Components: main non-free-firmware contrib\n" in second
    assert "Components: main\n" in third
    assert lines.read_text() == ONE_LINE.replace(
        "\ndeb http://mirror/debian/ bookworm main\n",
        "\ndeb http://mirror/debian/ bookworm main contrib non-free-firmware\n",
    ).replace("main contrib\n", "main contrib non-free-firmware\n")
    assert machine.step(script).stdout == ""


# --- vendors' repositories

ADD = "add_repository vendor https://vendor.example.com/apt bookworm main {key} ABCD"


@pytest.fixture
def key(machine):
    path = machine.root / "key"
    path.write_text("-----BEGIN PGP PUBLIC KEY BLOCK-----\nFINGERPRINT ABCD:\n")
    return path


def test_repository_is_added_once(machine, key):
    script = machine.script(ADD.format(key=key))
    machine.step(script)
    assert machine.path("/etc/apt/sources.list.d/tank-vendor.sources").read_text() == (
        "Types: deb\nURIs: https://vendor.example.com/apt\nSuites: bookworm\nComponents: main\n"
        "Signed-By: /etc/apt/keyrings/tank-vendor.asc\n"
    )
    assert machine.path("/etc/apt/keyrings/tank-vendor.asc").read_bytes() == key.read_bytes()
    assert machine.step(script).stdout == ""


def test_key_with_another_fingerprint_is_refused(machine, key):
    key.write_text("-----BEGIN PGP PUBLIC KEY BLOCK-----\nFINGERPRINT FFFF:\n")
    done = machine.step(machine.script(ADD.format(key=key)))
    assert done.returncode == 1
    assert "the key of the vendor repository is refused" in done.stderr
    assert "expected fingerprint ABCD, got FFFF" in done.stderr
    assert not machine.path("/etc/apt").exists()


def test_key_that_cannot_be_fetched(machine):
    done = machine.step(machine.script(ADD.format(key="https://vendor.example.com/key")))
    assert done.returncode == 1
    assert "cannot fetch the key of the vendor repository from https://vendor" in done.stderr


def test_entries_of_others_for_the_same_repository_are_switched_off(machine, key):
    """Two entries with different Signed-By make every apt run fail."""
    block = (
        "Types: deb\nURIs: https://vendor.example.com/apt/\nSuites: bookworm\nComponents: main\n"
    )
    other = machine.put("/etc/apt/sources.list.d/vendor.sources", DEB822 + "\n" + block)
    line = "deb [signed-by=/usr/share/v.gpg] https://vendor.example.com/apt bookworm main\n"
    mine = machine.put("/etc/apt/sources.list.d/vendor.list", line)
    neighbour = "deb https://vendor.example.com/apt-beta bookworm main\n"
    beta = machine.put("/etc/apt/sources.list.d/beta.list", neighbour)
    script = machine.script(ADD.format(key=key))
    machine.step(script)
    off = "# off, see tank-*.sources: "
    assert mine.read_text() == off + line
    assert other.read_text().startswith(DEB822)
    assert f"{off}URIs: https://vendor.example.com/apt/\n" in other.read_text()
    assert beta.read_text() == neighbour
    assert machine.step(script).stdout == ""
