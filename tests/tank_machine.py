"""A machine for the tests of `tank`: its files in a directory, its engine and programs fakes."""

import contextlib
import io
import json
import os
import pwd
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

import fake_docker
import pytest
from tank import audit, cli, containers, engine, gpus, network, store, tailnet, users
from tank.errors import TankError

IMAGE = "puffertank/tank:cpu"
LABELS = {"io.puffertank.lock-hash": "0123", "org.opencontainers.image.version": "0.1.0"}
PUFFERTANK = {"Env": ["PATH=/opt/venv/bin:/usr/bin"], "Labels": LABELS}
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIFKxg4uhYVAvYbqcCHsH5o0TfAfVCWuZKQS9nCSCPUHk ada@home\n"


@dataclass
class Machine:
    """What the tests look at: docker's state, the accounts, the events."""

    directory: Path
    accounts: dict
    events: list

    @property
    def docker(self):
        return json.loads((self.directory / "docker.json").read_text())

    def change_docker(self, **values):
        (self.directory / "docker.json").write_text(json.dumps({**self.docker, **values}))

    def tank(self, *words, user=None):
        """Run the command line; what it refuses is raised."""
        return cli.run(cli.parse(list(words), user))

    def add(self, name, *flags):
        key = self.directory / "key.pub"
        key.write_text(KEY)
        return self.tank("user", "add", name, "--key", str(key), *flags)

    def created(self):
        """The words after `docker create` of each container made so far."""
        return [words[1:] for words in self.docker["log"] if words[0] == "create"]

    def statuses(self):
        return {name: each["running"] for name, each in self.docker["containers"].items()}


def _account_programs(machine):
    """useradd, usermod, userdel, pkill and ip, as functions."""

    def useradd(*words):
        name = words[-1]
        home = machine.directory / "home" / name
        home.mkdir(parents=True)
        machine.accounts[name] = SimpleNamespace(
            pw_name=name, pw_uid=1000 + len(machine.accounts), pw_gid=os.getgid(), pw_dir=str(home)
        )

    def userdel(flag, name):
        shutil.rmtree(machine.accounts.pop(name).pw_dir)

    def run(program, *words):
        machine.events.append((program, *words))
        others = dict.fromkeys(("usermod", "gpasswd"), lambda *_: None)
        {"useradd": useradd, "userdel": userdel, **others}[program](*words)

    return run


def run_docker(words, **options):
    """`subprocess.run` for the fake engine, without a process of its own for each call."""
    output, errors, status = io.StringIO(), io.StringIO(), 0
    with contextlib.redirect_stdout(output), contextlib.redirect_stderr(errors):
        try:
            assert words[0] == "docker"
            fake_docker.main(words[1:])
        except SystemExit as error:
            status = error.code
    return subprocess.CompletedProcess(words, status, output.getvalue(), errors.getvalue())


class Engine:
    """What `tank.engine` uses of the module `subprocess`."""

    PIPE, STDOUT, DEVNULL = subprocess.PIPE, subprocess.STDOUT, subprocess.DEVNULL
    TimeoutExpired = subprocess.TimeoutExpired
    run = staticmethod(run_docker)


@pytest.fixture
def site(tmp_path, monkeypatch):
    """A machine with the image, without users."""
    made = Machine(tmp_path, {}, [])
    state = {"images": {IMAGE: PUFFERTANK}, "containers": {}, "networks": [], "log": [],
             "down": False, "broken": []}  # fmt: skip
    (tmp_path / "docker.json").write_text(json.dumps(state))
    monkeypatch.setattr(fake_docker, "FILE", tmp_path / "docker.json")
    monkeypatch.setattr(engine, "subprocess", Engine)
    monkeypatch.setattr(users, "_end_processes", lambda name: None)
    monkeypatch.setattr(network, "detach", lambda name: None)
    monkeypatch.setattr(tailnet, "end_sessions", lambda name: made.events.append(("end", name)))
    monkeypatch.setattr(store, "CONFIGURATION", tmp_path / "users.json")
    monkeypatch.setattr(store, "STATE", tmp_path / "state" / "state.json")
    monkeypatch.setattr(store, "RUN", tmp_path / "run")
    monkeypatch.setattr(store, "VERBS", tmp_path / "verbs")
    monkeypatch.setattr(users, "ARCHIVE", tmp_path / "archive")
    monkeypatch.setattr(users, "NO_MANAGER", tmp_path / "uids")
    monkeypatch.setattr(users, "_run", _account_programs(made))
    monkeypatch.setattr(
        audit, "record", lambda event, **fields: made.events.append((event, fields))
    )
    monkeypatch.setattr(gpus, "installed", list)
    monkeypatch.setattr(containers.socket, "gethostname", lambda: "tank-1.example.com")
    monkeypatch.setattr(shutil, "chown", lambda *_: None)

    def getpwnam(name):
        if name not in made.accounts:
            raise KeyError(name)
        return made.accounts[name]

    monkeypatch.setattr(pwd, "getpwnam", getpwnam)
    return made


def refused(machine, *words, user=None):
    """The message of a command that must be refused."""
    with pytest.raises(TankError) as caught:
        machine.tank(*words, user=user)
    return str(caught.value)
