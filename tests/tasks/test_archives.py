"""`invoke save` and `load`: images move between machines without a registry.

Pipes run for real, with a `docker` that is none on PATH; commands for another machine are recorded.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from puffertank import engine, runner, stack, transfer
from task_tools import CPU, LOCK, ROOT, run

RSYNC = ["rsync", "--partial", "--append-verify", "--times", "--progress", "-e", "ssh"]


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
