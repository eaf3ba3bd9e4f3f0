"""Accounts of the machine that live in containers."""

import os
import pwd
import re
import shutil
import subprocess
import tarfile
import time
from pathlib import Path

from tank import audit, containers, disk, engine, gpus, network, store, tailnet
from tank.errors import TankError
from tank.members import GROUP
from tank.store import BOTH, KEY, MAIN, TAILNET, USER_NAME, Container, Quota, State, User

LOGIN_SHELL = "/usr/local/bin/tank-login"
ARCHIVE = Path("/var/lib/tank/archive")
# A user manager of systemd would run what it finds in the home, on the machine itself.
NO_MANAGER = Path("/var/lib/tank/uids")
# As tailscale shows it: ada@example.com, ada@github, a name of an own control server.
TAILNET_LOGIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._%+@-]{0,253}")
ALL_TAGGED = "tagged-devices"  # what tailscale says for machines of nobody


def add(
    state: State, name: str, keys: str, quota: Quota, image: str, tailscale: str | None = None
) -> User:
    """Make an account whose login is a container, and the container.

    Raises:
        TankError: the name or the tailnet login is taken or not allowed, or there is no such image.
    """
    if not USER_NAME.fullmatch(name):
        raise TankError(
            f"expected a name of small letters, digits, - and _, at most 31, got {name!r}", status=2
        )
    if name in state.users or _account(name):
        raise TankError(
            f"there is an account {name} already", f"To see it: id {name}; tank user list"
        )
    engine.image(image)
    if tailscale is not None:
        _check_login(state, name, tailscale)
    _run("useradd", "--create-home", "--shell", LOGIN_SHELL, "--groups", GROUP, name)
    account = pwd.getpwnam(name)
    user = User(account.pw_uid, account.pw_gid, account.pw_dir, quota, tailscale=tailscale)
    if tailscale is not None:
        user.credential = BOTH if keys else TAILNET
    user.containers[MAIN] = Container(image)
    state.users[name] = user
    try:
        _set_up(state, name, user, keys)
    except BaseException:
        # As if nothing had happened; nobody has been in this home yet.
        containers.remove(name, MAIN)
        _remove_traces(name, user)
        _run("userdel", "--remove", name)
        raise
    audit.record("user-add", user=name, uid=user.uid, image=image, tailscale=tailscale)
    return user


def _set_up(state: State, name: str, user: User, keys: str) -> None:
    NO_MANAGER.mkdir(mode=0o755, parents=True, exist_ok=True)
    (NO_MANAGER / str(user.uid)).touch()
    # sshd refuses keys to an account whose password is locked by '!'. '*' fits no password either.
    _run("usermod", "--password", "*", name)
    Path(user.home).chmod(0o700)
    _write_keys(user, keys)
    if user.credential != KEY:
        _run("gpasswd", "--add", name, tailnet.GROUP)
    if user.quota.disk:
        disk.limit(user.home, user.uid, user.quota.disk)
    containers.ensure_running(name, MAIN, state)


def _account(name: str) -> bool:
    try:
        pwd.getpwnam(name)
    except KeyError:
        return False
    return True


def _write_keys(user: User, keys: str) -> None:
    """Before the user can log in: nobody else changes this home, so no link leads elsewhere."""
    directory = Path(user.home) / ".ssh"
    directory.mkdir(mode=0o700)
    file = directory / "authorized_keys"
    file.write_text(keys if keys.endswith("\n") or not keys else keys + "\n")
    file.chmod(0o600)
    for path in (directory, file):
        shutil.chown(path, user.uid, user.gid)


def set_quota(state: State, name: str, quota: Quota) -> None:
    """Change what the user's containers get; those that exist change when they are made anew."""
    user = state.user(name)
    if quota.disk != user.quota.disk:
        disk.limit(user.home, user.uid, quota.disk)
    user.quota = quota
    audit.record("user-set", user=name, quota=vars(quota))


def set_credential(
    state: State, name: str, login: str | None = None, credential: str | None = None
) -> None:
    """Change what lets the user in. `login` "none" leaves nobody whose devices would.

    A login makes a user with a key one who needs both, unless `credential` says otherwise.

    Raises:
        TankError: the login is another user's or not allowed, or there is none for the credential.
    """
    user = state.user(name)
    if login is not None and login != "none":
        _check_login(state, name, login)
        credential = credential or (BOTH if user.credential == KEY else user.credential)
    new = credential or user.credential
    if login is not None:
        user.tailscale = None if login == "none" else login
    elif new != KEY and user.tailscale is None:
        raise TankError(f"expected --tailscale LOGIN, too: whose devices let {name} in?", status=2)
    # The group makes sshd ask. Whoever is in it only by a half-done change is refused.
    if (new == KEY) != (user.credential == KEY):
        _run("gpasswd", "--delete" if new == KEY else "--add", name, tailnet.GROUP)
    user.credential = new
    audit.record("user-set", user=name, credential=new, tailscale=user.tailscale)


def _check_login(state: State, name: str, login: str) -> None:
    if login == ALL_TAGGED or not TAILNET_LOGIN.fullmatch(login):
        raise TankError(
            f"expected a person's login such as ada@example.com, got {login!r}",
            "A device of the user's shows it: tailscale whois --json $(tailscale ip -4)",
            status=2,
        )
    for other, user in state.users.items():
        if other != name and user.tailscale == login:
            raise TankError(f"{login} is the tailnet identity of {other} already")


def remove(state: State, name: str) -> Path:
    """Close an account: sessions and containers end, leases are free, the home becomes an archive.

    Returns:
        The archive. The home itself is removed only after the archive was read again.
    """
    user = state.user(name)
    _run("usermod", "--expiredate", "1", name)  # no new sessions from here on
    _end_processes(name)
    for container in user.containers:
        containers.remove(name, container)
    engine.docker("network", "rm", containers.network_of(name), missing_ok=True)
    gpus.release(state, name)
    archive = _archive_home(name, user)
    if user.quota.disk:
        disk.limit(user.home, user.uid, None)  # the next account may get this uid
    _remove_traces(name, user)
    _run("userdel", "--remove", name)
    del state.users[name]
    audit.record("user-rm", user=name, archive=archive)
    return archive


def _archive_home(name: str, user: User) -> Path:
    ARCHIVE.mkdir(mode=0o700, parents=True, exist_ok=True)
    archive = ARCHIVE / f"{name}-{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}.tar.gz"
    home = Path(user.home)
    with archive.open("xb") as file:
        os.fchmod(file.fileno(), 0o600)
        with tarfile.open(fileobj=file, mode="w:gz", compresslevel=1) as tar:
            tar.add(home, arcname=name)
    # Sockets alone cannot be archived; they hold nothing.
    expected = sum(not path.is_socket() for path in [home, *home.rglob("*")])
    with tarfile.open(archive) as tar:
        found = sum(1 for _ in tar)
    if found < expected:
        raise TankError(
            f"the archive {archive} has {found} of {expected} files of {home}",
            "The account is closed, and its home is untouched. Then again: tank user rm " + name,
        )
    return archive


def _end_processes(name: str) -> None:
    """Only sessions are left of a closed account: sshd's process and this package's helper."""
    subprocess.run(["pkill", "-KILL", "-U", name], check=False, capture_output=True)


def _remove_traces(name: str, user: User) -> None:
    (NO_MANAGER / str(user.uid)).unlink(missing_ok=True)
    shutil.rmtree(store.RUN / name, ignore_errors=True)
    network.detach(name)


def key_lines(text: str) -> str:
    """Public keys, checked by ssh-keygen.

    Raises:
        TankError: there is something else among them.
    """
    for line in text.splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        done = subprocess.run(
            ["ssh-keygen", "-l", "-f", "/dev/stdin"], input=line, capture_output=True, text=True
        )
        if done.returncode:
            raise TankError(
                f"expected a public key on each line, got {line[:40]!r}",
                "It is in a file such as ~/.ssh/id_ed25519.pub of the user's own machine",
            )
    return text


def with_changes(quota: Quota, changes: dict[str, object]) -> Quota:
    """The quota with what is not None in `changes`; "none" takes a limit away."""
    given = {name: value for name, value in changes.items() if value is not None}
    return Quota(**{**vars(quota), **{n: None if v == "none" else v for n, v in given.items()}})


def _run(*command: str) -> None:
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if done.returncode:
        raise TankError(f"{command[0]} failed: {done.stderr.strip()}")
