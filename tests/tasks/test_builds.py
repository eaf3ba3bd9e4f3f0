"""`invoke build…`, `push` and `pull`: the commands they run, word by word, and when they refuse."""

import pytest
from puffertank import engine, stack
from task_tools import BAKE, BUILDS, CPU, LOCK, ROOT, VERSION, run

from pufferlib.commands import machine as machine_facts

BASE, DEPS, TANK = BUILDS


def test_stages_come_from_the_bake_file():
    assert stack.Stack("cpu").stages == ("base", "deps", "tank")
    assert stack.Stack("cpu").images == CPU
    assert stack.Stack("cuda").image("tank") == "puffertank/tank:cuda"


def test_stage3_on_a_fresh_clone_builds_all(machine, capsys):
    run("build-stage3")
    assert machine.commands == [BASE, DEPS, TANK]
    expected = {
        "TORCH_VARIANT": "cpu",
        "VERSION": VERSION,
        "REVISION": "abc",
        "LOCK_HASH": LOCK,
    }
    assert expected.items() <= machine.variables.items()
    assert not {"ENVS", "TORCH_INDEX"} & machine.variables.keys()
    text = capsys.readouterr().out
    assert "no NVIDIA GPU: CPU images (--cuda for the others)" in text
    assert "puffertank/base:cpu is missing: building it first" in text
    assert f"LOCK_HASH={LOCK} docker buildx bake --file" in text, "as it could be typed"


@pytest.mark.parametrize(
    ("task", "present", "commands"),
    [
        ("build-stage1", [], [BASE]),
        ("build-stage1", CPU, [BASE]),
        ("build-stage2", [], [BASE, DEPS]),
        ("build-stage2", CPU[:1], [DEPS]),
        ("build-stage3", CPU[:1], [DEPS, TANK]),
        ("build-stage3", CPU, [TANK]),
        ("build-stage3", CPU[1:], [BASE, DEPS, TANK]),
        ("build", CPU, [BASE, DEPS, TANK]),
    ],
)
def test_only_missing_parents_are_built(machine, task, present, commands):
    machine.has(*present)
    run(task, "--cpu")
    assert machine.commands == commands


def test_parents_of_another_lock_are_built_again(machine, capsys):
    machine.has(CPU[0])
    machine.has(*CPU[1:], lock="ffffffffffff")
    run("build-stage3", "--cpu")
    assert machine.commands == [DEPS, TANK]
    assert f"is of lock ffffffffffff, this checkout has {LOCK}" in capsys.readouterr().out


def test_environments_decide_about_stage2(machine, capsys):
    machine.has(CPU[0])
    machine.has(*CPU[1:], **{"io.puffertank.envs": "nethack"})
    run("build-stage3", "--cpu", "--envs", "nethack")
    assert machine.commands == [TANK]
    assert machine.variables["ENVS"] == "nethack"
    run("build-stage3", "--cpu", "--envs", "nethack,mpe")
    assert machine.commands == [TANK, DEPS, TANK]
    assert "is for ENVS=nethack, not nethack,mpe" in capsys.readouterr().out


def test_variants(machine, monkeypatch, capsys):
    monkeypatch.setattr(machine_facts, "has_nvidia_gpu", lambda: True)
    monkeypatch.setenv("PUFFER_TORCH_INDEX", "file:///torch")
    run("build-stage1")
    assert machine.variables["TORCH_VARIANT"] == "cuda"
    assert machine.variables["TORCH_INDEX"] == "file:///torch"
    assert "an NVIDIA GPU: CUDA images (--cpu for the others)" in capsys.readouterr().out
    run("build-stage1", "--cpu")
    assert machine.variables["TORCH_VARIANT"] == "cpu"
    assert "NVIDIA" not in capsys.readouterr().out
    with pytest.raises(SystemExit, match="--cpu and --cuda exclude each other"):
        run("build-stage1", "--cpu", "--cuda")


def test_settings_reach_bake(machine):
    run("build-stage1", "--cpu", "--set", "base.args.CUDA_TOOLKIT=1", "--set", "*.no-cache=true")
    settings = ["--set", "base.args.CUDA_TOOLKIT=1", "--set", "*.no-cache=true"]
    assert machine.commands == [[*BAKE, *settings, "base"]]


def test_a_failing_command_ends_the_task_with_its_status(machine):
    machine.status = 17
    with pytest.raises(SystemExit) as stopped:
        run("push", "--cpu", "--registry", "host")
    assert stopped.value.code == 17
    assert len(machine.commands) == 1


@pytest.mark.parametrize(
    "words",
    [
        ("build-stage3",),
        ("push", "--registry", "host"),
        ("pull", "--registry", "host"),
        ("save",),
        ("run", "puffer envs"),
        ("test", "--image"),
        ("clean", "--images"),
        ("demo",),
    ],
)
def test_dry_runs_change_nothing(machine, monkeypatch, capsys, words):
    def no_engine(name):
        raise engine.NoEngineError("error: no container engine answers")

    monkeypatch.setattr(engine, "find_image", no_engine)
    before = sorted(ROOT.glob("dist/images/*"))
    run(*words, "--dry-run")
    assert machine.commands == []
    assert "$ " in capsys.readouterr().out
    assert sorted(ROOT.glob("dist/images/*")) == before


# -- registries -----------------------------------------------------------------------------------


def test_push(machine, monkeypatch):
    monkeypatch.setenv("PUFFER_REGISTRY", "host:5000/lab/")
    run("push", "--cpu")
    assert machine.commands == [
        ["docker", verb, *arguments]
        for name in CPU
        for verb, *arguments in (
            ("tag", name, f"host:5000/lab/{name}"),
            ("push", f"host:5000/lab/{name}"),
        )
    ]


def test_push_of_a_release_has_the_version_too(machine):
    run("push", "--cuda", "--registry", "host", "--release")
    pushed = [command[2] for command in machine.commands if command[1] == "push"]
    assert pushed[-2:] == ["host/puffertank/tank:cuda", f"host/puffertank/tank:{VERSION}-cuda"]
    assert len(pushed) == 6


def test_pull_gives_local_names(machine):
    machine.has(*(f"host/{name}" for name in CPU))
    run("pull", "--cpu", "--registry", "host")
    assert machine.commands[-2:] == [
        ["docker", "pull", "host/puffertank/tank:cpu"],
        ["docker", "tag", "host/puffertank/tank:cpu", "puffertank/tank:cpu"],
    ]
    machine.has("host/puffertank/base:1.2.3-cpu", lock="ffffffffffff")
    with pytest.raises(SystemExit, match=f"lock ffffffffffff, this checkout has {LOCK}"):
        run("pull", "--cpu", "--registry", "host", "--tag", "1.2.3-cpu")
    assert machine.commands[-1] == ["docker", "pull", "host/puffertank/base:1.2.3-cpu"]


@pytest.mark.parametrize("task", ["push", "pull"])
def test_no_registry_is_assumed(machine, task):
    with pytest.raises(SystemExit, match="expected --registry"):
        run(task, "--cpu")
    assert machine.commands == []
