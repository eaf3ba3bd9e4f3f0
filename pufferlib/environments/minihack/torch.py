"""Policy of MiniHack: NetHack's, as the worlds are made of the same glyphs."""

from pufferlib.environments.nethack.torch import Policy, Recurrent

__all__ = ["Policy", "Recurrent"]
