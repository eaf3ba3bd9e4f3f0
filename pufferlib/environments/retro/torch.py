"""Policy of console games: that of Atari, whose frames they are brought to."""

from pufferlib.environments.atari.torch import Policy, Recurrent

__all__ = ["Policy", "Recurrent"]
