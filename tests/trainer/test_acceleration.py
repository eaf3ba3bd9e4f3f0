"""What a GPU is used with, in the parts that need none; bfloat16; memory that is kept."""

import contextlib
import ctypes
from types import SimpleNamespace
from unittest.mock import Mock

import numpy as np
import pytest
import torch
from small_runs import small, start, update, weights
from torch.distributions import Normal

from pufferlib import clean_pufferl
from pufferlib.exceptions import ConfigError
from pufferlib.pytorch import MixedLogits
from pufferlib.trainer.acceleration import Graphed, InBfloat16, host_zeros, keep_freed_memory
from pufferlib.trainer.prepare import make_experience
from pufferlib.trainer.setup import load_config, make_policy, make_vecenv

CPU = torch.device("cpu")

# -- memory ----------------------------------------------------------------------------------


def test_malloc_keeps_what_was_freed(monkeypatch):
    libc = Mock()
    monkeypatch.setattr(ctypes, "CDLL", lambda name: libc)
    keep_freed_memory(1000)
    asked = [call.args for call in libc.mallopt.call_args_list]
    assert asked == [(-1, 1000), (-3, 1000)]  # M_TRIM_THRESHOLD, M_MMAP_THRESHOLD


@pytest.mark.parametrize("error", [None, OSError, TypeError])
def test_another_malloc_is_left_alone(monkeypatch, error):
    library = SimpleNamespace()  # without mallopt, as musl and macOS have it
    monkeypatch.setattr(ctypes, "CDLL", Mock(side_effect=error, return_value=library))
    keep_freed_memory()


@pytest.mark.parametrize("dtype", [np.int8, np.uint16, np.float32, np.int64, np.bool_])
def test_pinned_memory_has_the_same_arrays(monkeypatch, dtype):
    asked, zeros = [], torch.zeros

    def without_pins(*shape, pin_memory, **options):
        asked.append(pin_memory)
        return zeros(*shape, **options)

    monkeypatch.setattr(torch, "zeros", without_pins)
    plain, pinned = host_zeros((3, 4), dtype), host_zeros((3, 4), dtype, pinned=True)
    assert asked == [True]
    for array in (plain, pinned):
        assert (array.shape, array.dtype, array.any()) == ((3, 4), np.dtype(dtype), False)
        assert array.flags.writeable
        assert array.flags.c_contiguous


@pytest.mark.parametrize(
    ("device", "option", "pinned"),
    [("cuda", True, True), ("cuda", False, False), ("cpu", True, False)],
)
def test_batches_are_pinned_for_a_gpu(tmp_path, monkeypatch, device, option, pinned):
    trainer = start(tmp_path)
    made = Mock()
    monkeypatch.setattr("pufferlib.trainer.prepare.Experience", made)
    config = small(pin_memory=option).resolve(trainer.vecenv.num_agents)
    make_experience(config, trainer.vecenv, torch.device(device))
    assert made.call_args.kwargs["pinned"] is pinned
    clean_pufferl.close(trainer)


# -- bfloat16 --------------------------------------------------------------------------------


def test_results_are_those_of_bfloat16_in_float32():
    layer, rows = torch.nn.Linear(5, 3), torch.randn(4, 5)
    result = InBfloat16(layer, CPU)(rows)
    expected = torch.nn.functional.linear(
        rows.bfloat16(), layer.weight.bfloat16(), layer.bias.bfloat16()
    )
    assert result.dtype == torch.float32
    assert torch.equal(result, expected.float())


def test_every_form_of_results_is_float32():
    half = torch.ones(2, 3, dtype=torch.bfloat16)
    normal = Normal(half, half, validate_args=False)
    results = ([half, half], MixedLogits([half], normal), half, (half, half))
    choices, mixed, value, state = InBfloat16(lambda: results, CPU)()
    assert isinstance(choices, list)
    assert isinstance(state, tuple)
    leaves = [*choices, *mixed.discrete, mixed.continuous.loc, mixed.continuous.scale, value]
    assert {leaf.dtype for leaf in (*leaves, *state)} == {torch.float32}


@pytest.mark.parametrize("recurrent", [False, True])
def test_training_in_bfloat16_keeps_float32_weights(tmp_path, recurrent):
    trainer = start(tmp_path, small(precision="bf16", update_epochs=1), recurrent=recurrent)
    before = weights(trainer)
    losses = update(trainer)
    assert abs(losses["approx_kl"]) < 1e-2
    assert {weight.dtype for weight in trainer.policy.parameters()} == {torch.float32}
    assert not torch.equal(weights(trainer), before)
    if trainer.states:
        assert {part.dtype for part in trainer.states.get()} == {torch.float32}
    clean_pufferl.close(trainer)


@pytest.mark.bench
@pytest.mark.timeout(300)
def test_squared_is_learnt_in_bfloat16(tmp_path):
    config = load_config("squared", overrides={"train": {"precision": "bf16", "device": "cpu"}})
    vecenv = make_vecenv(config)
    policy = make_policy(config, vecenv.driver_env)
    trainer = clean_pufferl.create(config.train, vecenv, policy, run_dir=tmp_path)
    while trainer.global_step < config.train.total_timesteps:
        update(trainer)
    assert trainer.stats["score"] >= 0.9
    clean_pufferl.close(trainer)


# -- CUDA graphs -----------------------------------------------------------------------------


def test_graphs_need_a_gpu(tmp_path):
    with pytest.raises(ConfigError, match="train.cuda_graphs: expected a CUDA device, got 'cpu'"):
        start(tmp_path, small(cuda_graphs=True))


class RecordedModel:
    """Doubles its weight times the rows; notes its work in the graph that is being recorded."""

    def __init__(self):
        self.weight, self.calls, self.recording = torch.tensor(1.0), 0, None

    def __call__(self, rows, state=None, starts=None):
        self.calls += 1
        outputs = torch.empty_like(rows)

        def work():
            outputs.copy_(2 * self.weight * rows + (0 if state is None else state[0]))

        work()
        if self.recording is not None:
            self.recording.replay = Mock(side_effect=work)
        return outputs, rows.sum(-1)


@pytest.fixture
def model(monkeypatch):
    made = RecordedModel()

    @contextlib.contextmanager
    def record(graph):
        made.recording = graph
        yield
        made.recording = None

    on_stream = Mock(return_value=contextlib.nullcontext())
    cuda = SimpleNamespace(
        Stream=Mock, current_stream=Mock, CUDAGraph=Mock, graph=record, stream=on_stream
    )
    monkeypatch.setattr(torch, "cuda", cuda)
    return made


def test_a_graph_is_recorded_once_and_replayed_with_new_inputs_and_weights(model):
    graphed = Graphed(model)
    for factor in (1.0, 3.0):
        model.weight.fill_(factor)
        for _ in range(2):
            rows = torch.randn(4, 2)
            assert torch.equal(graphed(rows)[0], 2 * factor * rows)
    assert model.calls == 4, "three to warm up, one to record"


def test_inputs_of_another_layout_have_a_graph_of_their_own(model):
    graphed = Graphed(model)
    rows, state = torch.ones(4, 2), (torch.ones(4, 2),)
    assert graphed(rows, None)[0].sum() == 16
    assert graphed(rows, state)[0].sum() == 24
    assert graphed(rows[:3], None)[0].sum() == 12
    assert model.calls == 3 * 4
    assert graphed(rows, (2 * state[0],))[0].sum() == 32
    assert model.calls == 3 * 4


def test_inputs_stay_those_of_the_caller(model):
    rows = torch.ones(4, 2)
    graphed = Graphed(model)
    graphed(rows)
    graphed(torch.zeros(4, 2))
    assert rows.sum() == 8


def test_acting_goes_through_the_actor_and_learning_does_not(tmp_path):
    trainer = start(tmp_path)
    trainer.actor = Mock(wraps=trainer.model)
    clean_pufferl.evaluate(trainer)
    assert trainer.actor.call_count == 9
    clean_pufferl.train(trainer)
    assert trainer.actor.call_count == 9
    clean_pufferl.close(trainer)
