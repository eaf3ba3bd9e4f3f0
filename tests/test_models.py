"""Policies for every space, and the recurrent interface against its step-by-step definition."""

import copy
import pickle
from types import SimpleNamespace

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Tuple
from torch.distributions import Normal

from pufferlib.emulation import GymnasiumPufferEnv
from pufferlib.exceptions import APIUsageError
from pufferlib.models import ActionHead, Convolutional, Default, LSTMWrapper, is_recurrent
from pufferlib.pytorch import MixedLogits, sample_logits
from pufferlib.spaces import Mixed

VECTOR = Box(-1, 1, (4,), np.float32)


def env_of(observation_space=VECTOR, action_space=None):
    return SimpleNamespace(
        single_observation_space=observation_space,
        single_action_space=action_space or Discrete(3),
        emulated=None,
    )


class AnySpace(gymnasium.Env):
    def __init__(self, observation_space, action_space):
        self.observation_space, self.action_space = observation_space, action_space

    def reset(self, seed=None, options=None):
        super().reset(seed=seed)
        return self.observation_space.sample(), {}

    def step(self, action):
        assert self.action_space.contains(action), action
        return self.observation_space.sample(), 0.0, False, False, {}


@pytest.mark.parametrize(
    ("space", "form", "shape"),
    [
        (Discrete(3), torch.Tensor, ()),
        (MultiDiscrete([2, 5]), list, (2,)),
        (Box(-1, 1, (2, 3), np.float32), Normal, (2, 3)),
        (Box(-1, 1, (), np.float32), Normal, ()),
        (Mixed([3, 2], [-1.0], [1.0]), MixedLogits, (3,)),
    ],
)
@pytest.mark.parametrize("batch", [1, 6])
def test_a_head_for_every_action_layout(space, form, shape, batch):
    head = ActionHead(env_of(action_space=space), hidden_size=8)
    logits = head(torch.randn(batch, 8))
    assert isinstance(logits, form)
    assert sample_logits(logits)[0].shape == (batch, *shape)


@pytest.mark.smoke
def test_the_standard_deviation_does_not_depend_on_the_observation():
    head = ActionHead(env_of(action_space=Box(-1, 1, (2,), np.float32)), hidden_size=8)
    scale = head(torch.randn(5, 8)).scale
    assert torch.equal(scale, torch.ones(5, 2))
    with torch.no_grad():
        head.log_std[0] = 1.0
    torch.testing.assert_close(head(torch.randn(1, 8)).scale, torch.tensor([[np.e, 1.0]]).float())


def test_an_unknown_action_space_is_refused():
    with pytest.raises(APIUsageError, match="expected Discrete, MultiDiscrete, Box or Mixed"):
        ActionHead(env_of(action_space=MultiBinary(3)), 8)


STRUCTURED = Dict(
    {
        "image": Box(0, 255, (2, 3), np.uint8),
        "stats": Dict({"hp": Box(-1, 1, (), np.float32), "flags": MultiBinary(3)}),
        "pair": Tuple((Discrete(4, start=2), MultiDiscrete([2, 2]))),
    }
)


@pytest.mark.parametrize(
    "observation_space",
    [VECTOR, Box(0, 9, (2, 3), np.int64), Discrete(5, start=-1), MultiBinary(4), STRUCTURED],
)
@pytest.mark.parametrize(
    "action_space",
    [
        Discrete(3, start=1),
        MultiDiscrete([[2, 3], [4, 5]]),
        Box(-1, 1, (2,), np.float32),
        Dict({"go": Discrete(3), "how": Tuple((Discrete(2), Box(-1, 1, (2,), np.float32)))}),
    ],
)
def test_default_acts_in_any_emulated_environment(observation_space, action_space):
    env = GymnasiumPufferEnv(env=AnySpace(observation_space, action_space))
    policy = Default(env, hidden_size=16)
    observation, _ = env.reset(seed=0)
    for _ in range(3):
        logits, value = policy(torch.from_numpy(np.asarray(observation)[None]))
        assert value.shape == (1, 1)
        action = sample_logits(logits)[0][0].numpy()
        low = getattr(env.single_action_space, "low", None)
        if low is not None:
            action = np.clip(action, low, env.single_action_space.high)
        observation, *_ = env.step(action)


def test_default_reads_the_values_of_a_structured_observation():
    env = GymnasiumPufferEnv(env=AnySpace(STRUCTURED, Discrete(2)))
    policy = Default(env, hidden_size=16)
    row = torch.from_numpy(env.reset(seed=0)[0][None])
    changed = row.clone()
    changed[0, policy.native_dtype["pair"]["f0"].offset] += 1
    features = policy._inputs(row)
    assert features.shape == (1, 6 + 1 + 3 + 1 + 2)
    assert (policy._inputs(changed) - features).abs().sum() == 1


def test_initial_scales():
    policy = Default(env_of(), hidden_size=64, num_layers=2)
    assert policy.encoder[0].weight.norm(dim=0).mean().item() == pytest.approx(2**0.5, rel=1e-5)
    assert policy.encoder[2].weight.norm(dim=1).mean().item() == pytest.approx(2**0.5, rel=1e-5)
    assert policy.action_head.discrete.weight.norm(dim=1).max().item() == pytest.approx(
        0.01, rel=1e-4
    )
    assert policy.value_head.weight.norm().item() == pytest.approx(1.0, rel=1e-5)


@pytest.mark.parametrize(
    ("shape", "options"),
    [
        ((4, 84, 84), {}),
        ((84, 80, 3), {"channels_last": True}),
        ((72, 80), {"downsample": 2}),
    ],
)
def test_convolutional_computes_its_own_sizes(shape, options):
    env = env_of(Box(0, 255, shape, np.uint8))
    policy = Convolutional(env, hidden_size=32, **options)
    logits, value = policy(torch.zeros(2, *shape, dtype=torch.uint8))
    assert (logits.shape, value.shape) == ((2, 3), (2, 1))


def test_convolutional_scales_bytes_only():
    policy = Convolutional(env_of(Box(0, 255, (1, 40, 40), np.uint8)), hidden_size=8)
    white = torch.full((1, 1, 40, 40), 255, dtype=torch.uint8)
    assert policy._frames(white).unique().tolist() == [1.0]
    assert policy._frames(white.float()).unique().tolist() == [255.0]


@pytest.mark.parametrize(
    ("space", "message"),
    [
        (Box(0, 255, (3, 20, 84), np.uint8), "at least 36 x 36 pixels, got 20 x 84"),
        (VECTOR, r"expected observations \(C, H, W\)"),
    ],
)
def test_convolutional_refuses_what_is_no_image(space, message):
    with pytest.raises(APIUsageError, match=message):
        Convolutional(env_of(space))


class Wider(Default):
    """Decodes what an LSTM of width 12 returns, and receives a lookup."""

    def encode_observations(self, observations):
        return super().encode_observations(observations), observations.sum(-1)

    def decode_actions(self, hidden, lookup=None):
        assert lookup.shape == (len(hidden),)
        logits, value = super().decode_actions(hidden[:, : self.hidden_size])
        return logits, value + lookup[:, None]


def wrapped(num_layers=1):
    torch.manual_seed(0)
    return LSTMWrapper(env_of(), Wider(env_of(), 8), 8, 12, num_layers=num_layers)


@pytest.mark.parametrize("num_layers", [1, 2])
@pytest.mark.parametrize("density", [0.0, 0.2, 1.0])
def test_a_segment_equals_its_steps_one_by_one(num_layers, density):
    policy = wrapped(num_layers)
    batch, steps = 5, 7
    observations = torch.randn(batch, steps, 4)
    starts = torch.rand(batch, steps) < density
    initial = tuple(torch.randn(num_layers, batch, 12) for _ in range(2))
    logits, value, state = policy(observations, initial, starts)
    assert (logits.shape, value.shape) == ((batch * steps, 3), (batch * steps, 1))

    expected_state, rows = initial, []
    for step in range(steps):
        keep = (~starts[:, step]).float()[None, :, None]
        expected_state = tuple(part * keep for part in expected_state)
        row_logits, row_value, expected_state = policy(observations[:, step], expected_state)
        rows.append((row_logits, row_value))
    torch.testing.assert_close(logits.view(batch, steps, 3), torch.stack([r[0] for r in rows], 1))
    torch.testing.assert_close(value.view(batch, steps, 1), torch.stack([r[1] for r in rows], 1))
    torch.testing.assert_close(state, expected_state)


def test_starts_apply_to_single_rows_too():
    policy = wrapped()
    observations = torch.randn(3, 4)
    state = tuple(torch.randn(1, 3, 12) for _ in range(2))
    starts = torch.tensor([True, False, True])
    logits, _, new_state = policy(observations, state, starts)
    fresh, _, _ = policy(observations)
    kept, _, _ = policy(observations, state)
    torch.testing.assert_close(logits, torch.where(starts[:, None], fresh, kept))
    assert new_state[0].shape == (1, 3, 12)


def test_nothing_crosses_a_start():
    policy = wrapped()
    observations = torch.randn(1, 4, 4, requires_grad=True)
    starts = torch.tensor([[False, False, True, False]])
    logits = policy(observations, None, starts)[0].view(4, 3)
    logits[3].sum().backward()
    assert torch.equal(observations.grad[0, :2], torch.zeros(2, 4))
    assert (observations.grad[0, 2] != 0).any()

    poison = tuple(torch.full((1, 1, 12), torch.nan) for _ in range(2))
    poisoned = policy(observations, poison, starts)[0].view(4, 3)
    assert torch.isnan(poisoned[:2]).all()
    assert torch.equal(poisoned[2:], logits[2:])


def test_rows_and_segments_are_told_apart_by_rank():
    scalar = LSTMWrapper(env_of(Discrete(5)), Default(env_of(Discrete(5)), 8), 8, 8)
    assert scalar(torch.zeros(6, dtype=torch.int64))[0].shape == (6, 3)
    assert scalar(torch.zeros(2, 3, dtype=torch.int64))[0].shape == (6, 3)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((torch.zeros(4),), r"expected shape \(B, 4\) or \(B, T, 4\), got \(4,\)"),
        ((torch.zeros(2, 5),), r"got \(2, 5\)"),
        ((torch.zeros(2, 4), (torch.zeros(1, 3, 12),) * 2), r"state: expected shape \(1, 2, 12\)"),
        ((torch.zeros(2, 4), None, torch.zeros(2, 2)), r"starts: expected shape \(2, 1\)"),
    ],
)
def test_wrong_shapes_are_named(arguments, message):
    with pytest.raises(APIUsageError, match=message):
        wrapped()(*arguments)


def test_a_policy_in_one_piece_cannot_be_wrapped():
    with pytest.raises(APIUsageError, match="Linear has no encode_observations"):
        LSTMWrapper(env_of(), torch.nn.Linear(4, 3))


def test_is_recurrent_looks_at_the_interface():
    assert is_recurrent(wrapped())
    assert not is_recurrent(Default(env_of(), 8))


@pytest.mark.parametrize("make", [wrapped, lambda: Default(env_of(), 8)])
def test_policies_are_plain_modules(make):
    policy = make()
    observations = torch.randn(2, 4)
    for clone in (copy.deepcopy(policy), pickle.loads(pickle.dumps(policy))):
        torch.testing.assert_close(clone(observations)[0], policy(observations)[0])
