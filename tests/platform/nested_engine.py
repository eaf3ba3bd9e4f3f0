"""Give the engine in a box an image that this machine's engine has, within seconds.

`docker save | docker load` of two gigabytes takes minutes. Both engines keep a layer as a
directory, on one file system, so layers are linked file by file; an engine never writes to a layer.
"""

import json
import shutil
import subprocess
from pathlib import Path

from engine_tools import command


def share_image(box, name):
    """Let the engine of `box` have the image `name`."""
    source = Path(command("docker", "info", "-f", "{{.DockerRootDir}}").stdout.strip())
    template = '{{range .Mounts}}{{if eq .Destination "/var/lib/docker"}}{{.Source}}{{end}}{{end}}'
    target = Path(command("docker", "inspect", "-f", template, box.name).stdout.strip())
    if not (source / "image/overlay2").is_dir() or not target.is_dir():
        _load(box, name)  # an engine of another machine or user
        return
    box.shell("systemctl stop docker.socket docker.service 2>&1")
    _link(source, target, name)
    box.run("systemctl", "start", "docker.service")
    box.run("docker", "image", "inspect", name)


def _load(box, name):
    with subprocess.Popen(["docker", "save", name], stdout=subprocess.PIPE) as save:
        command("docker", "exec", "-i", box.name, "docker", "load", stdin=save.stdout, timeout=600)
    assert save.returncode == 0


def _link(source, target, name):
    found = json.loads(command("docker", "image", "inspect", name).stdout)[0]
    data = found["GraphDriver"]["Data"]
    layers = [Path(path).parent for path in (data["LowerDir"] + ":" + data["UpperDir"]).split(":")]
    for layer in layers:
        _copy(layer, target / "overlay2" / layer.name)
        link = (layer / "link").read_text()
        short = target / "overlay2/l" / link
        short.parent.mkdir(parents=True, exist_ok=True)
        if not short.is_symlink():
            short.symlink_to(f"../{layer.name}/diff")
    names = {layer.name for layer in layers}
    for entry in (source / "image/overlay2/layerdb/sha256").iterdir():
        if (entry / "cache-id").read_text() in names:
            _copy(entry, target / "image/overlay2/layerdb/sha256" / entry.name)
    content = Path("image/overlay2/imagedb/content/sha256") / found["Id"].removeprefix("sha256:")
    (target / content).parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(source / content, target / content)
    repository = name.rpartition(":")[0]
    (target / "image/overlay2/repositories.json").write_text(
        json.dumps({"Repositories": {repository: {name: found["Id"]}}})
    )


def _copy(source, target):
    """A directory whose files are links to the originals, with all that an engine keeps in them."""
    target.parent.mkdir(parents=True, exist_ok=True)
    if not target.exists():
        command("cp", "--archive", "--link", source, target)
