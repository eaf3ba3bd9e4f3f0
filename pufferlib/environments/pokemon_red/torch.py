"""Policy of Pokemon Red."""

from __future__ import annotations

from pufferlib.environments.recurrent import RecurrentPolicy
from pufferlib.models import Convolutional


class Policy(Convolutional):
    """The network of Mnih et al. 2015 over the last screens, with one head each."""


class Recurrent(RecurrentPolicy):
    """`Policy` with an LSTM of its width: what a menu was opened for is not on the screen."""
