"""`puffer doctor`: what it finds, what it says about it, and what it compares.

Machines here are made up, with the texts that real drivers print; one test looks at this one.
"""

import dataclasses
import json
import os
import subprocess
import sys
from types import SimpleNamespace

import pytest
import torch

from pufferlib import __version__, lock, native
from pufferlib.cli import main
from pufferlib.commands import checks, doctor, machine
from pufferlib.commands.machine import Gpu, Machine, Torch

H200 = Gpu("NVIDIA H200", "580.95.05", "9.0")
MISMATCH = "Failed to initialize NVML: Driver/library version mismatch NVML library version: 580.95"
UNKNOWN = "Failed to initialize NVML: Unknown Error"
NOT_LOADED = (
    "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure that "
    "the latest NVIDIA driver is installed and running."
)

HEALTHY = Machine(
    python="3.11.2",
    library="/home/me/pufferlib/pufferlib",
    torch=Torch("2.13.0", cuda="13.0"),
    gpu_present=True,
    gpus=(H200,),
    gpu_error=None,
    in_container=False,
    docker=True,
    toolkit="NVIDIA Container Toolkit CLI version 1.18.0",
    shm_bytes=2 * 2**30,
    nofile=1048576,
    cores=16,
    quota=None,
    memory_bytes=128 * 2**30,
    disk_free_bytes=64 * 2**30,
    environments={
        "ocean": ("installed", ()),
        "nethack": ("missing", ("puffer install nethack",)),
        "microrts": ("missing", ("puffer install microrts", "apt-get install java")),
        "deepmind_lab": ("impossible", ("a Bazel build",)),
        "pokemon_red": ("installed", ("export ROM=FILE",)),
    },
    native="fresh",
    lock="0123456789ab",
    differing={},
    image={},
)
IMAGE = {"version": "0.1.0", "revision": "abc", "lock": "0123456789ab", "id": "sha256:12"}
NO_GPU = {"gpu_present": False, "gpus": ()}
CPU = Torch("2.13.0+cpu")

# What is wrong; the line that says so; its status; words of what was found and of the remedy.
FAULTS = {
    "old Python": ({"python": "3.10.12"}, "Python", "failed", "3.10.12", "3.11 or newer"),
    "no torch": (
        {"torch": Torch(None, error="ModuleNotFoundError: No module named 'torch'")},
        *("torch", "failed", "No module named 'torch'", "pip install -c constraints.txt torch"),
    ),
    "CPU torch on a GPU machine": (
        {"torch": CPU},
        *("CUDA", "warning", "torch is the CPU variant", "invoke build-stage3 --cuda"),
    ),
    "CUDA fails": (
        {"torch": Torch("2.13.0", "13.0", "no kernel image is available")},
        *("CUDA", "failed", "no kernel image is available", "lines of the driver"),
    ),
    "old driver": (
        {"gpus": (dataclasses.replace(H200, driver="535.261.03"),)},
        *("NVIDIA driver", "failed", "535.261.03, but torch for CUDA 13.0 needs 580"),
        "upgrade the host's driver to 580",
    ),
    "old driver, CPU torch": (
        {"gpus": (dataclasses.replace(H200, driver="535.261.03"),), "torch": CPU},
        *("NVIDIA driver", "warning", "needs 580", "use the CPU variant"),
    ),
    "driver upgraded": (
        {"gpus": (), "gpu_error": MISMATCH},
        *("NVIDIA driver", "failed", "Driver/library version mismatch", "reboot the host"),
    ),
    "lost GPU": (
        {"gpus": (), "gpu_error": UNKNOWN, "in_container": True},
        *("NVIDIA driver", "failed", "Unknown Error", "restart the container"),
    ),
    "module not loaded": (
        {"gpus": (), "gpu_error": NOT_LOADED},
        *("NVIDIA driver", "failed", "couldn't communicate", "mokutil --sb-state"),
    ),
    "another driver error": (
        {"gpus": (), "gpu_error": "Segmentation fault"},
        *("NVIDIA driver", "failed", "Segmentation fault", "work on the host first"),
    ),
    "GPU without driver": (
        {"gpus": ()},
        *("NVIDIA driver", "failed", "no nvidia-smi lists it", "install the driver, 580"),
    ),
    "container without its GPU": (
        {"gpus": (), "in_container": True},
        *("NVIDIA driver", "failed", "no nvidia-smi", "--gpus all"),
    ),
    "Pascal": (
        {"gpus": (H200, Gpu("GTX 1080", "580.95.05", "6.1"))},
        *("GPU", "failed", "GTX 1080 (compute capability 6.1)", "7.5 (Turing) or newer"),
    ),
    "no toolkit": (
        {"toolkit": None},
        *("container toolkit", "warning", "no nvidia-ctk", "install nvidia-container-toolkit"),
    ),
    "Docker's default shm": (
        {"shm_bytes": 64 * 2**20, "in_container": True},
        *("shared memory", "failed", "64 MiB at /dev/shm, expected 256 MiB", "--shm-size=2g"),
    ),
    "small shm on the host": (
        {"shm_bytes": 64 * 2**20},
        *("shared memory", "failed", "64 MiB", "mount -o remount,size=2g /dev/shm"),
    ),
    "few files": ({"nofile": 256}, "open files", "warning", "256", "ulimit -n 1024"),
    "little memory": (
        {"memory_bytes": 2**30, "quota": 1.5},
        *("cores and memory", "warning", "1.5 of 16 cores, 1.0 GiB", "--memory"),
    ),
    "little disk": ({"disk_free_bytes": 2**30}, "disk", "warning", "1.0 GiB", "system prune"),
    "full disk": ({"disk_free_bytes": 2**20}, "disk", "failed", "1 MiB", "system prune"),
    "stale core": (
        {"native": "stale"},
        *("native core", "failed", "older than its sources", "pip install --no-deps -e ."),
    ),
    "stale core in an image": (
        {"native": "stale", "image": IMAGE, "in_container": True},
        *("native core", "failed", "older than its sources", "tank install"),
    ),
    "no core": ({"native": "missing"}, "native core", "warning", "NumPy", "g++"),
    "no lock": ({"lock": None}, "lock", "failed", "no constraints.txt", "source tree"),
    "other versions": (
        {"differing": dict.fromkeys(("a", "b", "c", "d", "e"), ("1", "2"))},
        *("lock", "warning", "c 1 instead of 2 and 2 more", "pip install -c constraints.txt"),
    ),
    "image of another lock": (
        {"image": {**IMAGE, "lock": "fedcba987654"}, "in_container": True},
        *("image", "failed", "fedcba987654", "invoke build-stage3"),
    ),
}


def judge(**changes):
    return {line.name: line for line in checks.run_checks(dataclasses.replace(HEALTHY, **changes))}


@pytest.mark.parametrize("fault", FAULTS)
def test_each_fault_has_its_line_and_remedy(fault):
    changes, name, status, found, remedy = FAULTS[fault]
    lines = judge(**changes)
    assert lines[name].status == status
    assert found in lines[name].found
    assert remedy in lines[name].remedy
    bad = {other for other, line in lines.items() if line.status != "ok"} - {name}
    assert bad <= {"CUDA"}, "one fault, one line; what torch sees of it may be a second"


@pytest.mark.parametrize(
    "changes",
    [
        {},
        NO_GPU,
        {**NO_GPU, "torch": CPU, "toolkit": None},
        {**NO_GPU, "torch": CPU, "docker": False, "shm_bytes": None},
        {"in_container": True, "image": IMAGE, "toolkit": None, "docker": False},
        {"in_container": True, "image": {**IMAGE, "lock": "unknown"}},
        {"in_container": True},
        {"in_container": True, "gpus": (), "torch": CPU},
        {"nofile": sys.maxsize},
        {"gpus": (dataclasses.replace(H200, driver="581.15", capability="7.5"),)},
        {"python": "3.14.0"},
    ],
)
def test_healthy_machines_are_left_alone(changes):
    assert {line.name for line in judge(**changes).values() if line.status != "ok"} == set()


def test_every_line_that_is_not_ok_has_a_remedy():
    for changes, *_ in FAULTS.values():
        for line in judge(**changes).values():
            assert bool(line.remedy) == (line.status != "ok"), line


def test_the_library_says_which_it_is():
    assert judge()["pufferlib"].found == f"{__version__} in /home/me/pufferlib/pufferlib"


def test_every_family_that_is_not_there_has_what_brings_it():
    line = checks.check_environments(HEALTHY)
    assert line.found.splitlines() == [
        "ocean, pokemon_red",
        "nethack: puffer install nethack",
        "microrts: puffer install microrts; apt-get install java",
        "deepmind_lab: cannot be installed here, a Bazel build",
        "pokemon_red: export ROM=FILE",
    ]


def test_minimums_are_those_of_the_lock(monkeypatch):
    monkeypatch.setattr(lock, "MIN_DRIVER", 590)
    monkeypatch.setattr(lock, "MIN_COMPUTE_CAPABILITY", (10, 0))
    lines = judge()
    assert "needs 590" in lines["NVIDIA driver"].found
    assert "10.0" in lines["GPU"].remedy


class TestNvidiaSmi:
    """Probes against an nvidia-smi of our own on PATH."""

    @pytest.fixture
    def fake(self, tmp_path, monkeypatch):
        def write(script):
            path = tmp_path / "nvidia-smi"
            path.write_text(f"#!/bin/sh\n{script}\n")
            path.chmod(0o755)
            monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")

        return write

    def test_two_gpus(self, fake, tmp_path):
        fake(
            f'echo "$@" >{tmp_path}/asked; echo "NVIDIA H200, 580.95.05, 9.0"; echo "A, B, 1, 8.0"'
        )
        gpus, error = machine.nvidia_gpus()
        assert gpus == (H200, Gpu("A, B", "1", "8.0"))
        assert error is None
        asked = (tmp_path / "asked").read_text().split()
        assert asked == ["--query-gpu=name,driver_version,compute_cap", "--format=csv,noheader"]

    @pytest.mark.parametrize(
        ("text", "remedy"),
        [(MISMATCH, "reboot"), (UNKNOWN, "restart the container"), (NOT_LOADED, "dkms status")],
    )
    def test_messages_of_the_driver(self, fake, text, remedy):
        fake(f'echo "{text}"; exit 18')
        gpus, error = machine.nvidia_gpus()
        assert (gpus, error) == ((), text)
        broken = dataclasses.replace(HEALTHY, gpus=gpus, gpu_error=error)
        assert remedy in checks.check_driver(broken).remedy

    def test_a_driver_that_is_too_old_fails_the_whole_command(self, fake, monkeypatch, capsys):
        fake('echo "NVIDIA T4, 535.261.03, 7.5"')
        monkeypatch.setattr(machine, "installed_torch", lambda: Torch("2.13.0", "13.0"))
        here = main(["doctor", "--json"])
        content = json.loads(capsys.readouterr().out)
        (line,) = [line for line in content["lines"] if line["name"] == "NVIDIA driver"]
        assert line["status"] == "failed"
        assert "535.261.03" in line["found"]
        assert "580" in line["found"]
        assert here == content["failed"] >= 1

    def test_none(self, monkeypatch, tmp_path):
        monkeypatch.setenv("PATH", str(tmp_path))
        assert machine.nvidia_gpus() == ((), None)


class TestProbes:
    @pytest.mark.parametrize("name", machine.GPU_FILES)
    def test_gpu_files(self, tmp_path, name):
        assert not machine.has_nvidia_gpu(tmp_path)
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).touch()
        assert machine.has_nvidia_gpu(tmp_path)

    def test_torch_that_cannot_be_imported(self):
        found = machine.installed_torch("raise ImportError('libcudart.so.13: cannot open')")
        assert found == Torch(None, error="ImportError: libcudart.so.13: cannot open")
        assert machine.installed_torch("import os; os.abort()") == Torch(None, error="it crashed")

    def test_shm(self, tmp_path, monkeypatch):
        monkeypatch.setattr(
            os, "statvfs", lambda path: SimpleNamespace(f_frsize=4096, f_blocks=16384)
        )
        assert machine.shm_bytes(tmp_path) == 64 * 2**20
        assert machine.shm_bytes(tmp_path / "none") is None

    @pytest.mark.parametrize(
        ("file", "text", "expected"),
        [
            ("memory.max", "1073741824\n", 2**30),
            ("memory.max", "max\n", None),
            ("memory/memory.limit_in_bytes", "536870912\n", 2**29),
            ("memory/memory.limit_in_bytes", "9223372036854771712\n", None),
            ("none", "", None),
        ],
    )
    def test_memory_limit(self, tmp_path, file, text, expected):
        (tmp_path / file).parent.mkdir(exist_ok=True)
        (tmp_path / file).write_text(text)
        total = machine.memory_bytes(tmp_path / "nothing")
        assert total > 2**30
        assert machine.memory_bytes(tmp_path) == (expected or total)

    def test_packages_that_differ_from_the_lock(self, tmp_path):
        installed = machine.installed_packages()
        pins = {**installed, "torch": installed["torch"].partition("+")[0], "numpy": "0.1"}
        text = "".join(f"{name}=={version}\n" for name, version in pins.items())
        (tmp_path / lock.LOCK).write_text(text.replace("gymnasium", "Gymnasium") + "unheard==1\n")
        assert machine.differing_packages(tmp_path) == {"numpy": (installed["numpy"], "0.1")}

    def test_image_variables(self):
        variables = {"PUFFERTANK_VERSION": "1", "PUFFERTANK_IMAGE_ID": "sha256:1", "OTHER": "x"}
        assert machine.image_labels(variables) == {"version": "1", "id": "sha256:1"}

    def test_native_core_states(self, monkeypatch):
        hashed = native._hash_sources(native.Path(native.__file__).parent, ["module.cpp"])
        for core, expected in (
            (None, "missing"),
            (SimpleNamespace(SOURCES="module.cpp", SOURCE_HASH=hashed), "fresh"),
            (SimpleNamespace(SOURCES="module.cpp", SOURCE_HASH="0" * 64), "stale"),
            (SimpleNamespace(SOURCES="not-here.cpp", SOURCE_HASH="0" * 64), "fresh"),
        ):
            monkeypatch.setattr(native, "_core", core)
            assert machine.native_state() == expected


# -- the command ----------------------------------------------------------------------------------


@pytest.fixture
def made_up(monkeypatch):
    """A function that puts a machine in the place of this one."""

    def put(**changes):
        monkeypatch.setattr(machine, "inspect", lambda: dataclasses.replace(HEALTHY, **changes))

    return put


def test_status_counts_failures_but_no_warnings(made_up, capsys):
    made_up()
    assert main(["doctor"]) == 0
    assert "Everything fits." in capsys.readouterr().out
    made_up(shm_bytes=2**26, native="stale", nofile=100, disk_free_bytes=0)
    assert main(["doctor"]) == 3
    text = " ".join(capsys.readouterr().out.split())
    assert "3 failed, 1 with a warning." in text
    assert "→ rebuild it in the repository" in text


def test_status_is_capped(made_up, monkeypatch):
    made_up()
    line = checks.Line("x", "failed", "y", "z")
    monkeypatch.setattr(doctor, "run_checks", lambda machine: [line] * 300)
    assert main(["doctor", "--json"]) == 100


def test_network_is_used_only_when_asked(made_up, monkeypatch, capsys):
    made_up()
    asked = []

    def pip(command):
        asked.append(command)
        return "torch (2.99.0)\nAvailable versions: 2.99.0\n" if command[-1] == "torch" else ""

    monkeypatch.setattr(doctor, "_pip_output", pip)
    assert main(["doctor", "--json"]) == 0
    assert asked == []
    capsys.readouterr()
    assert main(["doctor", "--json", "--online"]) == 0
    assert [command[1:] for command in asked] == [
        ["-m", "pip", "index", "versions", name] for name in doctor.ONLINE
    ]
    lines = {line["name"]: line for line in json.loads(capsys.readouterr().out)["lines"]}
    assert lines["newest torch"]["found"] == f"2.99.0 (the lock has {lock.TORCH})"
    assert lines["newest numpy"]["status"] == "warning"


@pytest.fixture
def reports(made_up, monkeypatch, capsys, tmp_path):
    """A function that writes the report of a machine with these packages, and returns its path."""

    def write(name, packages, **changes):
        made_up(**changes)
        monkeypatch.setattr(machine, "installed_packages", lambda: packages)
        main(["doctor", "--json"])
        path = tmp_path / name
        path.write_text(capsys.readouterr().out)
        return str(path)

    return write


def test_compare_identical(reports, capsys):
    packages = {"numpy": "2.4.6", "torch": "2.13.0"}
    first = reports("a.json", packages)
    second = reports("b.json", packages, cores=64, gpus=(H200, H200))
    assert main(["doctor", "--compare", first, second]) == 0
    text = capsys.readouterr().out
    assert "Identical stacks: lock 0123456789ab, torch 2.13.0, 2 packages" in text
    assert "cores" in text, "hardware is shown, but is no part of the stack"


@pytest.mark.parametrize(
    ("changes", "packages", "expected"),
    [
        ({}, {"numpy": "2.4.5"}, "packages: numpy"),
        ({}, {}, "packages: numpy"),
        ({}, {"numpy": "2.4.6", "extra": "1"}, "packages: extra"),
        ({"torch": CPU}, {"numpy": "2.4.6"}, "torch's CUDA"),
        ({"lock": "ffffffffffff"}, {"numpy": "2.4.6"}, "lock"),
        ({"python": "3.12.1"}, {"numpy": "2.4.6"}, "python"),
        ({"native": "missing"}, {"numpy": "2.4.6"}, "native core"),
        ({"image": IMAGE}, {"numpy": "2.4.6"}, "image: id"),
    ],
)
def test_compare_different(reports, capsys, changes, packages, expected):
    first = reports("a.json", {"numpy": "2.4.6"})
    second = reports("b.json", packages, **changes)
    assert main(["doctor", "--compare", first, second]) == 1
    text = capsys.readouterr().out
    assert expected in text
    assert "Not the same stack" in text


def test_compare_names_what_it_cannot_read(tmp_path, capsys, reports):
    good = reports("good.json", {})
    (tmp_path / "text").write_text("{")
    (tmp_path / "other.json").write_text("{}")
    for name, message in (
        ("none", "No such file"),
        ("text", "expected JSON"),
        ("other.json", "expected the output of puffer doctor --json"),
    ):
        assert main(["doctor", "--compare", good, str(tmp_path / name)]) == 2
        assert message in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.smoke
def test_this_machine_for_real(tmp_path):
    command = [sys.executable, "-m", "pufferlib", "doctor", "--json"]
    result = subprocess.run(command, capture_output=True, text=True, timeout=120)
    content = json.loads(result.stdout)
    assert result.returncode == content["failed"]
    assert result.stderr == ""
    lines = {line["name"]: line["status"] for line in content["lines"]}
    assert len(lines) == len(checks.CHECKS)
    for name in ("Python", "torch", "native core", "lock"):
        assert lines[name] in ("ok", "warning"), content
    stack = content["stack"]
    assert stack["lock"] == lock.lock_hash(lock.find_root())
    assert stack["packages"]["numpy"]
    assert (stack["torch"], stack["torch's CUDA"]) == (torch.__version__, torch.version.cuda)
    path = tmp_path / "here.json"
    path.write_text(result.stdout)
    assert main(["doctor", "--compare", str(path), str(path)]) == 0
