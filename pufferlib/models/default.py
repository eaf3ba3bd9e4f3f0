"""A multilayer perceptron for small observations."""

from __future__ import annotations

import itertools
import math
from typing import Any

import torch
from torch import Tensor, nn

from pufferlib.models.heads import ActionHead
from pufferlib.models.masked import MaskedPolicy
from pufferlib.pytorch import NativeDtype, layer_init, nativize_tensor


class Default(MaskedPolicy):
    """A multilayer perceptron over the whole observation, as float.

    A structured observation is unpacked and its leaves are concatenated. Good for small vectors;
    write an own policy for anything that has a structure to exploit (images, text, entities).

    Args:
        env: anything with `single_observation_space`, `single_action_space` and `emulated`, such
            as `vecenv.driver_env`.
        hidden_size: width of the hidden layers.
        num_layers: number of hidden layers.
    """

    def __init__(self, env: Any, hidden_size: int = 128, num_layers: int = 1) -> None:
        super().__init__(env)
        self.hidden_size = hidden_size
        features = _count_features(self.native_dtype, env.single_observation_space)
        sizes = [features] + [hidden_size] * num_layers
        layers: list[nn.Module] = []
        for inputs, outputs in itertools.pairwise(sizes):
            layers += [layer_init(nn.Linear(inputs, outputs)), nn.ReLU()]
        self.encoder = nn.Sequential(*layers)
        self.action_head = ActionHead(env, hidden_size)
        self.value_head = layer_init(nn.Linear(hidden_size, 1), std=1.0)

    def encode_features(self, observations: Tensor) -> Tensor:
        """Observations `(B, *observation_shape)` of any dtype to features `(B, hidden_size)`."""
        return self.encoder(self._inputs(observations))

    def _inputs(self, observations: Tensor) -> Tensor:
        if self.native_dtype is None:
            return _flat(observations).float()
        parts = leaves(nativize_tensor(observations, self.native_dtype))
        return torch.cat([_flat(leaf).float() for leaf in parts], dim=-1)


def _flat(batch: Tensor) -> Tensor:
    return batch.reshape(batch.shape[0], -1)  # len() would fix the batch size of an export


def leaves(tree: Any) -> list[Any]:
    """The values of nested dicts, in order."""
    if not isinstance(tree, dict):
        return [tree]
    return [leaf for value in tree.values() for leaf in leaves(value)]


def _count_features(native_dtype: NativeDtype | None, space: Any) -> int:
    if native_dtype is None:
        return math.prod(space.shape)
    return sum(math.prod(leaf.shape) for leaf in leaves(native_dtype))
