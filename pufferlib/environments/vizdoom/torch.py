"""Policy of ViZDoom's scenarios."""

from __future__ import annotations

from pufferlib.environments.recurrent import RecurrentPolicy
from pufferlib.models import Convolutional


class Policy(Convolutional):
    """The network of Mnih et al. 2015 over the stacked frames, with one head each."""


class Recurrent(RecurrentPolicy):
    """`Policy` with an LSTM of its width: remembers what is behind one's back."""
