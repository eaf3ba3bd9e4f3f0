"""Policy for environments of OpenAI Gym."""

from __future__ import annotations

from pufferlib.environments.recurrent import RecurrentPolicy
from pufferlib.models import Default


class Policy(Default):
    """A multilayer perceptron: nothing is known of the observations."""


class Recurrent(RecurrentPolicy):
    """`Policy` with an LSTM of its width, for tasks that need memory."""
