"""`puffer train ENV`: from a command line to a trained policy in a run directory."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from pufferlib import environments
from pufferlib.commands.arguments import Option, parse_config
from pufferlib.commands.session import Session
from pufferlib.commands.signals import GracefulExit, Interrupted
from pufferlib.exceptions import ConfigError, GroupError
from pufferlib.trainer import checkpoint
from pufferlib.trainer.config import Config, merge, read_toml
from pufferlib.trainer.distributed import Group, connected, group_of
from pufferlib.trainer.options import flatten
from pufferlib.trainer.record import begin as begin_record
from pufferlib.trainer.runs import find_checkpoint, new_run_dir, run_dir_of, write_config
from pufferlib.trainer.setup import (
    apply_over,
    canonical_name,
    config_of_checkpoint,
    config_of_files,
)

OPTIONS: dict[str, Option] = {
    "config": (Path | None, None, "A TOML file that goes over the environment's own."),
    "resume": (str | None, None, "Go on with a run: 'latest', its name, or a checkpoint file."),
    "print_config": (bool, False, "Print the resolved configuration as JSON and exit."),
}

AFTER_OTHERS = 3.0
"""Seconds that a process stays which failed because another had."""


def train(arguments: Sequence[str]) -> int:
    """The command `puffer train`; returns its exit code."""
    env_name, rest = split_environment(arguments, "train")
    file, resume = find_option(rest, "--config"), find_option(rest, "--resume")
    path = None
    if resume:
        data_dir = find_option(rest, "--train.data-dir")
        data_dir = data_dir or config_of_files(env_name, file).train.data_dir
        path = find_checkpoint(resume, canonical_name(env_name), data_dir)
    own: dict[str, Any] = {}

    def parse(defaults: Config) -> Config:
        nonlocal own
        prog = f"puffer train {defaults.env_name}"
        config, own = parse_config(defaults, OPTIONS, rest, prog, "Train a policy with PPO.")
        return config

    config = apply_over(_defaults(env_name, file, path), parse)
    config.validate()
    if own["print_config"]:
        print(json.dumps(config.to_dict(), indent=2))
        return 0
    return run(config, path)


def run(config: Config, resume: Path | None = None) -> int:
    """Train as `config` says, from the checkpoint `resume` on if given; returns an exit code.

    The first SIGINT or SIGTERM writes a checkpoint and ends the run. So does any exception, as
    long as the weights are finite; it is then raised again. Started by `torchrun`, this is one of
    several processes, all of which must be given the same.
    """
    group = group_of(os.environ)
    with GracefulExit() as stop:
        try:
            if group.size == 1:
                return _run(config, resume, group, stop)
            return _run_together(config, resume, group, stop)
        except Interrupted as interruption:
            if group.is_main:
                print(interruption)
            return interruption.exit_code


def _run_together(config: Config, resume: Path | None, group: Group, stop: GracefulExit) -> int:
    """`_run` as one of several processes of `torchrun`, which is told the error that ends it.

    A process that fails because another has leaves `torchrun` the time to see that one first.
    """
    from torch.distributed.elastic.multiprocessing.errors import record

    def connect_and_run() -> int:
        try:
            with connected(group, config.train.device):
                group.require_equal("the configuration", dict(flatten(config.to_dict())))
                return _run(config, resume, group, stop)
        except GroupError as error:
            print(f"puffer: error: {error}", file=sys.stderr, flush=True)
        with suppress(Interrupted), stop.interruptible():
            time.sleep(AFTER_OTHERS)
        return 1

    return record(connect_and_run)() or 0


def _run(config: Config, resume: Path | None, group: Group, stop: GracefulExit) -> int:
    run_dir = group.from_main(_prepare_run_dir(config, resume) if group.is_main else Path())
    with stop.interruptible():
        session = Session(config, run_dir, resume, group)
    return session.run(stop)


def _prepare_run_dir(config: Config, resume: Path | None) -> Path:
    run_dir = run_dir_of(resume) if resume else None
    run_dir = run_dir or new_run_dir(config.train.data_dir, config.env_name)
    write_config(run_dir, config.to_dict())
    begin_record(run_dir, config.env_name, config.score_key, sys.argv)
    return run_dir


def split_environment(arguments: Sequence[str], command: str) -> tuple[str, list[str]]:
    """The name of the environment, which comes first, and the rest of the command line.

    Raises:
        ConfigError: it is missing; the message has the names.
        SystemExit: `--help` instead of a name (code 0).
    """
    usage = f"usage: puffer {command} ENV [options]"
    names = f"environments: {', '.join(environments.names())}, or module:maker of your own"
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
        return config_of_files(env_name, file)
    config = config_of_checkpoint(checkpoint.read(resume), str(resume), env_name)
    return merge(config, read_toml(Path(file)), file) if file else config
