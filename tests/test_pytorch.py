"""The torch side of emulation: layouts read from real dtypes, sampling checked by hand."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch.distributions import Categorical, Normal

from pufferlib.exceptions import APIUsageError
from pufferlib.pytorch import (
    MixedLogits,
    greedy_actions,
    layer_init,
    nativize_dtype,
    nativize_tensor,
    sample_actions,
    sample_logits,
)


def emulated(struct, row=np.uint8):
    return SimpleNamespace(
        observation_dtype=np.dtype(struct, align=True), emulated_observation_dtype=np.dtype(row)
    )


NESTED = np.dtype(
    [
        ("a", np.dtype([("p", np.int8), ("q", np.float32)], align=True)),
        ("z", np.int8),
        ("grid", np.float64, (2, 3)),
        ("flag", np.bool_, (2,)),
        ("pair", np.dtype([("f0", np.uint16), ("f1", np.int64, (2,))], align=True)),
    ],
    align=True,
)


def structs(*batch):
    rng = np.random.default_rng(0)
    rows = np.zeros(batch, NESTED)
    rows["a"]["p"] = rng.integers(-128, 127, batch)
    rows["a"]["q"] = rng.normal(size=batch)
    rows["z"] = rng.integers(-128, 127, batch)
    rows["grid"] = rng.normal(size=(*batch, 2, 3))
    rows["flag"] = rng.integers(0, 2, (*batch, 2))
    rows["pair"]["f0"] = rng.integers(0, 2**16, batch)
    rows["pair"]["f1"] = rng.integers(-(2**40), 2**40, (*batch, 2))
    return rows


def as_bytes(rows):
    flat = np.frombuffer(rows.tobytes(), np.uint8).copy()
    return torch.from_numpy(flat.reshape(*rows.shape, rows.dtype.itemsize))


@pytest.mark.parametrize("batch", [(0,), (1,), (5,), (3, 4), ()])
def test_nested_struct_with_padding_is_unpacked(batch):
    rows = structs(*batch)
    native = nativize_tensor(as_bytes(rows), nativize_dtype(emulated(NESTED)))
    for path in (
        ("a", "p"),
        ("a", "q"),
        ("z",),
        ("grid",),
        ("flag",),
        ("pair", "f0"),
        ("pair", "f1"),
    ):
        expected, leaf = rows, native
        for name in path:
            expected, leaf = expected[name], leaf[name]
        assert leaf.shape == expected.shape
        assert leaf.dtype == torch.from_numpy(np.empty(0, expected.dtype)).dtype
        np.testing.assert_array_equal(leaf.numpy(), expected)


def test_the_padded_byte_after_a_nested_struct_is_not_read():
    # {p: int8, q: float32} takes 8 bytes and z follows at offset 8; summed sizes would say 5.
    inner = np.dtype([("p", np.int8), ("q", np.float32)], align=True)
    dtype = np.dtype([("a", inner), ("z", np.int8)], align=True)
    native = nativize_dtype(emulated(dtype))
    assert native["z"].offset == 8
    row = np.zeros(1, dtype)
    row["a"]["q"], row["z"] = -43.0, 9
    assert nativize_tensor(as_bytes(row), native)["z"].tolist() == [9]


@pytest.mark.smoke
def test_unpacking_copies_nothing():
    observations = as_bytes(structs(3))
    native = nativize_tensor(observations, nativize_dtype(emulated(NESTED)))
    for leaf in (native["z"], native["grid"], native["pair"]["f1"]):
        assert leaf.untyped_storage().data_ptr() == observations.untyped_storage().data_ptr()


@pytest.mark.parametrize(
    "dtype", ["?", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8"]
)
def test_every_dtype_in_a_row_of_its_own_dtype(dtype):
    struct = np.dtype([("x", dtype), ("y", dtype, (2, 2))], align=True)
    rows = np.arange(10).astype(dtype).reshape(2, 5)
    native = nativize_tensor(torch.from_numpy(rows), nativize_dtype(emulated(struct, dtype)))
    np.testing.assert_array_equal(native["x"].numpy(), rows[:, 0])
    np.testing.assert_array_equal(native["y"].numpy(), rows[:, 1:].reshape(2, 2, 2))


def test_an_empty_leaf_keeps_its_shape():
    struct = np.dtype([("none", np.float32, (0, 3)), ("x", np.int8)], align=True)
    rows = np.zeros(4, struct)
    assert nativize_tensor(as_bytes(rows), nativize_dtype(emulated(struct)))["none"].shape == (
        4,
        0,
        3,
    )


def test_what_is_not_emulated_passes_unchanged():
    observations = torch.zeros(2, 3)
    only_actions = SimpleNamespace(
        observation_dtype=np.dtype(np.float32), emulated_observation_dtype=np.dtype(np.float32)
    )
    assert nativize_dtype(None) is None
    assert nativize_dtype(only_actions) is None
    assert nativize_tensor(observations, None) is observations


def test_rows_cast_to_float_are_refused():
    with pytest.raises(APIUsageError, match=r"expected rows of torch.uint8, got torch.float32"):
        nativize_tensor(as_bytes(structs(2)).float(), nativize_dtype(emulated(NESTED)))


def test_unpacking_compiles_in_one_graph():
    native = nativize_dtype(emulated(NESTED))

    def total(observations):
        leaves = nativize_tensor(observations, native)
        return leaves["grid"].sum() + leaves["z"].sum()

    observations = as_bytes(structs(3))
    compiled = torch.compile(total, backend="eager", fullgraph=True)
    assert compiled(observations) == total(observations)


def test_layer_init_is_orthogonal_and_scaled():
    layer = layer_init(torch.nn.Linear(8, 4), std=2.0, bias_const=0.5)
    torch.testing.assert_close(layer.weight @ layer.weight.T, 4.0 * torch.eye(4))
    assert layer.bias.tolist() == [0.5] * 4
    assert layer_init(torch.nn.Linear(3, 2, bias=False)).bias is None


def test_one_choice_by_hand():
    logits = torch.log(torch.tensor([[0.5, 0.25, 0.25]]))
    action, logprob, entropy = sample_logits(logits + 7.0, torch.tensor([1]))
    assert action.tolist() == [1]
    torch.testing.assert_close(logprob, torch.tensor([math.log(0.25)]))
    torch.testing.assert_close(entropy, torch.tensor([1.5 * math.log(2)]))


@pytest.mark.parametrize("batch", [1, 2, 7])
def test_shapes_and_dtypes_of_every_form(batch):
    torch.manual_seed(0)
    choice = torch.randn(batch, 4)
    normal = Normal(torch.zeros(batch, 2, 3), torch.ones(batch, 2, 3))
    row = Normal(torch.zeros(batch, 2), torch.ones(batch, 2))
    forms = [
        (choice, (), torch.int64),
        ([choice], (1,), torch.int64),
        ((choice, choice[:, :2]), (2,), torch.int64),
        (normal, (2, 3), torch.float32),
        (Normal(torch.zeros(batch), torch.ones(batch)), (), torch.float32),
        (MixedLogits([choice, choice], row), (4,), torch.float32),
    ]
    for logits, shape, dtype in forms:
        action, logprob, entropy = sample_logits(logits)
        assert (action.shape, action.dtype) == ((batch, *shape), dtype)
        assert logprob.shape == entropy.shape == (batch,)
        again, same_logprob, same_entropy = sample_logits(logits, action)
        assert torch.equal(again, action)
        torch.testing.assert_close(same_logprob, logprob)
        torch.testing.assert_close(same_entropy, entropy)


def test_actions_without_entropy_are_the_same_actions():
    choice, normal = torch.randn(6, 4), Normal(torch.randn(6, 2), torch.ones(6, 2))
    for logits in (choice, [choice, choice[:, :2]], normal, MixedLogits([choice], normal)):
        torch.manual_seed(4)
        expected = sample_logits(logits)[:2]
        torch.manual_seed(4)
        for result, wanted in zip(sample_actions(logits), expected, strict=True):
            assert torch.equal(result, wanted)


def test_greedy_actions_of_every_form_of_logits():
    one = torch.tensor([[0.0, 2.0, 1.0], [3.0, 0.0, 1.0]])
    two = torch.tensor([[0.0, 1.0], [1.0, 0.0]])
    normal = Normal(torch.tensor([[0.5, -1.0], [2.0, 0.0]]), torch.ones(2, 2))
    assert greedy_actions(one).tolist() == [1, 0]
    assert greedy_actions([one, two]).tolist() == [[1, 1], [0, 0]]
    assert greedy_actions(normal).tolist() == [[0.5, -1.0], [2.0, 0.0]]
    mixed = greedy_actions(MixedLogits([one, two], normal))
    assert mixed.tolist() == [[1, 1, 0.5, -1.0], [0, 0, 2.0, 0.0]]


def test_the_gradient_of_the_entropy_is_that_of_its_formula():
    torch.manual_seed(6)
    logits = torch.randn(5, 4, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x: sample_logits(x, torch.zeros(5).long())[2], logits)


def test_log_probabilities_agree_with_torch_distributions():
    torch.manual_seed(1)
    heads = [torch.randn(5, 3), torch.randn(5, 6)]
    normal = Normal(torch.randn(5, 2), torch.rand(5, 2) + 0.1)
    action, logprob, entropy = sample_logits(MixedLogits(heads, normal))
    expected, expected_entropy = normal.log_prob(action[:, 2:]).sum(-1), normal.entropy().sum(-1)
    for column, head in enumerate(heads):
        categorical = Categorical(logits=head)
        expected = expected + categorical.log_prob(action[:, column])
        expected_entropy = expected_entropy + categorical.entropy()
    torch.testing.assert_close(logprob, expected)
    torch.testing.assert_close(entropy, expected_entropy)


def test_samples_have_the_distribution_of_the_logits():
    torch.manual_seed(2)
    probabilities = torch.tensor([0.6, 0.3, 0.1, 0.0])
    action = sample_logits(probabilities.log().expand(40_000, 4))[0]
    counts = torch.bincount(action, minlength=4) / 40_000
    # Standard error at most 0.0025: four of them.
    torch.testing.assert_close(counts, probabilities, atol=0.01, rtol=0)
    assert counts[3] == 0


def test_the_only_choice_is_always_taken():
    logits = torch.tensor([-math.inf, 0.0, -math.inf]).expand(20_000, 3)
    assert (sample_logits(logits)[0] == 1).all()
    assert (sample_logits(logits.bfloat16())[0] == 1).all()


def test_a_choice_that_is_ruled_out_leaves_entropy_and_gradient_finite():
    logits = torch.tensor([[0.0, -math.inf, 0.0]], requires_grad=True)
    _, logprob, entropy = sample_logits(logits, torch.tensor([2]))
    (logprob + entropy).sum().backward()
    assert entropy.item() == pytest.approx(math.log(2))
    assert torch.isfinite(logits.grad).all()


def test_the_same_seed_gives_the_same_actions():
    logits = torch.zeros(50, 9)
    torch.manual_seed(3)
    first = sample_logits(logits)[0]
    torch.manual_seed(3)
    assert torch.equal(sample_logits(logits)[0], first)
    assert not torch.equal(sample_logits(logits)[0], first)


def test_extreme_logits_stay_finite():
    _, logprob, entropy = sample_logits(torch.tensor([[1e30, 0.0], [-1e30, 1e30]]))
    assert torch.isfinite(logprob).all()
    assert entropy.tolist() == [0.0, 0.0]


@pytest.mark.parametrize(
    ("logits", "action", "message"),
    [
        (torch.zeros(3, 2), torch.zeros(3, 1), r"expected shape \(3,\).*got \(3, 1\)"),
        ([torch.zeros(3, 2)] * 2, torch.zeros(3), r"expected shape \(3, 2\).*got \(3,\)"),
        (Normal(torch.zeros(3, 2), 1.0), torch.zeros(3), r"expected shape \(3, 2\)"),
        (np.zeros(3), None, "got ndarray"),
    ],
)
def test_what_does_not_fit_is_refused(logits, action, message):
    with pytest.raises(APIUsageError, match=message):
        sample_logits(logits, action)
