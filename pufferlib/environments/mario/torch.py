"""Policy of Super Mario Bros."""

from __future__ import annotations

from pufferlib.environments.recurrent import RecurrentPolicy
from pufferlib.models import Convolutional


class Policy(Convolutional):
    """The network of Mnih et al. 2015 over the stacked frames."""


class Recurrent(RecurrentPolicy):
    """`Policy` with an LSTM of its width; one frame instead of a stack is then enough."""
