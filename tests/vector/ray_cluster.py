"""A Ray cluster of two nodes on this machine, as two machines would make it."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

NODES = ("one", "two")  # each node has 100 of the resource of its name
START = (sys.executable, "-m", "ray.scripts.scripts", "start", "--block")


class Cluster:
    """Two `ray start` processes, each with two CPUs and a resource of its own.

    Attributes:
        address: where a driver finds the cluster.
        token: variables that a driver must have before it imports Ray, to be let in.
        folder: where the cluster keeps its files, which tells it from others on this machine.
    """

    def __init__(self):
        # Paths of sockets must be short, which pytest's folders are not.
        self.folder = Path(tempfile.mkdtemp(prefix="puffer"))
        self.nodes = []
        self.token = {name: os.environ[name] for name in ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN")}
        try:
            self._start("one", "--head", "--port", "0", "--include-dashboard", "false")
            self.address = self._await_address()
            self._start("two", "--address", self.address)
        except BaseException:
            self.stop()
            raise

    def _start(self, name, *arguments):
        command = [
            *START,
            *("--num-cpus", "2", "--num-gpus", "0", "--resources", json.dumps({name: 100})),
            *("--object-store-memory", "100000000", "--include-log-monitor", "false"),
            *arguments,
        ]
        with (self.folder / f"{name}.log").open("w") as log:
            node = subprocess.Popen(
                command, env=self.env(), stdout=log, stderr=log, start_new_session=True
            )
        self.nodes.append(node)

    def env(self):
        """The nodes' variables."""
        path = os.pathsep.join(filter(None, sys.path))  # the tests' environments are installed
        return (
            os.environ
            | self.token
            | {
                "PYTHONPATH": path,
                "RAY_TMPDIR": str(self.folder),
                "RAY_USAGE_STATS_ENABLED": "0",
            }
        )

    def _await_address(self):
        file = self.folder / "ray" / "ray_current_cluster"
        end = time.monotonic() + 100
        while not (file.exists() and file.read_text().strip()):
            log = (self.folder / "one.log").read_text()
            assert self.nodes[0].poll() is None, log
            assert time.monotonic() < end, log
            time.sleep(0.05)
        return file.read_text().strip()

    def await_nodes(self, ray):
        """Until both are there; `ray` is the initialized module."""
        end = time.monotonic() + 100
        while not all(ray.cluster_resources().get(name) for name in NODES):
            assert time.monotonic() < end, (self.folder / "two.log").read_text()
            time.sleep(0.05)

    def stop(self):
        for node in self.nodes:
            node.terminate()
        for node in self.nodes:
            with contextlib.suppress(subprocess.TimeoutExpired):
                node.wait(20)
            with contextlib.suppress(ProcessLookupError):
                os.killpg(node.pid, signal.SIGKILL)
        shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()
