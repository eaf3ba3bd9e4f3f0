"""What lets the same run take less time: memory that is kept, number formats, CUDA graphs."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from numpy.typing import DTypeLike, NDArray
from torch import Tensor, nn
from torch.distributions import Normal

from pufferlib.exceptions import ConfigError
from pufferlib.pytorch import MixedLogits
from pufferlib.trainer.config import TrainConfig

Model = Callable[..., Any]
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # of glibc's malloc.h
WARM_UPS = 3  # as torch's documentation of CUDA graphs advises


def keep_freed_memory(limit: int = 1 << 30) -> None:
    """Let malloc keep up to `limit` bytes that were freed; does nothing where it is not glibc's.

    Every operation on the CPU allocates its result. glibc gives large results back to the kernel
    as soon as they are freed and gets every page anew, zeroed, for the next: thousands of page
    faults in an update of a small network on a thousand agents.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):  # musl, macOS; Windows takes no None
        return
    for option in (M_TRIM_THRESHOLD, M_MMAP_THRESHOLD):
        mallopt(option, limit)


def host_zeros(shape: tuple[int, ...], dtype: DTypeLike, pinned: bool = False) -> NDArray[Any]:
    """An array of zeros; pinned (page-locked), a GPU copies it while the program goes on."""
    if not pinned:
        return np.zeros(shape, dtype)
    size = math.prod(shape) * np.dtype(dtype).itemsize
    memory: NDArray[Any] = torch.zeros(size, dtype=torch.uint8, pin_memory=True).numpy()
    return memory.view(dtype).reshape(shape)


def make_model(config: TrainConfig, policy: nn.Module, device: torch.device) -> Model:
    """`policy`, compiled and in the number format that `config` says."""
    model = torch.compile(policy, mode=config.compile_mode) if config.compile else policy
    return InBfloat16(model, device) if config.precision == "bf16" else model


def make_actor(config: TrainConfig, model: Model, device: torch.device) -> Model:
    """`model` as it is called to act, replayed from CUDA graphs if `config` says so.

    Raises:
        ConfigError: there is no CUDA device.
    """
    if not config.cuda_graphs:
        return model
    if device.type != "cuda":
        raise ConfigError(
            f"train.cuda_graphs: expected a CUDA device, got '{device}'; leave the option off, or "
            "set train.device cuda"
        )
    return Graphed(model)


class InBfloat16:
    """Calls a policy in bfloat16 wherever torch's autocast holds that to be safe.

    Weights, and what is returned (logits, values, states), are float32.
    """

    def __init__(self, model: Model, device: torch.device) -> None:
        self._model = model
        self._device_type = device.type

    def __call__(self, *inputs: Any) -> Any:
        """What the policy returns for these inputs."""
        with torch.autocast(self._device_type, torch.bfloat16):
            results = self._model(*inputs)
        return _as_float32(results)


def _as_float32(results: Any) -> Any:
    if isinstance(results, Tensor):
        return results.float()
    if isinstance(results, Normal):
        return Normal(results.loc.float(), results.scale.float(), validate_args=False)
    parts = [_as_float32(part) for part in results]
    return MixedLogits(*parts) if isinstance(results, MixedLogits) else type(results)(parts)


class Graphed:
    """Replays a policy's forward pass from a CUDA graph: one launch instead of dozens.

    A graph is recorded on the first call with inputs of these shapes. It reads the weights where
    they are, so that it stays right while they are trained in place. What is returned is
    overwritten by the next call. Source of the procedure: torch's documentation, *CUDA Graphs*.
    """

    def __init__(self, model: Model) -> None:
        self._model = model
        self._recorded: dict[Any, tuple[torch.cuda.CUDAGraph, list[Tensor], Any]] = {}

    def __call__(self, *inputs: Any) -> Any:
        """What the policy returns for these inputs: tensors, tuples of tensors, None."""
        tensors = list(_tensors(inputs))
        layout = tuple((tensor.shape, tensor.dtype) for tensor in tensors)
        if layout not in self._recorded:
            self._recorded[layout] = self._record(inputs)
        graph, buffers, outputs = self._recorded[layout]
        for buffer, tensor in zip(buffers, tensors, strict=True):
            buffer.copy_(tensor)
        graph.replay()
        return outputs

    def _record(self, inputs: Any) -> tuple[torch.cuda.CUDAGraph, list[Tensor], Any]:
        inputs = _clone(inputs)
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):  # libraries choose and allocate on the first calls
            for _ in range(WARM_UPS):
                self._model(*inputs)
        torch.cuda.current_stream().wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            outputs = self._model(*inputs)
        return graph, list(_tensors(inputs)), outputs


def _tensors(inputs: Any) -> Iterator[Tensor]:
    if isinstance(inputs, Tensor):
        yield inputs
    elif inputs is not None:
        for part in inputs:
            yield from _tensors(part)


def _clone(inputs: Any) -> Any:
    if inputs is None:
        return None
    if isinstance(inputs, Tensor):
        return inputs.clone()
    return tuple(_clone(part) for part in inputs)
