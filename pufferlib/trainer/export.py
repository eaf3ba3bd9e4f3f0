"""A trained policy as an ONNX file: one step of acting, for programs without torch.

Every input and output has the batch as a free dimension (of a state the second, else the first):

| input | what it is |
| --- | --- |
| `observations` | `(batch, *observation_shape)`, in the dtype that the environment delivers |
| `observations.KEY.KEY` | instead, for each leaf of a structured observation: `(batch, *leaf)` |
| `state.0`, `state.1`, … | of a recurrent policy: its state, zeros at first |
| `starts` | of a recurrent policy: bool `(batch,)`, true where an episode begins |

| output | what it is |
| --- | --- |
| `logits` | `(batch, n)`, of a Discrete action |
| `logits.0`, `logits.1`, … | `(batch, n_i)`, of the choices of other actions |
| `mean`, `std` | `(batch, *shape)`, of continuous actions, which the bounds of the space clip |
| `value` | `(batch, 1)` |
| `next_state.0`, … | the state for the next step |

Emulated rows are bytes that a policy reinterprets. ONNX has no such operation, so there the leaves
are the inputs, by the names that `pufferlib.pytorch.nativize_dtype` gives them. Logits of options
that a mask rules out are minus infinity.
"""

from __future__ import annotations

import importlib.util
import os
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.distributions import Normal

from pufferlib.exceptions import EnvironmentSetupError, ExportError
from pufferlib.models import is_recurrent
from pufferlib.pytorch import (
    Logits,
    MixedLogits,
    NativeDtype,
    NativeLeaf,
    NativeRows,
    nativize_dtype,
)
from pufferlib.spaces import row_layout

PACKAGES = ("onnx", "onnxscript")
"""What torch's exporter needs."""

OPSET = 20
EXAMPLES = 2
"""Rows of the example that the graph is traced with: one would be taken for a constant."""


class ActingStep(nn.Module):
    """One step of a policy, from tensors to tensors.

    Args:
        policy: of any kind that the trainer takes.
        env: anything with `single_observation_space` and `emulated`.
    """

    def __init__(self, policy: nn.Module, env: Any) -> None:
        super().__init__()
        self.policy = policy
        shape, dtype = row_layout(env.single_observation_space)
        self._shape = shape
        self._dtype = torch.from_numpy(np.empty(0, dtype)).dtype
        self._leaves = dict(_named_leaves(nativize_dtype(env.emulated)))

    def forward(
        self,
        observations: tuple[Tensor, ...],
        state: tuple[Tensor, ...] = (),
        starts: Tensor | None = None,
    ) -> tuple[Tensor, ...]:
        """From the inputs to the outputs that the module lists, both in its order."""
        logits, value, next_state = self.act(observations, state, starts)
        return (*named_heads(logits).values(), value, *next_state)

    def act(
        self,
        observations: tuple[Tensor, ...],
        state: tuple[Tensor, ...] | None,
        starts: Tensor | None,
    ) -> tuple[Logits, Tensor, tuple[Tensor, ...]]:
        """What the policy returns; `()` as the state of one without (`starts` is None)."""
        rows: Any = observations[0]
        if self._leaves:
            leaves = dict(zip(self._leaves.values(), observations, strict=True))
            rows = NativeRows(leaves, self._shape[0])
        if starts is None:
            return (*self.policy(rows), ())
        return self.policy(rows, state, starts)

    def example_observations(self) -> dict[str, Tensor]:
        """Zeros `(EXAMPLES, …)` by the name of the input."""
        if not self._leaves:
            return {"observations": torch.zeros(EXAMPLES, *self._shape, dtype=self._dtype)}
        return {
            name: torch.zeros(EXAMPLES, *leaf.shape, dtype=leaf.dtype)
            for name, leaf in self._leaves.items()
        }


def export_onnx(
    policy: nn.Module, env: Any, path: str | Path, metadata: Mapping[str, Any] | None = None
) -> None:
    """Write one step of `policy` to the ONNX file `path`, whole or not at all.

    Args:
        policy: on the CPU; its mode (training or not) and its weights stay as they are.
        env: anything with the spaces and `emulated` that the policy was made for, such as
            `vecenv.driver_env`.
        path: the file; its directory must exist.
        metadata: further properties of the file, beside the spaces and the opset.

    Raises:
        EnvironmentSetupError: the extra `onnx` is not installed.
        ExportError: the policy does something that torch or ONNX cannot express, or the file
            cannot be written.
    """
    _require_onnx()
    training = policy.training
    step = ActingStep(policy, env).eval()
    try:
        program = _trace(step, is_recurrent(policy))
    finally:
        policy.train(training)
    spaces = {
        "observation_space": env.single_observation_space,
        "action_space": env.single_action_space,
    }
    properties = {"opset": OPSET} | spaces | dict(metadata or {})
    program.model.producer_name = "pufferlib"
    program.model.metadata_props.update({key: str(value) for key, value in properties.items()})
    path = Path(path)
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        program.save(partial, external_data=False)
        partial.replace(path)
    except OSError as error:
        raise ExportError(f"cannot write {path}: {error.strerror}; choose another file") from error
    finally:
        partial.unlink(missing_ok=True)


def named_heads(logits: Logits) -> dict[str, Tensor]:
    """The tensors of any form of logits, with their shapes, by the names of the outputs."""
    if isinstance(logits, Tensor):
        return {"logits": logits}
    if isinstance(logits, Normal):
        return {"mean": logits.mean, "std": logits.stddev}
    if isinstance(logits, MixedLogits):
        return named_heads(logits.discrete) | named_heads(logits.continuous)
    return {f"logits.{index}": head for index, head in enumerate(logits)}


@torch.no_grad()
def _trace(step: ActingStep, recurrent: bool) -> Any:
    """The ONNX program of `step`."""
    observations = step.example_observations()
    starts = torch.ones(EXAMPLES, dtype=torch.bool) if recurrent else None
    logits, _, state = step.act(tuple(observations.values()), None, starts)
    names = [*observations, *(f"state.{index}" for index in range(len(state)))]
    outputs = [*named_heads(logits), "value"]
    outputs += [f"next_state.{index}" for index in range(len(state))]
    inputs: list[Any] = [tuple(observations.values())]
    if recurrent:
        names.append("starts")
        inputs += [state, starts]

    def free_axes(batch: Any) -> tuple[Any, ...]:
        axes = (({0: batch},) * len(observations), ({1: batch},) * len(state), {0: batch})
        return axes[: len(inputs)]

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch's, about itself
            free = free_axes(torch.export.Dim("batch"))
            graph = torch.export.export(step, tuple(inputs), dynamic_shapes=free)
            return torch.onnx.export(
                graph,
                dynamo=True,
                opset_version=OPSET,
                input_names=names,
                output_names=outputs,
                dynamic_shapes=free_axes("batch"),  # here they only name the axes
                verbose=False,
            )
    except Exception as error:  # torch raises a dozen unrelated types
        raise ExportError(
            f"{type(step.policy).__name__} cannot be exported: expected tensor operations that "
            "ONNX has, without a look at the data or at the size of the batch (tensor.shape[0] "
            f"instead of len(tensor)), got {type(error).__name__}: {error}"
        ) from error


def _named_leaves(
    native: NativeDtype | None, prefix: str = "observations"
) -> Iterator[tuple[str, NativeLeaf]]:
    for name, value in (native or {}).items():
        if isinstance(value, NativeLeaf):
            yield f"{prefix}.{name}", value
        else:
            yield from _named_leaves(value, f"{prefix}.{name}")


def _require_onnx() -> None:
    missing = [name for name in PACKAGES if importlib.util.find_spec(name) is None]
    if missing:
        raise EnvironmentSetupError(
            f"writing ONNX needs {', '.join(missing)}: pip install 'pufferlib[onnx]'"
        )
