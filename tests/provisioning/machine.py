"""A machine made of files and fake programs, on which the steps of provisioning run in a moment.

Files lie below `root`, which the scripts put before every path (SYSROOT). Programs of the system
that would change the real machine, or tell about it, are replaced by short scripts in `bin`; each
writes its arguments into `calls`.
"""

import os
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]
PROVISIONING = ROOT / "provisioning"

# What a quiet machine answers. dpkg-query: the packages in the file `installed`.
PROGRAMS = {
    "apt-cache": "echo package",
    "apt-get": """
case "$*" in
    *--print-uris*) echo "'http://mirror/debian/dists/bookworm/InRelease' x 0" ;;
    *" install "*)
        for word in "$@"; do
            case $word in -* | install | *=*) ;; *) echo "$word 1.0" >>"$INSTALLED" ;; esac
        done ;;
esac""",
    "apt-helper": "",
    "apt-mark": "",
    "curl": "exit 7",
    "df": "echo Avail; echo 500",
    "docker": "",
    "dpkg": "",
    "dpkg-query": """
format=$3 status=0
shift 3
(($#)) || set -- $(cut -d' ' -f1 "$INSTALLED")
for name in "$@"; do
    version=$(awk -v name="$name" '$1 == name {print $2; exit}' "$INSTALLED")
    [[ -n $version ]] || { status=1; continue; }
    line=${format//'${db:Status-Status}'/installed} line=${line//'${Package}'/$name}
    printf -- "${line//'${Version}'/$version}"
done
exit $status""",
    "gpg": "sed -n 's/^FINGERPRINT /fpr:::::::::/p' \"${!#}\"",
    "id": "echo 0",
    "ip": "",
    "logger": "",
    "modinfo": "exit 1",
    "modprobe": "exit 1",
    "mokutil": "exit 1",
    "nvidia-smi": "exit 9",
    "systemctl": "",
    "systemd-detect-virt": "exit 1",
}


class Machine:
    """Debian 12 without a GPU, where everything is in order until a test says otherwise."""

    def __init__(self, directory):
        self.root = directory / "root"
        self.bin = directory / "bin"
        self.calls = directory / "calls"
        self.installed = directory / "installed"
        self.configuration = directory / "tank.conf"
        self.run_dir = directory / "run"
        for path in (self.bin, self.run_dir, self.root / "run/systemd/system", self.root / "var"):
            path.mkdir(parents=True)
        for path in (self.calls, self.installed, self.configuration):
            path.write_text("")
        self.put("/etc/os-release", "ID=debian\nVERSION_ID=12\nPRETTY_NAME='Debian 12'\n")
        for name, body in PROGRAMS.items():
            self.program(name, body)
        self.configure(MINIMUM_DISK_GB=1)

    def path(self, path):
        return self.root / path.lstrip("/")

    def put(self, path, text):
        target = self.path(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)
        return target

    def program(self, name, body):
        """Replace a program of the system by a script."""
        script = f'#!/bin/bash\necho "{name} $*" >>"$CALLS"\n{body}\n'
        (self.bin / name).write_text(script)
        (self.bin / name).chmod(0o755)

    def configure(self, **values):
        lines = "".join(f"{name}='{value}'\n" for name, value in values.items())
        self.configuration.write_text(self.configuration.read_text() + lines)

    def install(self, name, version="1.0"):
        self.installed.write_text(self.installed.read_text() + f"{name} {version}\n")

    def gpu(self):
        """Put an NVIDIA GPU on the bus."""
        self.put("/sys/bus/pci/devices/0000:01:00.0/vendor", "0x10de\n")
        self.put("/sys/bus/pci/devices/0000:01:00.0/class", "0x030000\n")

    def driver(self, loaded=None, built=None, packaged=None):
        """Set the versions of the loaded module, the module on disk and the packages."""
        if loaded:
            text = f"NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  {loaded}  Release\n"
            self.put("/proc/driver/nvidia/version", text)
        if built:
            self.program("modinfo", f"echo {built}")
        if packaged:
            for name in ("nvidia-driver-cuda", "nvidia-kernel-open-dkms"):
                self.install(name, f"{packaged}-1")

    def called(self, name):
        """Return the arguments of each call of a program so far."""
        lines = self.calls.read_text().splitlines()
        return [line.removeprefix(f"{name} ") for line in lines if line.startswith(f"{name} ")]

    def environment(self, **more):
        return {
            "PATH": f"{self.bin}:{os.environ['PATH']}",
            "HOME": str(self.run_dir),
            "LC_ALL": "C",
            "SYSROOT": str(self.root),
            "CALLS": str(self.calls),
            "INSTALLED": str(self.installed),
            **more,
        }

    def execute(self, *argv, **variables):
        return subprocess.run(
            list(map(str, argv)), env=self.environment(**variables), stdin=subprocess.DEVNULL,
            capture_output=True, text=True, timeout=60,
        )  # fmt: skip

    def step(self, step, function="apply", **variables):
        """Run one function of a step, or of a script of the test."""
        (path,) = PROVISIONING.glob(f"steps/{step}*.sh") if isinstance(step, str) else [step]
        variables = {
            "CONFIG_FILE": str(self.configuration), "RUN_DIR": str(self.run_dir), **variables
        }  # fmt: skip
        return self.execute(PROVISIONING / "lib/run_step.sh", path, function, **variables)

    def script(self, body):
        """A step whose apply is `body`."""
        path = self.run_dir.parent / "99-test.sh"
        path.write_text(f"# shellcheck shell=bash\napply() {{\n{body}\n}}\n")
        return path
