"""What `puffer autotune` has found out, kept for each user; `--vec.auto True` takes it from here.

A file belongs to one environment with its arguments on one kind of machine: a home directory may
be shared by several.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import re
import shlex
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pufferlib import __version__
from pufferlib.exceptions import ConfigError
from pufferlib.trainer.config import Config, VecConfig, merge
from pufferlib.trainer.json_files import write_json
from pufferlib.vector.sizes import CGROUP, available_cores, cgroup_quota

# Options of `VecConfig` that are stored.
TUNED = ("backend", "num_envs", "num_workers", "batch_size", "zero_copy")


def save(config: Config, make_kwargs: Mapping[str, Any], steps_per_second: float) -> Path:
    """Keep the sizes that were found for the environment of `config`; returns the file.

    The file appears whole or not at all.

    Args:
        config: whose environment and arguments they are for.
        make_kwargs: of `pufferlib.vector.make`, as in `pufferlib.vector.Tuning`.
        steps_per_second: that were measured.

    Raises:
        ConfigError: the file cannot be written.
    """
    path, vec = file_of(config), VecConfig(**make_kwargs)
    content = {
        "pufferlib": __version__,
        **_key(config),
        "measured": datetime.now(UTC).isoformat(timespec="seconds"),
        "steps_per_second": round(steps_per_second, 1),
        "vec": {name: getattr(vec, name) for name in TUNED},
    }
    write_json(path, content, "let XDG_CACHE_HOME name a directory that you may write to")
    return path


def with_tuned_sizes(config: Config, command: str) -> Config:
    """`config` with the stored sizes in `vec`.

    Args:
        config: whose environment and arguments are looked up.
        command: the command line that would measure them, for messages.

    Raises:
        ConfigError: nothing is stored, or it is damaged or from another version.
    """
    path = file_of(config)
    again = f"measure once more with: {command}"
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        version, sizes = content["pufferlib"], dict(content["vec"])
    except FileNotFoundError:
        raise ConfigError(
            f"vec.auto: nothing is stored for {config.env_name} with these arguments on a machine "
            f"with {available_cores()} cores; measure once with: {command}"
        ) from None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ConfigError(f"vec.auto: {path} is damaged ({error!r}); {again}") from error
    if version != __version__:
        raise ConfigError(
            f"vec.auto: {path} was measured with pufferlib {version}, but this is {__version__}; "
            f"{again}"
        )
    try:
        vec = merge(config.vec, sizes, str(path), "vec.")
        vec.validate()
    except ConfigError as error:
        raise ConfigError(f"vec.auto: {error}; {again}") from error
    return dataclasses.replace(config, vec=vec)


def command_of(config: Config, usual: Config) -> str:
    """The `puffer autotune` command for the environment of `config`.

    Args:
        config: whose environment and arguments are meant.
        usual: what `env` options are without any on the command line.
    """
    words = ["puffer", "autotune", config.env_name]
    for spec in dataclasses.fields(config.env):
        value = getattr(config.env, spec.name)
        if value != getattr(usual.env, spec.name):
            values = value if isinstance(value, (list, tuple)) else [value]
            words += [f"--env.{spec.name.replace('_', '-')}", *map(str, values)]
    return shlex.join(words)


def file_of(config: Config) -> Path:
    """Where the result for the environment of `config` on this machine is kept.

    In `$XDG_CACHE_HOME/pufferlib/autotune`, or `~/.cache/pufferlib/autotune`.
    """
    cache = Path(os.environ.get("XDG_CACHE_HOME") or "")
    if not cache.is_absolute():  # as the XDG base directory specification says
        cache = Path.home() / ".cache"
    key = json.dumps(_key(config), sort_keys=True)
    digest = hashlib.sha256(key.encode()).hexdigest()[:12]
    name = re.sub(r"[^\w.-]", "-", config.env_name)
    return cache / "pufferlib" / "autotune" / f"{name}-{digest}.json"


def _key(config: Config) -> Mapping[str, Any]:
    """What a result depends on, save the version; ready for JSON."""
    machine = {"cores": available_cores(), "quota": cgroup_quota(CGROUP)}
    arguments = dataclasses.asdict(config.env)
    return {"environment": config.env_name, "arguments": arguments, "machine": machine}
