"""`invoke …`: the commands that each task runs, word by word, and when it refuses.

No engine, registry or other machine is used: commands are recorded, images made up. One group lets
the shell pipes run for real, with a `docker` of its own on PATH.
"""

import ast
import datetime as dt
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from puffertank import engine, release, runner, stack, transfer

import pufferlib
from pufferlib.commands import machine as machine_facts
from pufferlib.lock import lock_hash

# Part of the extra dev, which images do not have.
if os.environ.get("CI") == "true":
    import invoke
else:
    invoke = pytest.importorskip("invoke")

ROOT = Path(__file__).parents[1]
LOCK = lock_hash(ROOT)
VERSION = pufferlib.__version__
TASKS = (
    "build-stage1 build-stage2 build-stage3 build push pull save load run shell test lint docs "
    "bench demo doctor release clean"
)
CPU = ["puffertank/base:cpu", "puffertank/deps:cpu", "puffertank/tank:cpu"]
BAKE = ["docker", "buildx", "bake", "--file", "docker/bake.json", "--load"]
RSYNC = ["rsync", "--partial", "--append-verify", "--times", "--progress", "-e", "ssh"]


def load_tasks():
    """The module `tasks.py` as invoke loads it."""
    return invoke.loader.FilesystemLoader(start=str(ROOT)).load("tasks")[0]


class Machine:
    """Records commands instead of running them, and has the images that a test gives it."""

    def __init__(self):
        self.commands = []
        self.variables = {}
        self.asked = []
        self.answers = {}
        self.status = 0
        self.images = {}

    def execute(self, command, environment):
        self.commands.append(list(command))
        self.variables = dict(environment)
        return self.status

    def execute_pipe(self, first, second):
        self.commands.append([*first, "|", *second])
        return self.status

    def ask(self, command):
        self.asked.append(list(command))
        return next((text for part, text in self.answers.items() if part in " ".join(command)), "")

    def has(self, *names, lock=LOCK, **labels):
        labels = {"io.puffertank.lock-hash": lock, **labels}
        self.images |= {name: engine.Image(f"sha256:{len(name)}", labels) for name in names}


@pytest.fixture
def machine(monkeypatch):
    made = Machine()
    for name in ("execute", "execute_pipe", "ask"):
        monkeypatch.setattr(runner, name, getattr(made, name))
    monkeypatch.setattr(engine, "find_image", lambda name: made.images.get(name))
    monkeypatch.setattr(machine_facts, "has_nvidia_gpu", lambda: False)
    monkeypatch.setattr(stack, "revision", lambda: "abc")
    for name in ("PUFFER_REGISTRY", "PUFFER_TORCH_INDEX", "PUFFER_SSH", "ENVS"):
        monkeypatch.delenv(name, raising=False)
    return made


def run(*words):
    """`invoke WORDS` in this process."""
    program = invoke.Program(namespace=invoke.Collection.from_module(load_tasks()))
    program.run(["invoke", *words], exit=False)


# -- the list of tasks ----------------------------------------------------------------------------


def test_the_tasks_are_these():
    names = set(invoke.Collection.from_module(load_tasks()).task_names)
    assert names == set(TASKS.split())


def test_tasks_are_thin_and_documented():
    tree = ast.parse((ROOT / "tasks.py").read_text())
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    assert len(functions) == len(TASKS.split())
    for function in functions:
        assert ast.get_docstring(function), function.name
        body = function.body[1:]
        assert body[-1].end_lineno - body[0].lineno + 1 <= 10, function.name


def test_every_option_has_its_help():
    for name, task in invoke.Collection.from_module(load_tasks()).tasks.items():
        for argument in task.get_arguments():
            assert argument.help, f"{name} --{argument.name}"


def test_modules_are_small():
    for path in (ROOT / "docker" / "puffertank").glob("*.py"):
        text = path.read_text()
        assert len(text.splitlines()) <= 350
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef):
                assert node.end_lineno - node.lineno < 60, f"{path.name} {node.name}"


# -- building -------------------------------------------------------------------------------------


def test_stages_come_from_the_bake_file():
    assert stack.Stack("cpu").stages == ("base", "deps", "tank")
    assert stack.Stack("cpu").images == CPU
    assert stack.Stack("cuda").image("tank") == "puffertank/tank:cuda"


def test_stage3_on_a_fresh_clone_builds_all(machine, capsys):
    run("build-stage3")
    assert machine.commands == [[*BAKE, "base", "deps", "tank"]]
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
    ("task", "present", "words"),
    [
        ("build-stage1", [], ["base"]),
        ("build-stage1", CPU, ["base"]),
        ("build-stage2", [], ["base", "deps"]),
        (
            *("build-stage2", CPU[:1]),
            ["--set", "deps.contexts.parent=docker-image://puffertank/base:cpu", "deps"],
        ),
        (
            *("build-stage3", CPU[:1]),
            ["--set", "deps.contexts.parent=docker-image://puffertank/base:cpu", "deps", "tank"],
        ),
        (
            *("build-stage3", CPU),
            ["--set", "tank.contexts.parent=docker-image://puffertank/deps:cpu", "tank"],
        ),
        ("build-stage3", CPU[1:], ["base", "deps", "tank"]),
        ("build", CPU, ["base", "deps", "tank"]),
    ],
)
def test_only_missing_parents_are_built(machine, task, present, words):
    machine.has(*present)
    run(task, "--cpu")
    assert machine.commands == [[*BAKE, *words]]


def test_parents_of_another_lock_are_built_again(machine, capsys):
    machine.has(CPU[0])
    machine.has(*CPU[1:], lock="ffffffffffff")
    run("build-stage3", "--cpu")
    assert machine.commands[0][-2:] == ["deps", "tank"]
    assert f"is of lock ffffffffffff, this checkout has {LOCK}" in capsys.readouterr().out


def test_environments_decide_about_stage2(machine, capsys):
    machine.has(CPU[0])
    machine.has(*CPU[1:], **{"io.puffertank.envs": "nethack"})
    run("build-stage3", "--cpu", "--envs", "nethack")
    assert machine.commands[-1][-1:] == ["tank"]
    assert machine.variables["ENVS"] == "nethack"
    run("build-stage3", "--cpu", "--envs", "nethack,mpe")
    assert machine.commands[-1][-2:] == ["deps", "tank"]
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


# -- moving without a registry --------------------------------------------------------------------


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    """A repository root of our own, with this lock and these images."""
    shutil.copy(ROOT / "constraints.txt", tmp_path)
    (tmp_path / "docker").mkdir()
    shutil.copy(ROOT / "docker" / "bake.json", tmp_path / "docker")
    for module in (runner, stack, transfer):
        monkeypatch.setattr(module, "ROOT", tmp_path)
    return tmp_path


@pytest.fixture
def saved(machine, checkout, monkeypatch):
    """An archive of the CPU images, written through a real pipe by a `docker` that is none."""
    monkeypatch.undo()  # the fixtures' fakes: commands run from here on
    for module in (runner, stack, transfer):
        monkeypatch.setattr(module, "ROOT", checkout)
    monkeypatch.setattr(engine, "find_image", lambda name: machine.images.get(name))
    docker = checkout / "bin" / "docker"
    docker.parent.mkdir()
    docker.write_text(
        f"#!/bin/sh\n"
        f'echo "$@" >>{checkout}/calls\n'
        f"case $1 in save) seq 100000 ;; load) cat >{checkout}/loaded ;; esac\n"
    )
    docker.chmod(0o755)
    monkeypatch.setenv("PATH", f"{docker.parent}:/usr/bin:/bin")
    machine.has(*CPU)
    run("save", "--cpu")
    (archive,) = checkout.glob("dist/images/*.tar.*[tz]")
    return archive


def rewrite_manifest(archive, **changes):
    path = archive.with_name(archive.name + ".json")
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


class TestArchives:
    def test_round_trip(self, saved, checkout):
        assert re.fullmatch(rf"puffertank-cpu-{LOCK}-[0-9a-f]{{8}}\.tar\.(zst|gz)", saved.name)
        manifest = json.loads(saved.with_name(saved.name + ".json").read_text())
        assert manifest["lock"] == LOCK
        assert list(manifest["images"]) == CPU
        run("load", "--cpu")
        expected = "".join(f"{number}\n" for number in range(1, 100001))
        assert (checkout / "loaded").read_text() == expected
        assert saved.stat().st_size < len(expected) / 2
        assert (checkout / "calls").read_text().splitlines() == [f"save {' '.join(CPU)}", "load"]
        assert sorted(path.name for path in saved.parent.iterdir()) == [
            saved.name,
            f"{saved.name}.json",
        ]

    def test_the_same_images_are_saved_once(self, saved, checkout, capsys):
        run("save", "--cpu")
        assert "is there already" in capsys.readouterr().out
        assert (checkout / "calls").read_text().count("save") == 1

    def test_without_zstd_it_is_gzip(self, saved, checkout, monkeypatch):
        for path in saved.parent.iterdir():
            path.unlink()
        monkeypatch.setattr(shutil, "which", lambda name: None)
        run("save", "--cpu")
        (archive,) = checkout.glob("dist/images/*.tar.gz")
        run("load", "--archive", str(archive), "--cpu")
        assert (checkout / "loaded").read_text().endswith("\n100000\n")

    @pytest.mark.parametrize(
        ("spoil", "message"),
        [
            (lambda a: rewrite_manifest(a, lock="ffffffffffff"), "is of lock ffffffffffff"),
            (lambda a: a.write_bytes(a.read_bytes()[:-1]), "is not what was saved"),
            (lambda a: a.write_bytes(b"x" + a.read_bytes()[1:]), "or damaged"),
            (lambda a: a.with_name(a.name + ".json").unlink(), "does not exist"),
            (lambda a: rewrite_manifest(a, more=1), "is no manifest"),
        ],
    )
    def test_what_is_not_right_is_not_loaded(self, saved, checkout, spoil, message):
        spoil(saved)
        with pytest.raises(SystemExit, match=message):
            run("load", "--archive", str(saved), "--cpu")
        assert not (checkout / "loaded").exists()

    def test_images_of_another_lock_are_not_saved(self, saved, machine, checkout):
        machine.has(CPU[2], lock="ffffffffffff")
        with pytest.raises(SystemExit, match=f"tank:cpu was built from lock ffffffffffff.*{LOCK}"):
            run("save", "--cpu")
        machine.images.clear()
        with pytest.raises(SystemExit, match="no image puffertank/base:cpu; build it"):
            run("save", "--cpu")
        assert (checkout / "calls").read_text().count("save") == 1

    def test_a_docker_that_fails_fails_the_task(self, saved, checkout):
        for path in saved.parent.iterdir():
            path.unlink()
        (checkout / "bin" / "docker").write_text("#!/bin/sh\necho partial\nexit 9\n")
        with pytest.raises(SystemExit) as stopped:
            run("save", "--cpu")
        assert stopped.value.code == 9
        assert not list(saved.parent.glob("*.json")), "nothing that load would take"

    def test_the_loader_needs_nothing_but_python(self, saved, checkout):
        for name in ("pufferlib/__init__.py", "pufferlib/exceptions.py", "pufferlib/lock.py"):
            (checkout / name).parent.mkdir(exist_ok=True)
            shutil.copy(ROOT / name, checkout / name)
        shutil.copytree(ROOT / "docker" / "puffertank", checkout / "docker" / "puffertank")
        (checkout / "pyproject.toml").touch()
        name = f"dist/images/{saved.name}"
        command = [sys.executable, "-S", "-m", "puffertank.transfer", name]
        result = subprocess.run(
            command,
            cwd=checkout,
            env=os.environ | {"PYTHONPATH": "docker"},
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert result.returncode == 0, result.stderr
        assert (checkout / "loaded").read_text().endswith("\n100000\n")


class TestOverSsh:
    DIRECTORY = "/srv/my puffer"
    THERE = f"cd '{DIRECTORY}' && mkdir -p dist/images && python3 pufferlib/lock.py"

    def test_save_to(self, machine, checkout):
        machine.has(*CPU)
        machine.answers = {"lock.py": LOCK}
        archive = transfer.save(stack.Stack("cpu", run=runner.Runner(dry_run=True)))
        machine.commands.clear()
        transfer.send(archive, LOCK, f"me@box:{self.DIRECTORY}", runner.Runner())
        assert machine.asked == [["ssh", "me@box", self.THERE]]
        name = f"dist/images/{archive.name}"
        target = f"me@box:{self.DIRECTORY}/dist/images/"
        assert machine.commands == [
            [*RSYNC, name, target],
            ["rsync", "--times", "-e", "ssh", f"{name}.json", target],
            [
                *("ssh", "me@box"),
                f"cd '{self.DIRECTORY}' && PYTHONPATH=docker python3 -m puffertank.transfer {name}",
            ],
        ]

    def test_nothing_is_sent_to_another_lock(self, machine, checkout, monkeypatch):
        monkeypatch.setenv("PUFFER_SSH", "ssh -p 2222")
        machine.answers = {"lock.py": "ffffffffffff"}
        with pytest.raises(SystemExit, match=f"has lock ffffffffffff, this one {LOCK}"):
            transfer.send(Path("a.tar.zst"), LOCK, "box:puffer", runner.Runner())
        with pytest.raises(SystemExit, match=f"has lock ffffffffffff, this one {LOCK}"):
            run("load", "--cpu", "--from", "box:puffer")
        assert machine.commands == []
        assert machine.asked[0][:4] == ["ssh", "-p", "2222", "box"]

    def test_load_from(self, machine, checkout, monkeypatch):
        newest = f"puffer/dist/images/puffertank-cpu-{LOCK}-01234567.tar.zst"
        machine.answers = {"lock.py": LOCK, "ls -t": f"{newest}.json"}
        loaded = []
        monkeypatch.setattr(transfer, "load", lambda archive, run: loaded.append(archive))
        run("load", "--cpu", "--from", "box:puffer")
        assert machine.asked[1][2] == (
            f"ls -t puffer/dist/images/puffertank-cpu-{LOCK}-*.json | head -n 1"
        )
        assert machine.commands == [
            ["mkdir", "-p", "dist/images"],
            [*RSYNC, f"box:{newest}", "dist/images/"],
            ["rsync", "--times", "-e", "ssh", f"box:{newest}.json", "dist/images/"],
        ]
        assert loaded == [checkout / "dist" / "images" / Path(newest).name]

    def test_nothing_to_fetch(self, machine, checkout):
        machine.answers = {"lock.py": LOCK}
        with pytest.raises(SystemExit, match=f"box:puffer has no archive of lock {LOCK}"):
            run("load", "--cpu", "--from", "box:puffer")
        with pytest.raises(SystemExit, match="dist/images has no archive of the cpu images"):
            run("load", "--cpu")
        with pytest.raises(SystemExit, match="expected HOST:DIRECTORY of a checkout, got 'box'"):
            run("load", "--cpu", "--from", "box")


# -- the others -----------------------------------------------------------------------------------

TANK = ["docker/run-tank.sh", "--no-gpu", "--image", "puffertank/tank:cpu", "--"]


@pytest.mark.parametrize(
    ("words", "commands"),
    [
        (["run", "puffer train 'a b'", "--cpu"], [[*TANK, "puffer", "train", "a b"]]),
        (["shell", "--cpu"], [[*TANK, "bash", "-l"]]),
        (
            ["shell", "--cuda"],
            [["docker/run-tank.sh", "--image", "puffertank/tank:cuda", "--", "bash", "-l"]],
        ),
        (["test"], [["pytest"]]),
        (["test", "--image", "--cpu"], [[*TANK, "pytest", "-m", "smoke"]]),
        (["lint"], [["pre-commit", "run", "--all-files"]]),
        (["docs"], [["mkdocs", "build", "--strict", "--config-file", "docs/mkdocs.yml"]]),
        (["docs", "--serve"], [["mkdocs", "serve", "--config-file", "docs/mkdocs.yml"]]),
        (["bench"], [["python", "benchmarks/vector.py"], ["python", "benchmarks/emulation.py"]]),
        (
            ["demo", "--env", "cartpole"],
            [
                ["puffer", "train", "cartpole"],
                ["puffer", "eval", "cartpole", "--checkpoint", "latest", "--render"],
            ],
        ),
        (["doctor"], [["puffer", "doctor"]]),
    ],
)
def test_other_commands(machine, words, commands):
    machine.has("puffertank/tank:cpu", "puffertank/tank:cuda")
    run(*words)
    assert machine.commands == commands


def test_files_that_tasks_name_are_there():
    named = ("docker/run-tank.sh", "docker/bake.json", "docs/mkdocs.yml", "benchmarks/vector.py")
    for name in (*named, "benchmarks/emulation.py", ".github/workflows/publish.yml"):
        assert (ROOT / name).is_file(), name


def test_run_builds_what_is_missing(machine):
    run("run", "puffer envs", "--cpu")
    assert machine.commands == [[*BAKE, "base", "deps", "tank"], [*TANK, "puffer", "envs"]]


def test_clean_keeps_runs_and_sources(machine):
    machine.has(*CPU)
    run("clean", "--cpu", "--images")
    removed, images = machine.commands
    assert removed[:5] == ["rm", "-rf", "build", "dist", "docs/site"]
    assert not set(removed) & {"runs", "pufferlib", ".venv", ".git"}
    assert images == ["docker", "image", "rm", *reversed(CPU)]


# -- releases -------------------------------------------------------------------------------------

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
        [*BAKE, "base", "deps", "tank"],
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


def test_the_publishing_workflow_follows_the_release(requires):
    requires("yaml")
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


# -- reading the engine ---------------------------------------------------------------------------


def test_an_engine_that_does_not_answer(monkeypatch, tmp_path):
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/none.sock")
    with pytest.raises(engine.NoEngineError, match="is Docker running"):
        engine.find_image("puffertank/base:cpu")


def test_the_engine_is_that_of_the_docker_command(monkeypatch, tmp_path):
    monkeypatch.delenv("DOCKER_HOST", raising=False)
    docker = tmp_path / "docker"
    docker.write_text('#!/bin/sh\n[ "$1 $2" = "context inspect" ] && echo unix:///other.sock\n')
    docker.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    assert engine._engine_address() == "unix:///other.sock"
    monkeypatch.setenv("DOCKER_HOST", "tcp://elsewhere")
    assert engine._engine_address() == "tcp://elsewhere"


def test_without_the_sdk_the_message_says_so(monkeypatch):
    class Folder:
        """What `import docker` finds in the repository: the folder of that name."""

    monkeypatch.setitem(sys.modules, "docker", Folder)
    with pytest.raises(engine.NoEngineError, match="Docker SDK for Python is not installed"):
        engine.find_image("x")


def test_missing_commands_are_named(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SystemExit, match="pre-commit is not installed"):
        runner.Runner()("pre-commit")
