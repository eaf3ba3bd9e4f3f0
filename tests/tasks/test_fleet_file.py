"""fleet.toml: what it says, and what it is told where it is wrong."""

import re
from pathlib import Path

import pytest
from fleet import config
from task_tools import ROOT

MACHINE = '[machines.one]\nhost = "one.lab"\n'
TWO = MACHINE + '[machines.two]\nhost = "two.lab"\ngroups = ["gpu"]\n'
USER = '[users.ada]\nkey = "ada.pub"\n'


def load(tmp_path, text):
    path = tmp_path / "fleet.toml"
    path.write_text(text)
    return config.load(path)


def test_the_example_is_read():
    fleet = config.load(ROOT / "provisioning/fleet.toml")
    assert [machine.name for machine in fleet.machines] == ["tank-1", "tank-2", "build"]
    assert fleet.machines[2] == config.Machine("build", "build.example.com", None, 2222, ())
    assert fleet.users["ada"] == config.Assignment(
        "ada",
        ROOT / "provisioning/keys/ada.pub",
        frozenset({"tank-1", "tank-2"}),
        {"cpus": 8, "memory": "64g", "gpus": "2"},
    )
    assert fleet.users["grace"].machines == {"tank-2", "build"}
    assert (fleet.checkout, fleet.minutes) == ("/opt/puffertank", 60)


def test_the_example_names_no_real_place():
    text = (ROOT / "provisioning/fleet.toml").read_text()
    hosts = re.findall(r'^host = "(.*)"', text, re.MULTILINE)
    assert len(hosts) == 3
    assert all(host.endswith(".example.com") for host in hosts)


def test_names_and_groups_choose_machines(tmp_path):
    fleet = load(tmp_path, TWO)
    chosen = {
        on: [machine.name for machine in fleet.choose(on)]
        for on in ("", "all", "gpu", "one", "two,one")
    }
    both = ["one", "two"]
    assert chosen == {"": both, "all": both, "gpu": ["two"], "one": ["one"], "two,one": both}
    with pytest.raises(SystemExit, match="--on: expected machines or groups, got 'tow'; did you"):
        fleet.choose("tow")


def test_keys_of_users_lie_beside_the_file_or_elsewhere(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", "/home/admin")
    for key, expected in (
        ("k/ada.pub", tmp_path / "k/ada.pub"),
        ("/etc/ada.pub", Path("/etc/ada.pub")),
        ("~/ada.pub", Path("/home/admin/ada.pub")),
    ):
        fleet = load(tmp_path, MACHINE + f'[users.ada]\nkey = "{key}"\n')
        assert fleet.users["ada"].key == expected


def test_a_limit_can_be_taken_away(tmp_path):
    fleet = load(tmp_path, MACHINE + USER + 'cpus = "none"\nmemory = "none"\n')
    assert fleet.users["ada"].quota == {"cpus": "none", "memory": "none"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "expected at least one machine: [machines.NAME] with host = ..."),
        ("x", "cannot read "),
        ("machnes = {}", "machnes: unknown key; did you mean machines?"),
        ("zzz = 1\n" + MACHINE, "zzz: unknown key; there are checkout, machines, minutes, users"),
        (MACHINE + "hots = 1", "machines.one.hots: unknown key; did you mean host?"),
        ("[machines]\none = 3", "machines.one: expected a table, [machines.one]"),
        ("[machines.one]", "machines.one: expected host = its address, or its name in ~/.ssh"),
        ('[machines.one]\nhost = "-oProxyCommand=x"', "machines.one: expected host = its address"),
        ("[machines.one]\nhost = 3", "machines.one.host: expected a text, got 3"),
        (MACHINE + "port = true", "machines.one.port: expected a number, got True"),
        (MACHINE + "groups = [1]", "machines.one.groups: expected a list of texts, got 1 in it"),
        ('[machines.all]\nhost = "x"', "machines.all: expected a name of small letters"),
        (
            TWO + '[machines.three]\nhost = "one.lab"',
            "machines one and three have the same host one.lab",
        ),
        (
            MACHINE + '[machines.gpu]\nhost = "x"\ngroups = ["one"]',
            "machines.gpu.groups: one is the name of a machine",
        ),
        ('checkout = "opt"\n' + MACHINE, "checkout: expected a path from /, got 'opt'"),
        ("minutes = 0\n" + MACHINE, "minutes: expected more than 0, got 0"),
        (MACHINE + "[users.ada]", "users.ada: expected key = the file with the user's public"),
        (MACHINE + '[users.Ada]\nkey = "x"', "users.Ada: expected a name of small letters"),
        (MACHINE + USER + "memroy = 1", "users.ada.memroy: unknown key; did you mean memory?"),
        (MACHINE + USER + 'memory = "lots"', "users.ada.memory: expected something like 64g"),
        (MACHINE + USER + 'cpus = "many"', 'users.ada.cpus: expected a number or "none", got \''),
        (MACHINE + USER + "cpus = 0", "users.ada.cpus: expected more than 0, got 0"),
        (MACHINE + USER + 'gpus = "none"', "users.ada.gpus: expected something like all or 2"),
        (MACHINE + USER + "gpus = -1", "users.ada.gpus: expected something like all or 2, got"),
        (
            TWO + USER + 'machines = ["ones"]',
            "users.ada.machines: expected machines or groups, got 'ones'; did you mean one?",
        ),
        (
            TWO + USER + 'machines = ["xyz"]',
            "users.ada.machines: expected machines or groups, got 'xyz'; there are all, gpu, one",
        ),
    ],
)
def test_what_is_wrong_is_named(tmp_path, text, message):
    with pytest.raises(SystemExit) as error:
        load(tmp_path, text)
    assert str(error.value).startswith(f"error: {message}")
    assert "fleet.toml" in str(error.value)


def test_a_missing_file_is_an_error_that_names_it(tmp_path):
    with pytest.raises(SystemExit, match="error: cannot read .*nowhere.toml"):
        config.load(tmp_path / "nowhere.toml")
