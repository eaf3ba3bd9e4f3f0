"""`invoke fleet.…`: what it runs on the machines, word by word; no machine is reached."""

import inspect
import io
import json
import subprocess
import tarfile
import time

import pytest
from fleet import actions, session, ssh
from fleet.ssh import Done, MachineError
from task_tools import LOCK, ROOT, collection, run

TASKS = {"status", "provision", "verify", "apply", "load-image", "run"}
FLEET = """
checkout = "/opt/tank"
[machines.one]
host = "one.lab"
user = "root"
[machines.two]
host = "two.lab"
port = 2222
user = "admin"
groups = ["gpu"]
[users.ada]
key = "ada.pub"
machines = ["all"]
cpus = 8
memory = "64g"
gpus = 2
[users.bob]
key = "bob.pub"
machines = ["one"]
[users.eve]
key = "eve.pub"
"""
QUOTA = {"cpus": None, "memory": None, "shm": None, "pids": 8192, "gpus": "all"}
ADA = {"quota": {**QUOTA, "cpus": 8.0, "memory": "64g", "gpus": "2"}, "tailscale": None}
OTHER = {"quota": QUOTA, "tailscale": None}
NOBODY = json.dumps({"users": {}, "leases": {}, "closed": None})


def facts(lock=LOCK, image="sha256:aaaaaaaaaaaaaaaa", driver="580.1", gpus=2, users=NOBODY):
    values = {"state": "provisioned", "lock": lock, "image": image, "driver": driver}
    values |= {"load": "0.5 of 16", "gpus": gpus, "users": users}
    return "".join(f"{name}\t{value}\n" for name, value in values.items())


def verified(*failed):
    rows = [{"result": "ok", "step": "40-docker", "name": "engine", "detail": ""}]
    rows += [{"result": "FAILED", "step": "machine", "name": name, "detail": ""} for name in failed]
    return json.dumps({"host": "x", "failed": len(failed), "checks": rows})


class Machines:
    """Every machine of the fleet: what ran where, and what they answer."""

    def __init__(self):
        self.commands = {"one": [], "two": []}
        self.files = {}
        self.answers = {}

    def connect(self, machine):
        return Connection(self, machine)

    def answer(self, part, output="", status=0, on=("one", "two"), errors=""):
        """What a command with `part` in it does; an exception is raised."""
        done = output if isinstance(output, Exception) else Done(status, output, errors)
        for name in on:
            self.answers[name, part] = done


class Connection:
    def __init__(self, machines, machine):
        self.machines, self.name, self.user = machines, machine.name, machine.user

    def run(self, command, seconds, show):
        assert 0 < seconds <= 3600
        self.machines.commands[self.name].append(command)
        # The part that stands last: what is run, not what it is told.
        found = {
            command.rindex(part): done
            for (name, part), done in self.machines.answers.items()
            if name == self.name and part in command
        }
        done = found[max(found)] if found else Done(0, "")
        if isinstance(done, Exception):
            raise done
        for line in done.output.splitlines() if show else ():
            show(line)
        return done

    def put(self, content, path, seconds):
        self.machines.files[self.name, path] = content

    def close(self):
        pass


@pytest.fixture
def machines(monkeypatch, tmp_path):
    (tmp_path / "fleet.toml").write_text(FLEET)
    for name in ("ada", "bob"):
        (tmp_path / f"{name}.pub").write_text(f"ssh-ed25519 {name.upper()} it's {name}\n")
    made = Machines()
    made.answer("facts.sh", facts())
    made.answer("user list", NOBODY)
    made.answer("mktemp", "/tmp/tank-fleet-abc\n")
    made.answer("verify.sh", verified())
    made.answer("lock.py", LOCK + "\n")
    monkeypatch.setattr(ssh, "connect", made.connect)
    monkeypatch.delenv("PUFFER_SSH", raising=False)
    monkeypatch.chdir(tmp_path)
    return made


def fleet(*words, status=0):
    """`invoke fleet.…` with the file above; `status` machines fail."""
    command = [f"fleet.{words[0]}", *words[1:], "--file", "fleet.toml"]
    if not status:
        run(*command)
        return
    with pytest.raises(SystemExit) as ended:
        run(*command)
    assert ended.value.code == status


def rows(text):
    """The final table: the words of each line, by the first."""
    table = text[text.index("\nMACHINE") :]
    return {line.split()[0]: line for line in table.strip().splitlines()[:-1]}


def test_the_tasks_are_these_thin_and_documented():
    tasks = collection().collections["fleet"].tasks
    assert set(tasks) == TASKS
    for name, task in tasks.items():
        lines = inspect.getsource(task.body).split('"""')[-1].strip().splitlines()
        assert task.body.__doc__, name
        assert len(lines) <= 10, name
        assert all(argument.help for argument in task.get_arguments()), name


def test_status_is_a_row_for_each_machine(machines, capsys):
    users = json.dumps({"users": {"ada": ADA, "bob": OTHER}, "leases": {"GPU-1": {}}})
    machines.answer("facts.sh", facts(users=users), on=["two"])
    fleet("status")
    found = rows(capsys.readouterr().out)
    assert found["one"].split() == (
        f"one ok provisioned {LOCK} aaaaaaaaaaaa 580.1 0.5 of 16 0 2, 0 leased -".split()
    )
    assert found["two"].split() == (
        f"two ok provisioned {LOCK} aaaaaaaaaaaa 580.1 0.5 of 16 2 2, 1 leased -".split()
    )


def test_a_machine_that_cannot_be_reached_is_a_row(machines, capsys):
    machines.answer("facts.sh", MachineError("cannot be reached: no route"), on=["one"])
    fleet("status", status=1)
    found = rows(capsys.readouterr().out)
    assert found["one"].endswith("cannot be reached: no route")
    assert found["two"].split()[1] == "ok"


def test_an_error_nobody_thought_of_is_a_row_too(machines, capsys):
    machines.answer("facts.sh", "what?", on=["one"])
    machines.answer("facts.sh", ZeroDivisionError("oh"), on=["two"])
    fleet("status", status=2)
    found = rows(capsys.readouterr().out)
    assert found["one"].endswith("no facts in its answer ('users'): 'what?'")
    assert found["two"].endswith("ZeroDivisionError: oh")


def test_facts_come_from_a_script_with_the_checkout(machines):
    fleet("status", "--on", "two")
    assert machines.commands["one"] == []
    (command,) = machines.commands["two"]
    assert command.startswith("sudo -n bash -c '")
    assert command.endswith("facts.sh /opt/tank'")


def test_provision_copies_unpacks_and_runs(machines, capsys):
    fleet("provision", "--on", "one")
    assert machines.commands["one"] == [
        "mktemp /tmp/tank-fleet-XXXXXX",
        "mkdir -p /opt/tank && tar --extract --gzip --recursive-unlink --no-same-owner "
        "--directory /opt/tank --file /tmp/tank-fleet-abc; status=$?; "
        "rm -f /tmp/tank-fleet-abc; exit $status",
        "/opt/tank/provisioning/provision.sh",
    ]
    assert rows(capsys.readouterr().out)["one"].split() == ["one", "ok", "provisioned", "-"]
    with tarfile.open(fileobj=io.BytesIO(machines.files["one", "/tmp/tank-fleet-abc"])) as tar:
        names = set(tar.getnames())
        owners = {(each.uid, each.gid) for each in tar.getmembers()}
    assert {
        "provisioning/provision.sh",
        "provisioning/steps/10-preflight.sh",
        "pufferlib/lock.py",
        "constraints.txt",
        "docker/puffertank/transfer.py",
    } <= names
    assert not [name for name in names if "fleet" in name or "__pycache__" in name]
    assert owners == {(0, 0)}


def test_a_needed_reboot_is_told_from_a_failure(machines, capsys):
    machines.answer("provision.sh", "reboot this machine", status=3, on=["one"])
    machines.answer("provision.sh", status=1, errors="error: no disk", on=["two"])
    fleet("provision", status=2)
    found = rows(capsys.readouterr().out)
    assert "reboot needed" in found["one"]
    assert found["one"].endswith("reboot it, then: invoke fleet.provision --on one")
    assert found["two"].endswith("provision.sh: exit status 1, error: no disk")


def test_dry_runs_only_print(machines, capsys):
    fleet("provision", "--dry-run")
    fleet("run", "reboot", "--dry-run")
    assert machines.commands == {"one": [], "two": []}
    said = capsys.readouterr().out
    assert "one: $ /opt/tank/provisioning/provision.sh\n" in said
    assert "two: $ sudo -n bash -c /opt/tank/provisioning/provision.sh\n" in said
    assert "one: $ reboot\n" in said


def test_verify_passes_when_machines_agree(machines, capsys):
    fleet("verify")
    assert machines.commands["one"][-1] == "/opt/tank/provisioning/verify.sh --json"
    assert "1 checks, 0 failed" in rows(capsys.readouterr().out)["two"]


def test_verify_names_failed_checks(machines, capsys):
    machines.answer("verify.sh", verified("disk sda", "slow cores"), status=2, on=["two"])
    fleet("verify", status=1)
    assert rows(capsys.readouterr().out)["two"].endswith("machine: disk sda; machine: slow cores")


@pytest.mark.parametrize(
    ("what", "value", "usual"),
    [
        ("lock", "0123456789ab", LOCK),
        ("image", "sha256:bbbbbbbbbbbbbbbb", "sha256:aaaaaaaaaaaaaaaa"),
        ("driver", "575.2", "580.1"),
        ("driver", "-", "580.1"),
    ],
)
def test_verify_fails_when_machines_differ(machines, capsys, what, value, usual):
    machines.answer("facts.sh", facts(**{what: value}), on=["two"])
    fleet("verify", status=1)
    said = rows(capsys.readouterr().out)
    assert said["two"].endswith(f"{what} differs: two has {value}, one has {usual}")
    assert said["one"].split()[1] == "ok"


def test_a_machine_without_provisioning_is_no_measure_for_others(machines, capsys):
    machines.answer("facts.sh", facts("-", image="-", driver="-"), on=["one"])
    machines.answer("verify.sh", status=127, errors="No such file or directory", on=["one"])
    fleet("verify", status=1)
    found = rows(capsys.readouterr().out)
    assert found["one"].endswith("verify.sh: exit status 127, No such file or directory")
    assert found["two"].split()[1] == "ok"


def test_machines_without_gpus_have_another_image_but_the_same_lock(machines, capsys):
    machines.answer("facts.sh", facts(image="sha256:cpu", driver="-", gpus=0), on=["two"])
    fleet("verify")
    machines.answer("facts.sh", facts("x", image="sha256:cpu", driver="-", gpus=0), on=["two"])
    fleet("verify", status=1)
    assert f"lock differs: two has x, one has {LOCK}" in capsys.readouterr().out


def test_apply_adds_and_leaves_who_is_right(machines, capsys):
    machines.answer("user list", json.dumps({"users": {"ada": ADA}}), on=["two"])
    fleet("apply")
    assert machines.commands["one"] == [
        "tank user list --json",
        "printf '%s\\n' 'ssh-ed25519 ADA it'\"'\"'s ada' | "
        "tank user add ada --key - --cpus 8 --memory 64g --gpus 2",
        "printf '%s\\n' 'ssh-ed25519 BOB it'\"'\"'s bob' | tank user add bob --key -",
    ]
    assert machines.commands["two"] == ["sudo -n bash -c 'tank user list --json'"]
    assert rows(capsys.readouterr().out)["one"].split() == ["one", "ok", "2", "0", "0", "0", "-"]


def test_apply_adds_who_comes_from_the_tailnet_without_a_key(machines, tmp_path):
    file = tmp_path / "fleet.toml"
    file.write_text(
        file.read_text().replace('key = "bob.pub"', 'tailscale = "bob@lab"\ndisk = "1t"')
    )
    (tmp_path / "bob.pub").unlink()
    fleet("apply", "--on", "one")
    assert machines.commands["one"][-1] == "tank user add bob --disk 1t --tailscale bob@lab"
    quota = {**QUOTA, "disk": "1t"}
    for has, change in (
        ({"credential": "key", "tailscale": None}, " --tailscale bob@lab --credential tailnet"),
        ({"credential": "both", "tailscale": "bob@lab"}, " --credential tailnet"),
        ({"credential": "tailnet", "tailscale": None}, " --tailscale bob@lab"),
    ):
        users = {"ada": ADA, "bob": {"quota": quota, **has}}
        machines.answer("user list", json.dumps({"users": users}))
        fleet("apply", "--on", "one")
        assert machines.commands["one"][-1] == f"tank user set bob{change}"


def test_apply_changes_a_quota_and_removes_the_unassigned(machines, capsys):
    less = {**ADA, "quota": {**ADA["quota"], "memory": "8g"}}
    users = {"ada": less, "bob": OTHER, "eve": OTHER, "zoe": OTHER}
    machines.answer("user list", json.dumps({"users": users}))
    fleet("apply")
    assert machines.commands["one"][1:] == [
        "tank user rm eve",
        "tank user set ada --memory 64g",
    ]
    assert machines.commands["two"][1:] == [
        f"sudo -n bash -c '{command}'"
        for command in ("tank user rm bob", "tank user rm eve", "tank user set ada --memory 64g")
    ]
    said = capsys.readouterr().out
    assert "one: zoe is not in the fleet file and stays; --prune removes such users" in said
    assert rows(said)["two"].split() == ["two", "ok", "0", "1", "2", "1", "-"]


def test_apply_prunes_only_when_told(machines):
    users = {"ada": ADA, "zoe": OTHER}
    machines.answer("user list", json.dumps({"users": users}))
    fleet("apply", "--on", "gpu", "--prune")
    assert machines.commands["two"][1:] == ["sudo -n bash -c 'tank user rm zoe'"]


def test_a_dry_run_of_apply_looks_and_prints_the_plan(machines, capsys):
    machines.answer("user list", json.dumps({"users": {"ada": ADA, "eve": OTHER}}))
    fleet("apply", "--dry-run")
    assert machines.commands["one"] == ["tank user list --json"]
    said = capsys.readouterr().out
    assert "one: $ tank user rm eve\n" in said
    assert rows(said)["one"].split() == ["one", "ok", "1", "0", "1", "0", "-"]


def test_a_user_who_cannot_be_added_fails_the_machine(machines, capsys):
    machines.answer("user add ada", status=1, errors="tank: no image", on=["one"])
    fleet("apply", status=1)
    assert rows(capsys.readouterr().out)["one"].endswith("exit status 1, tank: no image")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "users.bob.key: cannot read bob.pub"),
        ("-----BEGIN OPENSSH PRIVATE KEY-----", "users.bob.key: expected public keys, bob.pub is"),
    ],
)
def test_keys_are_read_before_any_machine_is_reached(machines, tmp_path, text, message):
    file = tmp_path / "bob.pub"
    file.unlink() if text is None else file.write_text(text)
    with pytest.raises(SystemExit, match=message):
        fleet("apply")
    assert machines.commands == {"one": [], "two": []}
    fleet("apply", "--on", "two")  # bob is not on that one


def test_load_image_sends_to_the_same_lock_only(machines, monkeypatch, tmp_path, capsys):
    sent = []
    monkeypatch.setattr(session.Session, "local", lambda self, *command: sent.append(command))
    machines.answer("lock.py", "0123456789ab\n", on=["one"])
    chosen = actions.select("fleet.toml")
    with pytest.raises(SystemExit) as ended:
        actions.load_image(chosen, tmp_path / "a.tar.zst", LOCK)
    assert ended.value.code == 1
    said = rows(capsys.readouterr().out)
    assert f"expected lock {LOCK} there, got 0123456789ab; first: invoke fleet.pro" in said["one"]
    assert machines.commands["one"] == ["python3 /opt/tank/pufferlib/lock.py"]
    resuming = ["--partial", "--append-verify", "--info=progress2"]
    way = ["--times", "--rsync-path", "sudo -n rsync", "-e", "ssh -p 2222"]
    target = "admin@two.lab:/opt/tank/dist/images/"
    assert sent == [
        ("rsync", *resuming, *way, str(tmp_path / "a.tar.zst"), target),
        ("rsync", *way, str(tmp_path / "a.tar.zst.json"), target),
    ]
    assert machines.commands["two"][1:] == [
        "sudo -n bash -c 'mkdir -p /opt/tank/dist/images'",
        "sudo -n bash -c 'cd /opt/tank && PYTHONPATH=docker python3 -m puffertank.transfer "
        "dist/images/a.tar.zst && rm dist/images/a.tar.zst dist/images/a.tar.zst.json'",
    ]


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("echo 'no space'; echo code 11; exit 11", "sh: exit status 11, no space"),
        ("exec sleep 5", "no end after 0.005 minutes; --minutes allows more"),
    ],
)
def test_a_command_here_that_fails_or_does_not_end(machines, script, message):
    one = actions.select("fleet.toml").machines[0]
    with pytest.raises(MachineError) as error:
        session.Session(one, 0.005).local("sh", "-c", script)
    assert str(error.value) == message


def test_progress_is_told_now_and_then(machines, monkeypatch, capsys):
    one = actions.select("fleet.toml").machines[0]
    script = "printf '1 %%\\r2 %%\\r3 %%\\r\\nsent\\n'"
    session.Session(one, 1).local("sh", "-c", script)
    assert capsys.readouterr().out.splitlines()[1:] == ["one: sent"]
    monkeypatch.setattr(session, "PROGRESS_SECONDS", 0)
    session.Session(one, 1).local("sh", "-c", script)
    said = capsys.readouterr().out.splitlines()[1:]
    assert said == ["one: 1 %", "one: 2 %", "one: 3 %", "one: sent"]
    with pytest.raises(MachineError, match="no-such-program is not installed here"):
        session.Session(one, 1).local("no-such-program")


def test_load_image_refuses_an_archive_of_another_lock_here(machines, tmp_path):
    archive = tmp_path / "a.tar.gz"
    archive.write_bytes(b"")
    manifest = {"lock": "0123456789ab", "images": {}, "sha256": "", "bytes": 0}
    (tmp_path / "a.tar.gz.json").write_text(json.dumps(manifest))
    with pytest.raises(SystemExit, match="is of lock 0123456789ab, this checkout has"):
        fleet("load-image", "--cpu", "--archive", str(archive))
    assert machines.commands == {"one": [], "two": []}


def test_run_is_the_login_account_and_says_who_speaks(machines, capsys):
    machines.answer("nvidia-smi", "GPU 0\nGPU 1\n", on=["one"])
    machines.answer("nvidia-smi", status=127, errors="not found", on=["two"])
    fleet("run", "nvidia-smi -L", status=1)
    assert machines.commands == {"one": ["nvidia-smi -L"], "two": ["nvidia-smi -L"]}
    said = capsys.readouterr().out
    assert "one: GPU 0\none: GPU 1\n" in said
    assert rows(said)["two"].endswith("nvidia-smi -L: exit status 127, not found")


def test_machines_work_at_the_same_time(machines, monkeypatch):
    slow = Connection.run

    def sleeping(self, *arguments):
        time.sleep(0.5)
        return slow(self, *arguments)

    monkeypatch.setattr(Connection, "run", sleeping)
    start = time.monotonic()
    fleet("run", "true")
    assert time.monotonic() - start < 0.9


def test_the_time_limit_holds_over_all_commands_of_a_machine(machines, monkeypatch, capsys):
    monkeypatch.setattr(Connection, "run", lambda self, *_: time.sleep(0.2) or Done(0, ""))
    fleet("provision", "--minutes", "0.002", status=2)
    assert "no end after 0.002 minutes; --minutes allows more" in capsys.readouterr().out


def test_the_shipped_script_answers_in_the_form_that_is_read(tmp_path):
    script = ROOT / "provisioning/fleet/facts.sh"
    done = subprocess.run(["bash", script, tmp_path], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    names = [line.split("\t")[0] for line in done.stdout.splitlines()]
    assert names == ["state", "lock", "image", "driver", "load", "gpus", "users"]
    assert dict(line.split("\t") for line in done.stdout.splitlines())["lock"] == "-"
