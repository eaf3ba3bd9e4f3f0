"""Where the curves of a run go: a small protocol, its implementations, and all of them as one."""

from pufferlib.trainer.loggers.base import Logger, RunInfo, State
from pufferlib.trainer.loggers.loggers import Loggers, make_loggers

__all__ = ["Logger", "Loggers", "RunInfo", "State", "make_loggers"]
