"""A server with a kernel of its own: the bare box of box.py as an emulated machine.

Nothing of the hardware is needed for it: qemu computes what the processors would, which is five to
eight times slower than they are. Nothing is left of it but layers in the engine's cache.
"""

import contextlib
import platform
import shlex
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from box import CHECKOUT, Server
from box import IMAGE as BOX_IMAGE
from engine_tools import BASE_IMAGE, ROOT, VERSION, command, wait_for
from login_tools import Client, free_port

IMAGE = "puffertank-test/vm:bare"
TANK = "puffertank-test/tank:small"
TANK_FILE = "/srv/tank.tar"
FILES = ROOT / "tests/platform/vm"
BOOT_SECONDS = 400  # a minute on an idle machine, three on one that has much else to do
# In a container of the machine's image, which has the programs; /mnt is `make_disk`'s directory.
MAKE_DISK = """
mount --bind / /media  # without what the engine mounts over it, which is empty there
rm /media/.dockerenv   # else systemd takes it for a container
cp -r /mnt/files/. /media
cp /boot/vmlinuz-* /mnt/vmlinuz
cp /boot/initrd.img-* /mnt/initrd.img
truncate -s 12G /mnt/disk  # of which only what is written takes space
mkfs.ext4 -q -O ^has_journal,quota,project -E quotatype=usrquota:prjquota -d /media /mnt/disk
"""


@dataclass
class VirtualMachine(Server):
    """One emulated server, which `root` reaches over ssh; users reach it at the same port."""

    root: Client

    def run(self, *argv, check=True, text=None, timeout=900):
        """Run a program as root; `text` is its standard input."""
        options = {} if text is None else {"stdin": None, "input": text}
        line = shlex.join(map(str, argv))
        # It is slow to answer; a machine that was switched off says nothing more.
        options["flags"] = ["-o", "ConnectTimeout=120", "-o", "ServerAliveInterval=60"]
        return self.root.ssh(line, check=check, timeout=timeout, **options)

    def wait(self):
        """Wait until systemd has started everything."""
        wait_for(lambda: self.boot(), "sshd", BOOT_SECONDS)
        state = self.run("systemctl", "is-system-running", "--wait", check=False).stdout.strip()
        failed = self.run("systemctl", "--failed", "--no-legend").stdout
        assert state == "running", failed

    def boot(self):
        """What tells one boot of the kernel from another."""
        return self.run("cat", "/proc/sys/kernel/random/boot_id", check=False).stdout

    def reboot(self):
        """Reboot it, and wait until it has come back."""
        before = self.boot()
        self.run("systemctl", "reboot", check=False)
        wait_for(lambda: self.boot() not in ("", before), "another boot", BOOT_SECONDS)
        self.wait()


def build_images(checkout):
    """The machine's files, and a small tank for it to load."""
    lock_hash = command("python3", "pufferlib/lock.py", cwd=checkout).stdout.strip()
    command("docker", "build", "-q", "-t", IMAGE, "-f", FILES / "vm.dockerfile",
            "--build-arg", f"BOX_IMAGE={BOX_IMAGE}", FILES, timeout=900)  # fmt: skip
    command("docker", "build", "-q", "-t", TANK, "-f", FILES / "image.dockerfile",
            "--build-arg", f"BASE_IMAGE={BASE_IMAGE}", "--build-arg", f"LOCK_HASH={lock_hash}",
            "--build-arg", f"VERSION={VERSION}", checkout, timeout=900)  # fmt: skip


def furnish(files, checkout, key):
    """What differs from machine to machine, the checkout, and the small tank as a file."""
    (files / "etc").mkdir(parents=True)
    (files / "etc/hostname").write_text("tank-1\n")
    (files / "etc/hosts").write_text("127.0.0.1 localhost\n127.0.1.1 tank-1\n")
    (files / "etc/resolv.conf").write_text("nameserver 10.0.2.3\n")  # qemu's own
    (files / "root/.ssh").mkdir(parents=True, mode=0o700)
    (files / "root/.ssh/authorized_keys").write_text(key)
    shutil.copytree(checkout, files / CHECKOUT.removeprefix("/"))
    tank = files / TANK_FILE.removeprefix("/")
    tank.parent.mkdir()
    command("docker", "save", "-o", tank, TANK)


def make_disk(directory, image, checkout, key):
    """The files that `start` boots: a disk, and the kernel that is on it."""
    furnish(directory / "files", checkout, key)
    command("docker", "run", "--rm", "--privileged", "--network=none", "-v", f"{directory}:/mnt",
            image, "bash", "-euo", "pipefail", "-c", MAKE_DISK, timeout=900)  # fmt: skip
    shutil.rmtree(directory / "files")


def start(directory, port):
    """Boot the machine; its console is the file `console`."""
    # An old processor is the cheapest to emulate; without mitigations, which guard nothing here.
    # init_on_alloc: Debian's kernel empties every page before its use. tsc: where the emulator must
    # wait for its own processors, the kernel would doubt its clock and take a slower one.
    kernel = "root=/dev/vda ro console=ttyS0 mitigations=off init_on_alloc=0 tsc=reliable quiet"
    line = [
        "qemu-system-x86_64", "-accel", "tcg,thread=multi", "-machine", "q35", "-cpu", "Nehalem",
        "-smp", "2", "-m", "3072", "-nodefaults", "-display", "none",
        "-serial", f"file:{directory}/console",
        "-kernel", directory / "vmlinuz", "-initrd", directory / "initrd.img", "-append", kernel,
        "-drive", f"file={directory}/disk,format=raw,if=virtio,cache=unsafe",
        "-netdev", f"user,id=net,hostfwd=tcp:127.0.0.1:{port}-:22",
        "-device", "virtio-net-pci,netdev=net,romfile=", "-device", "virtio-rng-pci",
    ]  # fmt: skip
    return subprocess.Popen(line, stdin=subprocess.DEVNULL)


@contextlib.contextmanager
def running(checkout, image=IMAGE):
    """A bare machine that has the checkout, from its first boot on."""
    assert platform.machine() == "x86_64", "the emulated machine is of this kind of processor"
    with tempfile.TemporaryDirectory(prefix="puffertank-vm-") as place:
        directory = Path(place)
        root = Client("root", directory / "root", "127.0.0.1", free_port())
        make_disk(directory, image, checkout, root.prepare())
        process = start(directory, root.port)
        try:
            machine = VirtualMachine(root)
            machine.wait()
            yield machine
        finally:
            process.kill()
            process.wait()
