"""`puffer train ENV`: from a command line to a trained policy in a run directory."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import tyro

from pufferlib import environments
from pufferlib.commands.arguments import parse_arguments
from pufferlib.commands.session import Session
from pufferlib.commands.signals import GracefulExit, Interrupted
from pufferlib.exceptions import ConfigError
from pufferlib.trainer import checkpoint
from pufferlib.trainer.config import Config, merge, read_toml
from pufferlib.trainer.runs import find_checkpoint, new_run_dir, run_dir_of, write_config
from pufferlib.trainer.setup import canonical_name, config_of_checkpoint, load_config

_OWN_OPTIONS = {
    "config": (Path | None, None, "A TOML file that goes over the environment's own."),
    "resume": (str | None, None, "Go on with a run: 'latest', its name, or a checkpoint file."),
    "print_config": (bool, False, "Print the resolved configuration as JSON and exit."),
}


def train(arguments: Sequence[str]) -> int:
    """The command `puffer train`; returns its exit code."""
    env_name, rest = split_environment(arguments, "train")
    file, resume = find_option(rest, "--config"), find_option(rest, "--resume")
    data_dir = find_option(rest, "--train.data-dir") or "runs"
    path = find_checkpoint(resume, canonical_name(env_name), data_dir) if resume else None
    config, print_config = _parse(rest, _defaults(env_name, file, path))
    config.validate()
    if print_config:
        print(json.dumps(config.to_dict(), indent=2))
        return 0
    return run(config, path)


def run(config: Config, resume: Path | None = None) -> int:
    """Train as `config` says, from the checkpoint `resume` on if given; returns an exit code.

    The first SIGINT or SIGTERM writes a checkpoint and ends the run. So does any exception, as
    long as the weights are finite; it is then raised again.
    """
    run_dir = run_dir_of(resume) if resume else None
    run_dir = run_dir or new_run_dir(config.train.data_dir, config.env_name)
    write_config(run_dir, config.to_dict())
    with GracefulExit() as stop:
        try:
            with stop.interruptible():
                session = Session(config, run_dir, resume)
            return session.run(stop)
        except Interrupted as interruption:
            print(interruption)
            return interruption.exit_code


def split_environment(arguments: Sequence[str], command: str) -> tuple[str, list[str]]:
    """The name of the environment, which comes first, and the rest of the command line.

    Raises:
        ConfigError: it is missing; the message has the names.
        SystemExit: `--help` instead of a name (code 0).
    """
    usage = f"usage: puffer {command} ENV [options]"
    names = f"environments: {', '.join(environments.names())}"
    if arguments and arguments[0] in ("-h", "--help"):
        print(f"{usage}\n\n{names}\n\npuffer {command} ENV --help shows the options")
        raise SystemExit(0)
    if not arguments or arguments[0].startswith("-"):
        raise ConfigError(f"the environment comes first\n{usage}\n{names}")
    return arguments[0], list(arguments[1:])


def find_option(arguments: Sequence[str], name: str) -> str | None:
    """The last value of an option that decides how the rest of the line is read."""
    value = None
    for position, word in enumerate(arguments):
        option, equals, text = word.partition("=")
        if option.replace("_", "-") == name:
            value = text if equals else next(iter(arguments[position + 1 :]), None)
    return value


def _defaults(env_name: str, file: str | None, resume: Path | None) -> Config:
    """What the command line overrides: the environment's files, or what a run was started with."""
    if resume is None:
        return load_config(env_name, file)
    config = config_of_checkpoint(checkpoint.read(resume), str(resume), env_name)
    return merge(config, read_toml(Path(file)), file) if file else config


def _parse(arguments: Sequence[str], defaults: Config) -> tuple[Config, bool]:
    """The configuration with the command line over `defaults`, and whether to print it only."""
    kind = _arguments_type(type(defaults))
    values = {spec.name: getattr(defaults, spec.name) for spec in dataclasses.fields(defaults)}
    parsed: Any = parse_arguments(
        kind, arguments, f"puffer train {defaults.env_name}", kind(**values)
    )
    config = dataclasses.replace(defaults, **{name: getattr(parsed, name) for name in values})
    return config, parsed.print_config


def _arguments_type(config: type[Config]) -> type:
    """The configuration's dataclass with the options of the command itself."""
    fields: list[Any] = [
        (name, Annotated[kind, tyro.conf.arg(help=text)], dataclasses.field(default=default))
        for name, (kind, default, text) in _OWN_OPTIONS.items()
    ]
    fields.append(("env_name", tyro.conf.Fixed[tyro.conf.Suppress[str]], dataclasses.field()))
    made = dataclasses.make_dataclass(
        "Arguments", fields, bases=(config,), frozen=True, kw_only=True
    )
    made.__doc__ = "Train a policy with PPO."
    return made
