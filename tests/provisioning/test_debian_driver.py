"""Step 30 with DRIVER=debian: names of modules and packages as Debian 12's driver has them."""

import pytest

VERSION = "535.309.01"
# What modinfo of Debian says: the module has a name of its own.
MODINFO = f'[[ $* == "-F version nvidia-current" ]] && echo {VERSION}'


@pytest.fixture
def debian(machine):
    machine.configure(DRIVER="debian")
    machine.program("uname", "echo 6.1.0-57-cloud-amd64")
    machine.program("modinfo", MODINFO)
    machine.install("nvidia-driver", f"{VERSION}-0+deb12u1")
    return machine


def test_the_module_is_found_under_debians_name(debian):
    wrong = debian.step("30", "driver_disagreement").stdout
    assert wrong == f"the module {VERSION} is not loaded\n"
    debian.driver(loaded=VERSION)
    assert debian.step("30", "driver_disagreement").stdout == ""


def test_what_dkms_says_of_it_passes(debian):
    built = f"nvidia-current/{VERSION}, 6.1.0-57-cloud-amd64, x86_64: installed"
    debian.program("dkms", f"echo '{built}'")
    assert debian.step("30", "check_build").returncode == 0


def test_libraries_of_the_driver_are_held(debian):
    for name in ("libegl-nvidia0", "libgl1-nvidia-glvnd-glx", "libglvnd0", "nvidia-kernel-dkms"):
        debian.install(name)
    debian.program("apt-mark", "")
    debian.step("30", "hold_nvidia_packages")
    held = "libegl-nvidia0 libgl1-nvidia-glvnd-glx nvidia-driver nvidia-kernel-dkms"
    assert debian.called("apt-mark")[-1] == f"hold {held}"
