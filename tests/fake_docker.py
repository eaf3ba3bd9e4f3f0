#!/usr/bin/env python3
"""A docker that keeps its containers in a file; unknown commands and flags fail as really.

FAKE_DOCKER names the file: {"images": {NAME: {"Env": [], "Labels": {}}}, "containers": {NAME:
{"image": NAME, "running": bool, "argv": [...]}}, "networks": [...], "log": [[...]], "down": bool,
"broken": [IMAGE]}. Containers of a broken image cannot import anything.
"""

import json
import os
import sys
from pathlib import Path

FILE = Path(os.environ.get("FAKE_DOCKER", ""))
PASSWD = "root:x:0:0:root:/root:/bin/bash\nvenv:x:999:999::/:/bin/sh\n"
GROUP = "root:x:0:\nvenv:x:999:\n"
# Flags of `docker create` and whether a value follows.
CREATE = {
    "--name": 1, "--hostname": 1, "--label": 1, "--user": 1, "--init": 0, "--cap-drop": 1,
    "--security-opt": 1, "--pids-limit": 1, "--shm-size": 1, "--ulimit": 1, "--network": 1,
    "--mount": 1, "--workdir": 1, "--env": 1, "--cpus": 1, "--memory": 1, "--memory-swap": 1,
    "--gpus": 1, "--device": 1,
}  # fmt: skip


def fail(message, status=1):
    print(message, file=sys.stderr)
    sys.exit(status)


def split(words, known):
    """Flags with their values, and what follows them."""
    flags = []
    while words and words[0].startswith("-"):
        name = words.pop(0)
        if name not in known:
            fail(f"unknown flag: {name}", 125)
        flags.append((name, words.pop(0) if known[name] else None))
    return flags, words


def container(state, name):
    if name not in state["containers"]:
        fail(f"Error response from daemon: No such container: {name}")
    return state["containers"][name]


def create(state, words):
    flags, (image, *argv) = split(words, CREATE)
    name = dict(flags)["--name"]
    if image not in state["images"]:
        fail(f"Unable to find image '{image}' locally", 125)
    if name in state["containers"]:
        fail(f'Conflict. The container name "/{name}" is already in use', 125)
    if dict(flags)["--network"] not in state["networks"]:
        fail(f"network {dict(flags)['--network']} not found", 125)
    state["containers"][name] = {"image": image, "running": False, "argv": argv}


def inspect_container(state, words):
    found = container(state, *words)
    running = found["running"]
    state_of = {"Running": running, "StartedAt": "2026-01-01T00:00:00Z", "Pid": 4242 * running}
    print(json.dumps([{"Config": {"Image": found["image"]}, "State": state_of}]))


def inspect_image(state, words):
    if words[0] not in state["images"]:
        fail(f"Error response from daemon: No such image: {words[0]}")
    print(json.dumps([{"Config": state["images"][words[0]]}]))


def network(state, verb, words):
    if verb == "create":
        state["networks"].append(words[-1])
    elif words[0] not in state["networks"]:
        fail(f"Error response from daemon: network {words[0]} not found")
    elif verb == "rm":
        state["networks"].remove(words[0])
    else:
        print("[{}]")


def move(state, verb, words):
    """start, stop, rename, rm."""
    flags, names = split(words, {"--time": 1, "--force": 0})
    found = container(state, names[0])
    if verb in ("rename", "rm"):
        del state["containers"][names[0]]
    if verb == "rename":
        state["containers"][names[1]] = found
    if verb in ("start", "stop"):
        found["running"] = verb == "start"


def execute(state, words):
    found = container(state, words[0])
    if found["image"] in state["broken"]:
        fail("ModuleNotFoundError: No module named 'pufferlib'")


def run(state, words):
    flags, rest = split(words, {"--rm": 0, "--network": 1, "--entrypoint": 1})
    print({"/etc/passwd": PASSWD + GROUP}[rest[1]], end="")


def show(state, verb, words):
    """ps, top, logs."""
    if verb == "ps":
        for name, found in state["containers"].items():
            if "--all" in words or found["running"]:
                status = "Up 2 minutes" if found["running"] else "Exited (0)"
                print(f"{name}\t{status}" if "Status" in words[-1] else name)
    elif verb == "top":
        print("\n".join(["PID", "1", "2", *container(state, words[0]).get("busy", [])]))
    else:
        print("PufferTank 0.1.0")


def main(words):
    state = json.loads(FILE.read_text())
    state["log"].append(list(words))
    FILE.write_text(json.dumps(state))
    if state["down"]:
        fail("Cannot connect to the Docker daemon at unix:///var/run/docker.sock.")
    verb, *rest = words
    if verb in ("container", "image") and rest[0] == "inspect":
        {"container": inspect_container, "image": inspect_image}[verb](state, rest[1:])
    elif verb == "network":
        network(state, rest[0], rest[1:])
    elif verb in ("start", "stop", "rename", "rm"):
        move(state, verb, rest)
    elif verb in ("ps", "top", "logs"):
        show(state, verb, rest)
    elif verb in ("create", "exec", "run"):
        {"create": create, "exec": execute, "run": run}[verb](state, rest)
    else:
        fail(f"docker: '{verb}' is not a docker command.")
    FILE.write_text(json.dumps(state))


if __name__ == "__main__":
    main(sys.argv[1:])
