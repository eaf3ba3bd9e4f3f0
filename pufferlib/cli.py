"""The `puffer` command: train, evaluate, bring environments, and check the machine.

Exit codes: 0 success, 1 a failure, 2 a command line that makes no sense, 130 and 143 after
SIGINT and SIGTERM. `puffer doctor` returns the number of things that do not fit.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable, Sequence

import pufferlib
import pufferlib.commands.signals  # first, see `_disarm` there
from pufferlib.exceptions import ConfigError, PufferError
from pufferlib.trainer.options import did_you_mean

COMMANDS = {
    "train": ("pufferlib.commands.train:train", "train a policy: puffer train ENV [options]"),
    "eval": ("pufferlib.commands.evaluate:evaluate", "measure or watch one: puffer eval ENV"),
    "export": ("pufferlib.commands.export:export", "write one as ONNX: puffer export ENV"),
    "autotune": (
        "pufferlib.commands.autotune:autotune",
        "find how it runs fastest here: puffer autotune ENV",
    ),
    "profile": ("pufferlib.commands.profile:profile", "where training's time goes"),
    "runs": ("pufferlib.commands.runs:runs", "list and compare what has been trained"),
    "plot": ("pufferlib.commands.plot:plot", "draw learning curves: puffer plot RUN…"),
    "envs": ("pufferlib.commands.environments:envs", "list the environments"),
    "new-env": (
        "pufferlib.commands.new_env:new_env",
        "write one of your own: puffer new-env NAME [--native]",
    ),
    "install": ("pufferlib.commands.environments:install", "install what an environment needs"),
    "doctor": ("pufferlib.commands.doctor:doctor", "check the stack of this machine"),
    "verify": ("pufferlib.commands.verify:verify", "train the sanity environments and judge"),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run `puffer` with `arguments` (those of the process by default) and return its exit code."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    if not words or words[0] in ("-h", "--help"):
        print(usage())
        return 0 if words else 2
    if words[0] == "--version":
        print(f"pufferlib {pufferlib.__version__}")
        return 0
    try:
        return _load(words[0])(words[1:])
    except ConfigError as error:
        return _fail(error, 2)
    except PufferError as error:
        return _fail(error, 1)
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # whoever read has seen enough, as `head` has
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1


def usage() -> str:
    """What `puffer --help` prints."""
    lines = [f"  {name:<10}{description}" for name, (_, description) in COMMANDS.items()]
    return "\n".join(
        [
            "usage: puffer COMMAND [options]",
            "",
            *lines,
            "",
            "puffer COMMAND --help shows the options of a command, and",
            "puffer train ENV --help every setting of an environment with its default.",
        ]
    )


def _load(name: str) -> Callable[[list[str]], int]:
    if name not in COMMANDS:
        raise ConfigError(f"unknown command '{name}'{did_you_mean(name, COMMANDS, 'puffer ')}")
    module, _, function = COMMANDS[name][0].partition(":")
    return getattr(importlib.import_module(module), function)


def _fail(error: PufferError, code: int) -> int:
    print(f"puffer: error: {error}", file=sys.stderr)
    return code
