"""Policies for any environment, and the recurrent wrapper. All are plain `torch.nn.Module`s.

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

from __future__ import annotations

import inspect
import itertools
import math
from abc import ABC, abstractmethod
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributions import Normal

from pufferlib.emulation.masks import ACTION_MASK
from pufferlib.exceptions import APIUsageError
from pufferlib.pytorch import (
    Logits,
    MixedLogits,
    NativeDtype,
    layer_init,
    mask_layout,
    mask_logits,
    nativize_dtype,
    nativize_tensor,
    unpack_mask,
)
from pufferlib.spaces import Mixed, is_box, is_discrete, is_multidiscrete

__all__ = ["ActionHead", "Convolutional", "Default", "LSTMWrapper", "MaskedPolicy", "is_recurrent"]

State = tuple[Tensor, ...]
LSTM_WEIGHTS = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")


def is_recurrent(policy: nn.Module) -> bool:
    """Whether `policy.forward` has the recurrent interface, that is, an argument `starts`."""
    return "starts" in inspect.signature(policy.forward).parameters


class ActionHead(nn.Module):
    """The last layer of a policy: hidden features to the logits of the environment's actions.

    Continuous actions get a mean from the features and a standard deviation that is a parameter
    of its own, independent of the observation (Schulman et al. 2017, section 6.1).

    Args:
        env: anything with `single_action_space`.
        hidden_size: number of features.

    Raises:
        APIUsageError: the action space is none of Discrete, MultiDiscrete, Box, Mixed.
    """

    def __init__(self, env: Any, hidden_size: int) -> None:
        super().__init__()
        self.nvec, self.shape = _action_layout(env.single_action_space)
        self.is_single_choice = is_discrete(env.single_action_space)
        if self.nvec:
            self.discrete = layer_init(nn.Linear(hidden_size, sum(self.nvec)), std=0.01)
        if self.shape is not None:
            self.mean = layer_init(nn.Linear(hidden_size, math.prod(self.shape)), std=0.01)
            self.log_std = nn.Parameter(torch.zeros(self.shape))

    def forward(self, hidden: Tensor, allowed: Tensor | None = None) -> Logits:
        """Hidden features `(B, hidden_size)` to logits for `sample_logits`.

        Args:
            hidden: the features.
            allowed: bool `(B, options)`, as for `pufferlib.pytorch.mask_logits`.
        """
        return mask_logits(self._logits(hidden), allowed)

    def _logits(self, hidden: Tensor) -> Logits:
        if self.is_single_choice:
            return self.discrete(hidden)
        if self.shape is None:
            return self._choices(hidden)
        if not self.nvec:
            return self._normal(hidden)
        return MixedLogits(self._choices(hidden), self._normal(hidden))

    def _choices(self, hidden: Tensor) -> list[Tensor]:
        return list(self.discrete(hidden).split(self.nvec, dim=-1))

    def _normal(self, hidden: Tensor) -> Normal:
        mean = self.mean(hidden).view(-1, *self.log_std.shape)
        return Normal(mean, self.log_std.exp().expand_as(mean), validate_args=False)


def _action_layout(space: Any) -> tuple[list[int], tuple[int, ...] | None]:
    """The sizes of the discrete choices, and the shape of the continuous part (None: no such)."""
    if is_discrete(space):
        return [int(space.n)], None
    if is_multidiscrete(space):
        return [int(n) for n in space.nvec.ravel()], None
    if isinstance(space, Mixed):
        return list(space.nvec), (space.shape[0] - len(space.nvec),)
    if is_box(space):
        return [], space.shape
    raise APIUsageError(
        f"single_action_space: expected Discrete, MultiDiscrete, Box or Mixed, got {space}; wrap "
        "the environment in pufferlib.emulation"
    )


class MaskedPolicy(nn.Module, ABC):
    """A policy in two halves, whose encoder hands the mask of the actions to its decoder.

    A subclass has the modules `action_head` and `value_head`.

    Args:
        env: anything with `emulated`.
    """

    action_head: ActionHead
    value_head: nn.Module

    def __init__(self, env: Any) -> None:
        super().__init__()
        self.mask_layout = mask_layout(env.emulated)
        self.native_dtype = _without_mask(nativize_dtype(env.emulated), self.mask_layout)

    @abstractmethod
    def encode_features(self, observations: Tensor) -> Tensor:
        """Observations `(B, *obs_shape)` of any dtype to features `(B, hidden_size)`."""

    def encode_observations(self, observations: Tensor) -> Tensor | tuple[Tensor, Tensor | None]:
        """Features `(B, hidden_size)`, with the mask `(B, options)` if there is one."""
        hidden = self.encode_features(observations)
        if self.mask_layout is None:
            return hidden
        return hidden, unpack_mask(observations, self.mask_layout)

    def decode_actions(self, hidden: Tensor, lookup: Any = None) -> tuple[Logits, Tensor]:
        """Features `(B, hidden_size)` and the mask, if any, to logits and value `(B, 1)`."""
        return self.action_head(hidden, lookup), self.value_head(hidden)

    def forward(self, observations: Tensor) -> tuple[Logits, Tensor]:
        """Observations `(B, *obs_shape)` to logits and value `(B, 1)`."""
        return self.decode_actions(*_with_lookup(self.encode_observations(observations)))


def _with_lookup(encoded: Any) -> tuple[Tensor, Any]:
    return encoded if isinstance(encoded, tuple) else (encoded, None)


def _without_mask(native_dtype: NativeDtype | None, mask: Any) -> NativeDtype | None:
    """The layout of what a network reads: everything but the mask."""
    if native_dtype is None or mask is None:
        return native_dtype
    return {name: leaf for name, leaf in native_dtype.items() if name != ACTION_MASK}


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
        """Observations `(B, *obs_shape)` of any dtype to features `(B, hidden_size)`."""
        return self.encoder(self._inputs(observations))

    def _inputs(self, observations: Tensor) -> Tensor:
        if self.native_dtype is None:
            return observations.reshape(len(observations), -1).float()
        leaves = _leaves(nativize_tensor(observations, self.native_dtype))
        return torch.cat([leaf.reshape(len(leaf), -1).float() for leaf in leaves], dim=-1)


def _leaves(tree: Any) -> list[Any]:
    """The values of nested dicts, in order."""
    if not isinstance(tree, dict):
        return [tree]
    return [leaf for value in tree.values() for leaf in _leaves(value)]


def _count_features(native_dtype: NativeDtype | None, space: Any) -> int:
    if native_dtype is None:
        return math.prod(space.shape)
    return sum(math.prod(leaf.shape) for leaf in _leaves(native_dtype))


class Convolutional(MaskedPolicy):
    """The convolutional network of DQN over frames, for image observations.

    uint8 pixels are scaled to 0 … 1. Source: Mnih et al. 2015, *Human-level control through deep
    reinforcement learning*.

    Args:
        env: as for `Default`; its observations are `(C, H, W)`, `(H, W, C)` or `(H, W)`, alone or
            in a Dict with nothing else but an action mask.
        hidden_size: width of the layer after the convolutions.
        channels_last: the observations are `(H, W, C)`.
        downsample: take every n-th pixel of both axes first.

    Raises:
        APIUsageError: the observations are not images, or too small for the convolutions.
    """

    def __init__(
        self,
        env: Any,
        hidden_size: int = 512,
        channels_last: bool = False,
        downsample: int = 1,
    ) -> None:
        super().__init__(env)
        self.hidden_size = hidden_size
        self.channels_last = channels_last
        self.downsample = downsample
        shape = self._image_shape(env.single_observation_space)
        channels, size = self._flat_size(shape)
        self.encoder = nn.Sequential(
            layer_init(nn.Conv2d(channels, 32, 8, stride=4)),
            nn.ReLU(),
            layer_init(nn.Conv2d(32, 64, 4, stride=2)),
            nn.ReLU(),
            layer_init(nn.Conv2d(64, 64, 3, stride=1)),
            nn.ReLU(),
            nn.Flatten(),
            layer_init(nn.Linear(size, hidden_size)),
            nn.ReLU(),
        )
        self.action_head = ActionHead(env, hidden_size)
        self.value_head = layer_init(nn.Linear(hidden_size, 1), std=1.0)

    def encode_features(self, observations: Tensor) -> Tensor:
        """Frames `(B, *obs_shape)` to features `(B, hidden_size)`."""
        (image,) = _leaves(nativize_tensor(observations, self.native_dtype))
        return self.encoder(self._frames(image))

    def _image_shape(self, space: Any) -> tuple[int, ...]:
        shapes = [space.shape]
        if self.native_dtype is not None:
            shapes = [leaf.shape for leaf in _leaves(self.native_dtype)]
        if len(shapes) != 1:
            raise APIUsageError(
                "Convolutional: expected one image as observation, got a structured one; write a "
                "policy that unpacks it with pufferlib.pytorch.nativize_tensor"
            )
        if len(shapes[0]) not in (2, 3):
            raise APIUsageError(
                "Convolutional: expected observations (C, H, W), (H, W, C) or (H, W), got "
                f"{shapes[0]}"
            )
        return shapes[0]

    def _frames(self, observations: Tensor) -> Tensor:
        """`(B, C, H, W)` float, scaled and thinned."""
        frames = observations.unsqueeze(1) if observations.ndim == 3 else observations
        if self.channels_last and observations.ndim == 4:
            frames = frames.permute(0, 3, 1, 2)
        frames = frames[:, :, :: self.downsample, :: self.downsample]
        return frames.float() / 255 if frames.dtype == torch.uint8 else frames.float()

    def _flat_size(self, shape: tuple[int, ...]) -> tuple[int, int]:
        """Channels that enter the convolutions, and numbers that leave them."""
        channels, height, width = self._frames(torch.zeros(1, *shape)).shape[1:]
        sides = []
        for side in (height, width):
            for kernel, stride in ((8, 4), (4, 2), (3, 1)):
                side = (side - kernel) // stride + 1
            sides.append(side)
        if min(sides) < 1:
            raise APIUsageError(
                f"Convolutional: expected frames of at least 36 x 36 pixels, got {height} x "
                f"{width} (from observations {shape}, downsample {self.downsample})"
            )
        return channels, 64 * sides[0] * sides[1]


class LSTMWrapper(nn.Module):
    """Puts an LSTM between a policy's encoder and its decoder.

    Args:
        env: anything with `single_observation_space`.
        policy: a module with `encode_observations` and `decode_actions`.
        input_size: width of what the policy's encoder returns.
        hidden_size: width of the LSTM; what the policy's decoder expects.
        num_layers: stacked LSTM layers.

    Raises:
        APIUsageError: the policy lacks one of the two methods.
    """

    def __init__(
        self,
        env: Any,
        policy: nn.Module,
        input_size: int = 128,
        hidden_size: int = 128,
        num_layers: int = 1,
    ) -> None:
        super().__init__()
        for method in ("encode_observations", "decode_actions"):
            if not hasattr(policy, method):
                raise APIUsageError(
                    f"LSTMWrapper: expected a policy with encode_observations and decode_actions, "
                    f"but {type(policy).__name__} has no {method}; split its forward in two"
                )
        self.observation_shape = tuple(env.single_observation_space.shape)
        self.policy: Any = policy
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.recurrent = nn.LSTM(input_size, hidden_size, num_layers)
        for name, parameter in self.recurrent.named_parameters():
            if "bias" in name:
                nn.init.zeros_(parameter)
            else:
                nn.init.orthogonal_(parameter, 1.0)

    def forward(
        self, observations: Tensor, state: State | None = None, starts: Tensor | None = None
    ) -> tuple[Logits, Tensor, State]:
        """Act on one row per agent, or on a whole segment per agent.

        Args:
            observations: `(B, *obs_shape)` or `(B, T, *obs_shape)`.
            state: `(h, c)`, each `(num_layers, B, hidden_size)`; None is all zeros.
            starts: bool `(B,)` or `(B, T)`, true where a row begins a life: the state is zeroed
                before that row. None is nowhere.

        Returns:
            logits and value `(B, 1)`; for segments the rows are flattened to `(B * T, …)`, the
            steps of one agent side by side. Then the state after the last row.

        Raises:
            APIUsageError: a shape does not fit the observation space or the other arguments.
        """
        batch, steps = self._split_shape(observations)
        rows = observations.reshape(batch * steps, *self.observation_shape)
        hidden, lookup = _with_lookup(self.policy.encode_observations(rows))
        # Time-major inside: that is the layout nn.LSTM computes in.
        hidden = hidden.reshape(batch, steps, self.input_size).transpose(0, 1)
        state = self._initial_state(batch, hidden) if state is None else state
        self._check_batch(state, starts, batch, steps)
        starts = None if starts is None else starts.reshape(batch, steps).T
        hidden, state = self._recur(hidden, state, starts)
        hidden = hidden.transpose(0, 1).reshape(batch * steps, self.hidden_size)
        logits, value = self.policy.decode_actions(hidden, lookup)
        return logits, value, state

    def _recur(self, hidden: Tensor, state: State, starts: Tensor | None) -> tuple[Tensor, State]:
        """Run the LSTM over `(T, B, input_size)`; `starts` is `(T, B)`."""
        if starts is None:
            return self.recurrent(hidden, state)
        if len(hidden) == 1:  # acting: no look at the data, so nothing to wait for on a GPU
            return self.recurrent(hidden, _zero_where(starts[0], state))
        has_start = starts.any(1).tolist()
        if not any(has_start[1:]):
            return self.recurrent(hidden, _zero_where(starts[0], state))
        resets = [row if any_row else None for row, any_row in zip(starts, has_start, strict=True)]
        last: list[State] = []
        for layer in range(self.recurrent.num_layers):
            layer_state = tuple(part[layer] for part in state)
            hidden, layer_state = _run_layer(self.recurrent, layer, hidden, layer_state, resets)
            last.append(layer_state)
        return hidden, tuple(torch.stack(parts) for parts in zip(*last, strict=True))

    def _split_shape(self, observations: Tensor) -> tuple[int, int]:
        shape, extra = observations.shape, observations.ndim - len(self.observation_shape)
        if extra not in (1, 2) or shape[extra:] != self.observation_shape:
            row = ", ".join(str(n) for n in self.observation_shape)
            raise APIUsageError(
                f"observations: expected shape (B, {row}) or (B, T, {row}), got {tuple(shape)}"
            )
        return shape[0], shape[1] if extra == 2 else 1

    def _initial_state(self, batch: int, hidden: Tensor) -> State:
        zeros = hidden.new_zeros(self.recurrent.num_layers, batch, self.hidden_size)
        return zeros, zeros

    def _check_batch(self, state: State, starts: Tensor | None, batch: int, steps: int) -> None:
        shape = (self.recurrent.num_layers, batch, self.hidden_size)
        for part in state:
            if part.shape != shape:
                raise APIUsageError(f"state: expected shape {shape}, got {tuple(part.shape)}")
        if starts is not None and starts.numel() != batch * steps:
            raise APIUsageError(
                f"starts: expected shape {(batch, steps)}, got {tuple(starts.shape)}"
            )


def _run_layer(
    lstm: nn.LSTM,
    layer: int,
    inputs: Tensor,
    state: State,
    resets: list[Tensor | None],
) -> tuple[Tensor, State]:
    """One layer of `lstm`, forgetting its state where it is told to.

        i, f, g, o = W_ih x_t + b_ih + W_hh h_{t-1} + b_hh
        c_t = sigmoid(f) c_{t-1} + sigmoid(i) tanh(g);   h_t = sigmoid(o) tanh(c_t)

    A call of `nn.LSTM` per stretch between resets would do as well, but takes twice as long where
    they are frequent. Here all inputs are multiplied at once, which leaves one product per step.
    Source of the equations: the documentation of `torch.nn.LSTM`.

    Args:
        lstm: whose weights are used.
        layer: which of its layers.
        inputs: `(T, B, …)`.
        state: `(h, c)`, each `(B, hidden_size)`.
        resets: for each step None, or bool `(B,)`: the rows whose state is zeroed before it.

    Returns:
        `(T, B, hidden_size)`, and the state after the last step.
    """
    w_ih, w_hh, b_ih, b_hh = (getattr(lstm, f"{name}_l{layer}") for name in LSTM_WEIGHTS)
    from_inputs = nn.functional.linear(inputs, w_ih, b_ih + b_hh)
    hidden, cell = state
    outputs = []
    for gates, rows in zip(from_inputs.unbind(0), resets, strict=True):
        if rows is not None:
            hidden, cell = (part.masked_fill(rows[:, None], 0) for part in (hidden, cell))
        i, f, g, o = torch.addmm(gates, hidden, w_hh.T).chunk(4, dim=-1)
        cell = f.sigmoid() * cell + i.sigmoid() * g.tanh()
        hidden = o.sigmoid() * cell.tanh()
        outputs.append(hidden)
    return torch.stack(outputs), (hidden, cell)


def _zero_where(starts: Tensor, state: State) -> State:
    """The state with zeros for the rows where `starts` `(B,)` is true."""
    return tuple(part.masked_fill(starts[None, :, None], 0) for part in state)
