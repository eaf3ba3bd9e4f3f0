"""The torch side of emulation: unpack flat observation rows, sample every action layout.

Environments hand out flat rows of one dtype. `nativize_dtype` and `nativize_tensor` turn them
back into the structured observation on the device, without a copy. `unpack_mask` and `mask_logits`
rule out the actions that an observation does not allow. `sample_logits` turns what a policy returns
into actions, whatever the action space is, and `greedy_actions` into the most likely ones.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.distributions import Normal

from pufferlib.exceptions import APIUsageError

__all__ = [
    "Logits",
    "MixedLogits",
    "NativeDtype",
    "NativeLeaf",
    "NativeRows",
    "greedy_actions",
    "layer_init",
    "mask_layout",
    "mask_logits",
    "nativize_dtype",
    "nativize_tensor",
    "sample_actions",
    "sample_logits",
    "unpack_mask",
]

LOG_SQRT_2PI = 0.5 * math.log(2 * math.pi)


class NativeLeaf(NamedTuple):
    """Where one leaf lies in a row: `row[offset : offset + delta]`, counted in row elements."""

    dtype: torch.dtype
    shape: tuple[int, ...]
    offset: int
    delta: int
    row_dtype: torch.dtype


NativeDtype = dict[str, Any]
"""Field name → `NativeLeaf`, or → another `NativeDtype` for a nested space."""


class NativeRows:
    """Emulated rows whose leaves are tensors already; stands in for the tensor of the rows.

    For formats such as ONNX, which cannot reinterpret bytes. It has what a policy needs that reads
    its rows through `nativize_tensor` and `unpack_mask`, recurrent or not.

    Args:
        leaves: each `(*batch, *leaf.shape)`.
        row_size: elements of a row.
    """

    def __init__(self, leaves: Mapping[NativeLeaf, Tensor], row_size: int) -> None:
        self._leaves = leaves
        leaf, tensor = next(iter(leaves.items()))
        self.shape = (*tensor.shape[: tensor.ndim - len(leaf.shape)], row_size)
        self.ndim = len(self.shape)

    def leaf(self, leaf: NativeLeaf) -> Tensor:
        """The leaf `(*batch, *leaf.shape)`."""
        return self._leaves[leaf]

    def reshape(self, *shape: int) -> NativeRows:
        """The same rows with another batch shape."""
        leaves = {
            leaf: tensor.reshape(*shape[:-1], *leaf.shape) for leaf, tensor in self._leaves.items()
        }
        return NativeRows(leaves, shape[-1])


class MixedLogits(NamedTuple):
    """What a policy returns for a `pufferlib.spaces.Mixed` action: choices beside continuous."""

    discrete: list[Tensor]
    continuous: Normal


Logits = Tensor | list[Tensor] | tuple[Tensor, ...] | Normal | MixedLogits


def nativize_dtype(emulated: Any) -> NativeDtype | None:
    """The layout of emulated rows, for `nativize_tensor`; compute it once, in `__init__`.

    Args:
        emulated: `env.emulated` (or `vecenv.driver_env.emulated`).

    Returns:
        Nested dict with a `NativeLeaf` per leaf. Tuple spaces have the keys `f0`, `f1`, ….
        None when the observations are not emulated.
    """
    if emulated is None or emulated.observation_dtype.names is None:
        return None
    return _nativize_struct(emulated.observation_dtype, emulated.emulated_observation_dtype, 0)


def _nativize_struct(struct: np.dtype[Any], row: np.dtype[Any], base: int) -> NativeDtype:
    # Offsets come from the dtype, never from summed sizes: aligned structs are padded, and a
    # nested struct is padded at its end too.
    assert struct.fields is not None
    assert struct.names is not None
    native: NativeDtype = {}
    for name in struct.names:
        dtype, offset = struct.fields[name][:2]
        if dtype.names is not None:
            native[name] = _nativize_struct(dtype, row, base + offset)
        else:
            native[name] = NativeLeaf(
                dtype=_torch_dtype(dtype.base),
                shape=dtype.shape,
                offset=(base + offset) // row.itemsize,
                delta=dtype.itemsize // row.itemsize,
                row_dtype=_torch_dtype(row),
            )
    return native


def _torch_dtype(dtype: np.dtype[Any]) -> torch.dtype:
    return torch.from_numpy(np.empty(0, dtype)).dtype


def nativize_tensor(observations: Tensor | NativeRows, native_dtype: NativeDtype | None) -> Any:
    """Unpack emulated rows into the structured observation: views, nothing is copied.

    Args:
        observations: `(*batch, row_size)`, any number of leading dimensions, in the dtype the
            environment delivers (not cast to float).
        native_dtype: from `nativize_dtype`. None passes the tensor through unchanged.

    Returns:
        Nested dict of tensors `(*batch, *leaf.shape)` by field name.

    Raises:
        APIUsageError: the rows were cast to another dtype before they were unpacked.
    """
    if native_dtype is None:
        return observations
    return {
        name: _nativize_leaf(observations, leaf)
        if isinstance(leaf, NativeLeaf)
        else nativize_tensor(observations, leaf)
        for name, leaf in native_dtype.items()
    }


def _nativize_leaf(observations: Tensor | NativeRows, leaf: NativeLeaf) -> Tensor:
    if isinstance(observations, NativeRows):
        return observations.leaf(leaf)
    if observations.dtype != leaf.row_dtype:
        raise APIUsageError(
            f"observations: expected rows of {leaf.row_dtype}, got {observations.dtype}; pass them "
            "as the environment delivers them (torch.from_numpy, not torch.Tensor) and convert "
            "the leaves to float after unpacking"
        )
    columns = observations[..., leaf.offset : leaf.offset + leaf.delta]
    shape = (*observations.shape[:-1], *leaf.shape)
    if columns.numel() == 0:  # strides of nothing need not allow another view
        return columns.new_empty(shape, dtype=leaf.dtype)
    if leaf.dtype != leaf.row_dtype:
        columns = columns.view(leaf.dtype)
    return columns.view(shape)


def mask_layout(emulated: Any) -> list[NativeLeaf] | None:
    """Where rows hold the mask of their actions, for `unpack_mask`; compute it once.

    Args:
        emulated: `env.emulated` (or `vecenv.driver_env.emulated`).

    Returns:
        The parts of the mask in the order of the actions' choices. None when there is no mask.
    """
    mask = getattr(emulated, "action_mask", None)
    if mask is None:
        return None
    native: Any = nativize_dtype(emulated)
    return [functools.reduce(operator.getitem, names, native) for names in mask.fields]


def unpack_mask(
    observations: Tensor | NativeRows, layout: list[NativeLeaf] | None
) -> Tensor | None:
    """The options that each row allows.

    Args:
        observations: `(*batch, row_size)`, as for `nativize_tensor`.
        layout: from `mask_layout`.

    Returns:
        Bool `(*batch, options)`, the options of all choices side by side, for `mask_logits`.
        None when there is no mask.
    """
    if layout is None:
        return None
    batch = observations.shape[:-1]
    parts = [
        _nativize_leaf(observations, leaf).reshape(*batch, math.prod(leaf.shape)) for leaf in layout
    ]
    return torch.cat([part != 0 for part in parts], dim=-1)


def mask_logits(logits: Logits, allowed: Tensor | None) -> Logits:
    """Rule options out: their logits become minus infinity, which `sample_logits` understands.

    Where none of a choice's options is allowed, as in the zero rows of absent agents and at the
    end of an episode, all of them are: such an action has no effect, but its logits stay finite.

    Args:
        logits: in any form of `sample_logits`; continuous ones stay as they are.
        allowed: bool `(B, options)` from `unpack_mask`. None allows everything.

    Raises:
        APIUsageError: another number of options.
    """
    if allowed is None or isinstance(logits, Normal):
        return logits
    if isinstance(logits, MixedLogits):
        return MixedLogits(_mask_choices(logits.discrete, allowed), logits.continuous)
    if isinstance(logits, Tensor):
        return _mask_choices([logits], allowed)[0]
    return _mask_choices(logits, allowed)


def _mask_choices(heads: Sequence[Tensor], allowed: Tensor) -> list[Tensor]:
    sizes = [head.shape[-1] for head in heads]
    if allowed.shape[-1] != sum(sizes):
        raise APIUsageError(
            f"allowed: expected {sum(sizes)} options to fit the logits, got {allowed.shape[-1]}"
        )
    ruled_out = [~part & part.any(-1, keepdim=True) for part in allowed.split(sizes, dim=-1)]
    return [head.masked_fill(out, -math.inf) for head, out in zip(heads, ruled_out, strict=True)]


def layer_init(layer: Any, std: float = math.sqrt(2), bias_const: float = 0.0) -> Any:
    """Initialize a layer as is usual for PPO: orthogonal weight, constant bias; returns it.

    Source: Andrychowicz et al. 2021, *What Matters in On-Policy Reinforcement Learning?*; the
    scales are those of OpenAI Baselines: √2 in hidden layers, 0.01 for policies, 1 for values.
    """
    nn.init.orthogonal_(layer.weight, std)
    if layer.bias is not None:
        nn.init.constant_(layer.bias, bias_const)
    return layer


def sample_logits(logits: Logits, action: Tensor | None = None) -> tuple[Tensor, Tensor, Tensor]:
    """Sample actions, or take the given ones, with their log-probability and entropy.

    Samples come from torch's global random generator.

    Args:
        logits: `(B, n)` for one choice; a list or tuple of `(B, n_i)` for several; a
            `torch.distributions.Normal` over `(B, *shape)` for continuous actions; `MixedLogits`.
            Choices may be ruled out by logits of minus infinity.
        action: actions to evaluate, in the layout below; None samples them.

    Returns:
        action: `(B,)` int64; `(B, k)` int64; `(B, *shape)` float; `(B, k + m)` float with
            the k choices first. A batch of one keeps its dimension.
        logprob: `(B,)`, the sum over the independent parts.
        entropy: `(B,)`, likewise.

    Raises:
        APIUsageError: the logits have none of these forms, or the actions do not fit them.
    """
    if isinstance(logits, MixedLogits):
        return _sample_mixed(logits, action)
    if isinstance(logits, Tensor):
        return _sample_choice(logits, action)
    if isinstance(logits, Normal):
        return _sample_normal(logits, action)
    if isinstance(logits, list | tuple):
        # MixedLogits, which is a tuple too, has returned above.
        return _sample_choices(logits, action)  # type: ignore[arg-type]
    raise APIUsageError(
        "logits: expected a tensor, a list of tensors, torch.distributions.Normal or MixedLogits, "
        f"got {type(logits).__name__}"
    )


def sample_actions(logits: Logits) -> tuple[Tensor, Tensor]:
    """Sample actions with their log-probability: `sample_logits` where no entropy is needed."""
    if not isinstance(logits, Tensor):
        return sample_logits(logits)[:2]
    log_probs = torch.log_softmax(logits, dim=-1)
    action = _sample_index(log_probs)
    return action, _at(log_probs, action)


def greedy_actions(logits: Logits) -> Tensor:
    """The most likely action `(B, *action_shape)`, for every form of logits of `sample_logits`."""
    if isinstance(logits, Tensor):
        return logits.argmax(-1)
    if isinstance(logits, Normal):
        return logits.mean
    if isinstance(logits, MixedLogits):
        choices = greedy_actions(logits.discrete).float()
        return torch.cat([choices, logits.continuous.mean], dim=-1)
    return torch.stack([part.argmax(-1) for part in logits], dim=-1)


def _sample_choice(logits: Tensor, action: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
    log_probs = torch.log_softmax(logits, dim=-1)
    if action is None:
        action = _sample_index(log_probs.detach())
    elif action.shape != logits.shape[:-1]:
        raise _misfit(action, logits.shape[:-1])
    return action, _at(log_probs, action), _Entropy.apply(log_probs)


def _at(log_probs: Tensor, action: Tensor) -> Tensor:
    return log_probs.gather(-1, action.long().unsqueeze(-1)).squeeze(-1)


class _Entropy(torch.autograd.Function):
    """`H = -sum(p log p)` of log-probabilities; `dH / d log p = -p (log p + 1)`.

    A probability of 0 contributes 0 to both, not 0 * -inf. The derivative is written out because
    autograd would take twice as many operations, which count where minibatches are small.
    """

    @staticmethod
    def forward(ctx: Any, log_probs: Tensor) -> Tensor:
        finite = log_probs.clamp(min=torch.finfo(log_probs.dtype).min)
        probs = log_probs.exp()
        ctx.save_for_backward(finite, probs)
        return (probs * finite).sum(-1).neg_()

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        finite, probs = ctx.saved_tensors
        return (finite + 1) * probs * -gradients[0].unsqueeze(-1)


def _sample_index(log_probs: Tensor) -> Tensor:
    # Of independent exponential clocks with the rates p, clock i rings first with probability p_i;
    # -log(u) / p_i is when it rings. Cheaper than multinomial and free of its checks; and uniform
    # numbers are several times cheaper than torch's exponential ones. Never 0, so that the
    # logarithm is finite and an option with p = 0 never the first.
    # Source: Maddison et al. 2014, "A* Sampling", the Gumbel-max trick before its logarithm.
    uniform = torch.empty_like(log_probs, dtype=torch.float32)
    uniform.uniform_(torch.finfo(uniform.dtype).tiny, 1)
    return (uniform.log_() / log_probs.exp()).argmax(-1)


def _sample_choices(
    heads: list[Tensor] | tuple[Tensor, ...], action: Tensor | None
) -> tuple[Tensor, Tensor, Tensor]:
    if action is not None and action.shape != (*heads[0].shape[:-1], len(heads)):
        raise _misfit(action, (*heads[0].shape[:-1], len(heads)))
    given = [None] * len(heads) if action is None else action.unbind(-1)
    parts = [_sample_choice(head, column) for head, column in zip(heads, given, strict=True)]
    actions, logprobs, entropies = (torch.stack(part, dim=-1) for part in zip(*parts, strict=True))
    return actions, logprobs.sum(-1), entropies.sum(-1)


def _sample_normal(normal: Normal, action: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
    mean, std = normal.loc, normal.scale
    if action is None:
        action = torch.normal(mean.detach(), std.detach())
    elif action.shape != mean.shape:
        raise _misfit(action, mean.shape)
    log_std = std.log()
    logprob = -0.5 * ((action - mean) / std) ** 2 - log_std - LOG_SQRT_2PI
    entropy = 0.5 + LOG_SQRT_2PI + log_std
    return action, _sum_rows(logprob), _sum_rows(entropy)


def _sample_mixed(logits: MixedLogits, action: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
    count = len(logits.discrete)
    choices = None if action is None else action[..., :count]
    values = None if action is None else action[..., count:]
    choices, logprob, entropy = _sample_choices(logits.discrete, choices)
    values, value_logprob, value_entropy = _sample_normal(logits.continuous, values)
    row = torch.cat([choices.to(values.dtype), values], dim=-1)
    return row, logprob + value_logprob, entropy + value_entropy


def _sum_rows(x: Tensor) -> Tensor:
    return x.reshape(x.shape[0], -1).sum(-1)


def _misfit(action: Tensor, expected: Any) -> APIUsageError:
    return APIUsageError(
        f"action: expected shape {tuple(expected)} to fit the logits, got {tuple(action.shape)}"
    )
