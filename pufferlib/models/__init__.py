"""Policies for any environment, and the recurrent wrappers. All are plain `torch.nn.Module`s.

A policy maps a batch of observations to `(logits, value)`; the forms of `logits` are those of
`pufferlib.pytorch.sample_logits`, `value` is `(B, 1)`. A policy that can be made recurrent splits
`forward` in two:

* `encode_observations(observations) -> hidden`, or `(hidden, lookup)` to hand something past the
  recurrent layer to the decoder;
* `decode_actions(hidden, lookup) -> (logits, value)`.

The policies here hand the mask of the actions past the recurrent layer in this way, where an
observation has one (a Dict with the key `action_mask`). The mask rules options out and is no
feature.
"""

from pufferlib.models.convolutional import Convolutional
from pufferlib.models.default import Default
from pufferlib.models.heads import ActionHead
from pufferlib.models.lstm import LSTMWrapper
from pufferlib.models.masked import MaskedPolicy
from pufferlib.models.mingru import MinGRUWrapper
from pufferlib.models.recurrent import RecurrentWrapper, is_recurrent
from pufferlib.models.residual import Residual

__all__ = [
    "ActionHead",
    "Convolutional",
    "Default",
    "LSTMWrapper",
    "MaskedPolicy",
    "MinGRUWrapper",
    "RecurrentWrapper",
    "Residual",
    "is_recurrent",
]
