"""An exported policy answers as torch does, for every kind of policy, and plays on its own."""

import errno
import importlib.util
from types import SimpleNamespace

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete
from torch import nn

from pufferlib.emulation import GymnasiumPufferEnv
from pufferlib.exceptions import EnvironmentSetupError, ExportError
from pufferlib.models import Convolutional, Default, LSTMWrapper, MinGRUWrapper, Residual
from pufferlib.pytorch import nativize_dtype, nativize_tensor
from pufferlib.spaces import Mixed
from pufferlib.trainer import export
from pufferlib.trainer.export import export_onnx, named_heads

VECTOR = Box(-1, 1, (4,), np.float32)
FRAMES = Box(0, 255, (3, 40, 36), np.uint8)
STRUCT = Dict(
    image=Box(0, 255, (2, 3), np.uint8),
    nested=Dict(far=Box(-1e9, 1e9, (2,), np.float64), count=Box(-9, 9, (), np.int16)),
    sign=Box(-1, 1, (3,), np.float32),
)


def plain(observation_space=VECTOR, action_space=None):
    return SimpleNamespace(
        single_observation_space=observation_space,
        single_action_space=action_space or Discrete(3),
        emulated=None,
    )


class AnySpace(gymnasium.Env):
    def __init__(self, observation_space, action_space):
        self.observation_space, self.action_space = observation_space, action_space


def emulated(observation_space, action_space=None):
    return GymnasiumPufferEnv(env=AnySpace(observation_space, action_space or Discrete(3)))


def masked():
    space = Dict(observation=VECTOR, action_mask=MultiBinary(5))
    return emulated(space, MultiDiscrete([2, 3]))


def inputs_of(env, rows):
    """The inputs of the exported network for observation rows `(B, …)`."""
    native = nativize_dtype(env.emulated)
    if native is None:
        return {"observations": rows}
    found, pending = {}, {"observations": nativize_tensor(torch.from_numpy(rows), native)}
    while pending:
        name, value = pending.popitem()
        if isinstance(value, dict):
            pending |= {f"{name}.{key}": part for key, part in value.items()}
        else:
            found[name] = value.numpy()
    return found


def random_rows(env, count, seed):
    """What the environment could deliver: `(count, *observation_shape)`."""
    if env.emulated is None or env.emulated.observation_dtype.names is None:
        env.single_observation_space.seed(seed)
        return np.stack([env.single_observation_space.sample() for _ in range(count)])
    space = env.env.observation_space
    space.seed(seed)
    plan = env.emulated
    rows = np.zeros((count, *env.single_observation_space.shape), plan.emulated_observation_dtype)
    structs = rows.view(plan.observation_dtype).reshape(count)
    for row in range(count):
        fill(structs[row : row + 1], space.sample())
    return rows


def fill(struct, value):
    for name in struct.dtype.names:
        if struct.dtype[name].names:
            fill(struct[name], value[name])
        else:
            struct[name][0] = value[name]


def lstm(env):
    return LSTMWrapper(env, Default(env, 8), 8, 8, num_layers=2)


def mingru(env):
    return MinGRUWrapper(env, Default(env, 8), 8, 8, num_layers=2)


def small(env):
    return Default(env, 8)


CASES = {
    "mlp": (small, plain(), ["logits"]),
    "frames": (lambda env: Convolutional(env, 16), plain(FRAMES), ["logits"]),
    "residual": (lambda env: Residual(env, 16, channels=(4, 4)), plain(FRAMES), ["logits"]),
    "choices": (small, plain(action_space=MultiDiscrete([3, 2])), ["logits.0", "logits.1"]),
    "continuous": (small, plain(action_space=Box(-1, 1, (2, 2), np.float32)), ["mean", "std"]),
    "mixed": (small, plain(action_space=Mixed([3], [-1.0], [1.0])), ["logits.0", "mean", "std"]),
    "struct": (small, emulated(STRUCT), ["logits"]),
    "masked lstm": (lambda env: LSTMWrapper(env, small(env), 8, 8), masked(), None),
    "lstm": (lstm, plain(), ["logits"]),
    "mingru": (mingru, emulated(STRUCT), ["logits"]),
}


def make_policy(case):
    torch.manual_seed(0)
    make, env, heads = CASES[case]
    policy = make(env)
    with torch.no_grad():
        for parameter in policy.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
    return policy, env, heads or ["logits.0", "logits.1"]


def open_session(path):
    onnxruntime = pytest.importorskip("onnxruntime")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_the_exported_network_answers_as_torch_does(case, tmp_path):
    pytest.importorskip("onnxscript")
    policy, env, heads = make_policy(case)
    export_onnx(policy, env, tmp_path / "policy.onnx", {"env": case})
    session = open_session(tmp_path / "policy.onnx")
    outputs = [output.name for output in session.get_outputs()]
    assert outputs[: len(heads) + 1] == [*heads, "value"]
    properties = session.get_modelmeta().custom_metadata_map
    assert properties["env"] == case
    assert properties["action_space"] == str(env.single_action_space)
    assert session.get_inputs()[0].shape[0] == session.get_outputs()[0].shape[0] == "batch"
    states = [entry for entry in session.get_inputs() if entry.name.startswith("state.")]
    rng = np.random.default_rng(1)
    for batch in (1, 5):
        state = [
            rng.normal(size=(entry.shape[0], batch, entry.shape[2])).astype(np.float32)
            for entry in states
        ]
        rows = random_rows(env, batch, seed=batch)
        feed = inputs_of(env, rows)
        arguments = []
        if states:
            starts = np.arange(batch) % 2 == 1
            feed |= {entry.name: part for entry, part in zip(states, state, strict=True)}
            feed["starts"] = starts
            arguments = [tuple(map(torch.from_numpy, state)), torch.from_numpy(starts)]
        with torch.no_grad():
            logits, value, *after = policy(torch.from_numpy(rows), *arguments)
        expected = [*named_heads(logits).values(), value, *(after[0] if after else ())]
        found = session.run(None, feed)
        for one, other in zip(found, expected, strict=True):
            # Terms of a sum that cancel leave an error of their own size, which outputs have.
            size = max(1.0, float(other[other.isfinite()].abs().max()))
            np.testing.assert_allclose(one, other.numpy(), atol=2e-6 * size, rtol=1e-5)
    if case == "masked lstm":
        assert np.isneginf(found[0]).any()


@pytest.mark.slow
def test_a_policy_that_looks_at_the_batch_is_refused(tmp_path):
    pytest.importorskip("onnxscript")

    class Looks(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(4, 3)

        def forward(self, x):
            logits = self.layer(x) if x.sum() > 0 else -self.layer(x)
            return logits, logits[:, :1]

    with pytest.raises(ExportError, match="Looks cannot be exported: .* got GuardOnData"):
        export_onnx(Looks(), plain(), tmp_path / "policy.onnx")
    assert not list(tmp_path.iterdir())


def test_a_file_that_cannot_be_written_is_named(tmp_path, monkeypatch):
    model = SimpleNamespace(producer_name="", metadata_props={})

    def save(path, external_data):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(export, "_require_onnx", lambda: None)
    monkeypatch.setattr(export, "_trace", lambda *_: SimpleNamespace(model=model, save=save))
    path = tmp_path / "policy.onnx"
    with pytest.raises(ExportError, match=f"cannot write {path}: No space left on device; choose"):
        export_onnx(small(plain()), plain(), path)
    assert list(tmp_path.iterdir()) == []


def test_a_missing_package_names_the_extra(tmp_path, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(EnvironmentSetupError, match=r"pip install 'pufferlib\[onnx\]'"):
        export_onnx(small(plain()), plain(), tmp_path / "policy.onnx")
