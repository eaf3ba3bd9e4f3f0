"""Part of deps.dockerfile: what the chosen environments need, without the sources of pufferlib.

    python3 requirements.py PYPROJECT NODEPS SYSTEM_PACKAGES NAME,NAME...

writes `python.txt` (for `pip install -r`), `nodeps.txt` (the same, with --no-deps) and `system.txt`
(Debian packages) into the working directory. Their content changes only when a requirement does, so
neither does the image's layer.
"""

import configparser
import difflib
import re
import sys
import tomllib
from pathlib import Path

SELF = re.compile(r"pufferlib\[(?P<extras>[^\]]+)\]$")


def expand(extra, optional):
    """Yield the requirements of an extra; `pufferlib[a,b]` stands for those of a and b."""
    for requirement in optional[extra]:
        inner = SELF.match(requirement)
        if inner is None:
            yield requirement
            continue
        for name in inner["extras"].split(","):
            yield from expand(name.strip(), optional)


def leaves(extra, optional):
    """Yield the names of an extra and of all that it stands for."""
    yield extra
    for requirement in optional.get(extra, ()):
        inner = SELF.match(requirement)
        for name in inner["extras"].split(",") if inner else ():
            yield from leaves(name.strip(), optional)


def read_system_packages(path):
    """Debian packages by environment."""
    lines = (line.split("#")[0].strip() for line in path.read_text().splitlines())
    pairs = (line.split(":") for line in lines if line)
    return {name: packages.split() for name, packages in pairs}


def read_nodeps(path):
    """What is installed without its declared requirements, by environment."""
    parser = configparser.ConfigParser(
        allow_no_value=True, delimiters=("\0",), inline_comment_prefixes=("#",)
    )
    parser.read_string(path.read_text())
    return {name: list(parser[name]) for name in parser.sections()}


def main(pyproject, nodeps, system_packages, names):
    """Write the lists."""
    project = tomllib.loads(Path(pyproject).read_text())["project"]
    optional = project["optional-dependencies"]
    outdated = read_nodeps(Path(nodeps))
    system = read_system_packages(Path(system_packages))
    chosen = [name.strip() for name in names.split(",") if name.strip()]
    for name in chosen:
        if name not in optional and name not in system:
            near = difflib.get_close_matches(name, [*optional, *system], 1)
            hint = f"; did you mean {near[0]}?" if near else ""
            sys.exit(f"ENVS: no environment is called {name!r}{hint}")
    python = set(project["dependencies"])
    for name in ("smoke", "video", *chosen):  # every image tests itself and can film
        python.update(expand(name, optional) if name in optional else ())
    everything = [leaf for name in chosen for leaf in leaves(name, optional)]
    write("python.txt", python)
    write("nodeps.txt", [line for name in everything for line in outdated.get(name, ())])
    write("system.txt", [line for name in everything for line in system.get(name, ())])


def write(name, lines):
    """Write a list, sorted and with every line once."""
    Path(name).write_text("".join(f"{line}\n" for line in sorted(set(lines))))


if __name__ == "__main__":
    main(*sys.argv[1:])
