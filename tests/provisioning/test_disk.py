"""Limits of homes: what is told to the file system, and what is said where it has no quotas."""

import json
import subprocess
from types import SimpleNamespace

import pytest
from tank import admin, disk, store
from tank.errors import TankError
from tank_machine import refused

PROJECT = "rw,relatime,prjquota"
USER = "rw,quota,usrquota"


class Programs:
    """findmnt, find and setquota of a home on /home."""

    DEVNULL = subprocess.DEVNULL

    def __init__(self):
        self.options = "rw,relatime"
        self.failing = None
        self.calls = []

    def run(self, words, **_):
        output = ""
        if words[0] == "du":
            output = "12G\t/home/ada\n"
        elif words[0] == "findmnt":
            assert words[-2] == "--target"
            found = {"target": "/home", "options": self.options}
            output = json.dumps({"filesystems": [found]})
        else:
            self.calls.append(" ".join(words))
        status = int(words[0] == self.failing)
        return subprocess.CompletedProcess(words, status, output, f"{words[0]}: no\n")


@pytest.fixture
def programs(monkeypatch):
    made = Programs()
    for module in (disk, admin):
        monkeypatch.setattr(module, "subprocess", made)
    return made


@pytest.mark.parametrize(
    ("options", "kinds"),
    [
        ("rw,relatime", []),
        (PROJECT, ["--project"]),
        ("rw,attr2,pquota", ["--project"]),
        (USER, ["--user"]),
        ("rw,uquota", ["--user"]),
        ("rw,usrquota,prjquota", ["--project", "--user"]),
        ("rw,pqnoenforce,noquota", []),
    ],
)
def test_what_a_file_system_limits_by(programs, options, kinds):
    programs.options = options
    assert disk.kinds("/home/ada") == kinds


def test_a_home_becomes_a_project_of_its_own(programs):
    programs.options = PROJECT
    disk.limit("/home/ada", 1000, "100g")
    assert programs.calls == [
        "find /home/ada -xdev ( -type d -execdir chattr -p 1000 +P {} + ) "
        "-o ( -type f -execdir chattr -p 1000 {} + )",
        "setquota --project 1000 0 104857600 0 0 /home",
    ]
    programs.calls.clear()
    disk.limit("/home/ada", 1000, None)
    assert programs.calls == ["setquota --project 1000 0 0 0 0 /home"]


@pytest.mark.parametrize(("size", "blocks"), [("8k", 8), ("3m", 3072), ("2t", 2147483648)])
def test_sizes_are_in_kibibytes(programs, size, blocks):
    programs.options = USER
    disk.limit("/home/ada", 1000, size)
    assert programs.calls == [f"setquota --user 1000 0 {blocks} 0 0 /home"]


def test_a_quota_that_is_refused_is_no_success(programs, monkeypatch):
    programs.options, programs.failing = USER, "setquota"
    with pytest.raises(TankError, match="setquota failed: setquota: no"):
        disk.limit("/home/ada", 1000, "1g")

    def missing(*_, **__):
        raise FileNotFoundError

    monkeypatch.setattr(disk, "subprocess", SimpleNamespace(run=missing, DEVNULL=None))
    with pytest.raises(TankError, match="findmnt is not installed: provision.sh --only 70"):
        disk.limit("/home/ada", 1000, "1g")
    assert disk.kinds("/home/ada") == []


def test_the_quota_of_a_user(site, programs, capsys):
    programs.options = USER
    site.add("ada", "--disk", "100G")
    uid = site.accounts["ada"].pw_uid
    site.tank("user", "list")
    assert "12G of 100g" in capsys.readouterr().out
    site.tank("user", "set", "ada", "--disk", "1t")
    site.tank("user", "set", "ada", "--cpus", "2")
    site.tank("user", "rm", "ada")
    assert programs.calls == [
        f"setquota --user {uid} 0 {blocks} 0 0 /home" for blocks in (100 << 20, 1 << 30, 0)
    ]
    assert "with the next 'tank reset" in capsys.readouterr().out


def test_a_file_system_without_quotas_is_said_to_have_none(site, programs, capsys):
    site.add("ada", "--disk", "100g")
    home = site.accounts["ada"].pw_dir
    said = f"the file system of {home} has no quotas: 100g is only reported\n"
    assert capsys.readouterr().out.endswith(said)
    site.tank("user", "list")
    assert "12G of 100g (not enforced)" in capsys.readouterr().out
    site.tank("user", "set", "ada", "--disk", "2t")
    assert capsys.readouterr().out == said.replace("100g", "2t")
    site.tank("user", "set", "ada", "--disk", "none")
    assert (capsys.readouterr().out, store.load().users["ada"].quota.disk) == ("", None)
    assert programs.calls == []


def test_a_user_whose_limit_is_refused_is_not_added(site, programs):
    programs.options, programs.failing = PROJECT, "find"
    with pytest.raises(TankError, match="find failed"):
        site.add("ada", "--disk", "1g")
    assert site.accounts == {}
    assert "disk: expected something like 100g, got 'much'" in refused(
        site, "user", "add", "ada", "--tailscale", "a@b", "--disk", "much"
    )
