"""`puffer export ENV`: a trained policy as an ONNX file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pufferlib
from pufferlib.commands.arguments import parse_arguments
from pufferlib.commands.train import split_environment
from pufferlib.exceptions import ConfigError
from pufferlib.trainer import checkpoint
from pufferlib.trainer.export import export_onnx
from pufferlib.trainer.runs import find_checkpoint, slug
from pufferlib.trainer.setup import (
    canonical_name,
    config_of_checkpoint,
    make_vecenv,
    policy_of_checkpoint,
)


@dataclass(frozen=True, kw_only=True)
class ExportArguments:
    """Write a trained policy to a file that runs without torch (needs the extra 'onnx')."""

    checkpoint: str = "latest"
    """'latest', the name of a run, or a checkpoint file."""
    onnx: Path | None = None
    """The ONNX file; None: ENV.onnx in this directory."""
    data_dir: str = "runs"
    """Directory that holds the runs."""


def export(arguments: Sequence[str]) -> int:
    """The command `puffer export`; returns its exit code.

    Raises:
        ConfigError: the directory of the file does not exist.
        CheckpointError: there is no such checkpoint, or it does not fit the environment.
        EnvironmentSetupError: the extra `onnx` is not installed.
        ExportError: the policy does something that ONNX cannot express, or the file cannot be
            written.
    """
    env_name, rest = split_environment(arguments, "export")
    options = parse_arguments(ExportArguments, rest, f"puffer export {env_name}")
    name = canonical_name(env_name)
    file = options.onnx or Path(f"{slug(name)}.onnx")
    if not file.parent.is_dir():
        raise ConfigError(f"--onnx: expected a file in a directory that exists, got {file}")
    source = find_checkpoint(options.checkpoint, name, options.data_dir)
    content = checkpoint.read(source)
    config = config_of_checkpoint(content, str(source), name)
    metadata = {
        "env": name,
        "checkpoint": str(source),
        "global_step": content["global_step"],
        "pufferlib": pufferlib.__version__,
    }
    with make_vecenv(config, backend="serial", num_envs=1, batch_size="auto") as vecenv:
        policy = policy_of_checkpoint(content, str(source), config, vecenv)
        export_onnx(policy, vecenv.driver_env, file, metadata)
    print(f"{source}\n{file}  {file.stat().st_size:,} bytes")
    return 0
