"""Policies never take an action that is ruled out: hand-made numbers, training, and learning."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete
from masked_toys import Picky
from small_runs import small, start, update
from torch.distributions import Normal
from toys import Lives, Scripted, emulate

from pufferlib import clean_pufferl, vector
from pufferlib.exceptions import APIUsageError
from pufferlib.frameworks import cleanrl
from pufferlib.models import Convolutional, Default, LSTMWrapper
from pufferlib.postprocess import EpisodeStats
from pufferlib.pytorch import (
    MixedLogits,
    mask_layout,
    mask_logits,
    nativize_dtype,
    nativize_tensor,
    sample_logits,
    unpack_mask,
)
from pufferlib.testing import check_env, check_vecenv
from pufferlib.trainer.evaluate import evaluate_policy, greedy_actions
from pufferlib.vector.tuning.profile import ProfileStand, SerialStand


@pytest.fixture(autouse=True)
def _one_thread():
    """Networks of a few neurons only lose time to a second thread."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


HALF = torch.log(torch.tensor([[0.5, 0.25, 0.25]]))


def yes(*bits):
    return torch.tensor([bits]) == 1


# -- logits --------------------------------------------------------------------------------------


@pytest.mark.smoke
def test_one_choice_by_hand():
    logits = mask_logits(HALF + 7.0, yes(0, 1, 1))
    action, logprob, entropy = sample_logits(logits, torch.tensor([2]))
    assert action.tolist() == [2]
    torch.testing.assert_close(logprob, torch.tensor([math.log(0.5)]))
    torch.testing.assert_close(entropy, torch.tensor([math.log(2)]))
    assert greedy_actions(mask_logits(HALF, yes(0, 0, 1))).tolist() == [2]
    assert sample_logits(logits, torch.tensor([0]))[1].tolist() == [-math.inf]


def test_several_choices_by_hand():
    heads = [HALF, HALF[:, :2]]
    logits = mask_logits(heads, yes(1, 0, 1, 0, 1))
    _, logprob, entropy = sample_logits(logits, torch.tensor([[2, 1]]))
    torch.testing.assert_close(logprob, torch.tensor([math.log(1 / 3)]))
    expected = -(2 / 3 * math.log(2 / 3) + 1 / 3 * math.log(1 / 3))
    torch.testing.assert_close(entropy, torch.tensor([expected]))
    assert greedy_actions(logits).tolist() == [[0, 1]]


def test_continuous_parts_are_left_alone():
    normal = Normal(torch.zeros(1, 2), torch.ones(1, 2))
    masked = mask_logits(MixedLogits([HALF], normal), yes(0, 0, 1))
    assert masked.continuous is normal
    assert sample_logits(masked)[0][0, 0] == 2
    assert mask_logits(normal, yes(0, 0, 1)) is normal
    assert mask_logits(HALF, None) is HALF


def test_where_nothing_is_allowed_the_numbers_are_those_without_a_mask():
    logits = HALF.clone().requires_grad_()
    masked = mask_logits([logits, logits], yes(0, 0, 0, 0, 1, 0))
    assert torch.equal(masked[0], HALF)
    _, logprob, entropy = sample_logits(masked, torch.tensor([[1, 1]]))
    torch.testing.assert_close(logprob, torch.tensor([math.log(0.25)]))
    (logprob + entropy).sum().backward()
    assert torch.isfinite(logits.grad).all()


def test_no_gradient_reaches_what_is_ruled_out():
    logits = HALF.clone().requires_grad_()
    _, logprob, entropy = sample_logits(mask_logits(logits, yes(1, 0, 1)), torch.tensor([0]))
    (logprob + entropy).sum().backward()
    assert torch.isfinite(logits.grad).all()
    assert logits.grad[0, 1] == 0
    assert logits.grad[0, 0] != 0


def test_samples_are_always_allowed():
    torch.manual_seed(0)
    allowed = torch.rand(5000, 9) < 0.2
    allowed[:, 4] = True
    actions = sample_logits(mask_logits(torch.randn(5000, 9), allowed))[0]
    assert allowed.gather(1, actions[:, None]).all()


def test_another_number_of_options_is_refused():
    with pytest.raises(APIUsageError, match="allowed: expected 3 options .* got 2"):
        mask_logits(HALF, yes(0, 1))


# -- policies ------------------------------------------------------------------------------------


@pytest.mark.parametrize("batch", [(0,), (1,), (3, 2)])
def test_a_mask_is_unpacked_from_rows(batch):
    env = emulate(Picky(choices=2, options=3))
    row, _ = env.reset(seed=0)
    rows = torch.from_numpy(np.broadcast_to(row, (*batch, *row.shape)).copy())
    layout = mask_layout(env.emulated)
    allowed = unpack_mask(rows, layout)
    assert (allowed.shape, allowed.dtype) == ((*batch, 6), torch.bool)
    expected = torch.from_numpy(env.unwrapped.mask.ravel()).expand_as(allowed)
    assert torch.equal(allowed, expected)
    native = nativize_tensor(rows, nativize_dtype(env.emulated))
    assert torch.equal(native["action_mask"] != 0, allowed)


def test_without_a_mask_there_is_nothing_to_unpack():
    plain = SimpleNamespace(observation_dtype=np.dtype("f4"), emulated_observation_dtype="f4")
    assert mask_layout(None) is None
    assert mask_layout(plain) is None
    assert unpack_mask(torch.zeros(2, 3), None) is None


def play(env, policy, steps):
    """Play one environment; it raises where an action is illegal."""
    row, _ = env.reset(seed=1)
    state = None
    for _ in range(steps):
        rows = torch.from_numpy(np.asarray(row)[None])
        logits, _, *rest = policy(rows, state) if state or policy.recurs else policy(rows)
        state = rest[0] if rest else None
        row, _, terminal, truncation, _ = env.step(sample_logits(logits)[0][0].numpy())
        if terminal or truncation:
            row, _ = env.reset()


@pytest.mark.parametrize("choices", [0, 3])
@pytest.mark.parametrize("recurrent", [False, True])
def test_default_takes_allowed_actions_only(choices, recurrent):
    torch.manual_seed(0)
    env = emulate(Picky(choices, length=30))
    policy = Default(env, 16)
    assert policy.encoder[0].in_features == max(choices, 1) * 8  # the mask is no feature
    if recurrent:
        policy = LSTMWrapper(env, policy, 16, 16)
    policy.recurs = recurrent
    play(env, policy, 100)


def test_the_network_does_not_see_the_mask():
    env = emulate(Picky())
    policy = Default(env, 16)
    row = torch.from_numpy(env.reset(seed=0)[0][None])
    other = row.clone()
    leaf = mask_layout(env.emulated)[0]
    other[:, leaf.offset : leaf.offset + leaf.delta] ^= 1
    assert torch.equal(policy(row)[1], policy(other)[1])
    ruled_out, ruled_out_there = (torch.isinf(policy(rows)[0]) for rows in (row, other))
    assert torch.equal(ruled_out, ~ruled_out_there)


@pytest.mark.parametrize("key", ["observation", "screen"])
def test_convolutional_takes_one_image_beside_a_mask(key):
    image = np.zeros((40, 44), np.uint8)
    space = Dict({key: Box(0, 255, (40, 44), np.uint8), "action_mask": MultiBinary(3)})
    mask = np.array([0, 1, 0], np.int8)
    env = emulate(Scripted(space, [{key: image, "action_mask": mask}], Discrete(3)))
    policy = Convolutional(env, hidden_size=8)
    rows = torch.from_numpy(np.stack([env.reset()[0]] * 2))
    logits, value = policy(rows)
    assert greedy_actions(logits).tolist() == [1, 1]
    assert torch.isinf(logits).sum() == 4
    assert value.shape == (2, 1)


def test_convolutional_refuses_more_than_one_image():
    space = Dict(
        a=Box(0, 255, (40, 40), np.uint8),
        b=Box(0, 255, (40, 40), np.uint8),
        action_mask=MultiBinary(3),
    )
    with pytest.raises(APIUsageError, match="expected one image as observation"):
        Convolutional(emulate(Scripted(space, [], Discrete(3))))


def test_a_segment_is_masked_row_by_row():
    torch.manual_seed(0)
    env = emulate(Picky(choices=2, options=4))
    policy = LSTMWrapper(env, Default(env, 8), 8, 8)
    rows = [env.reset(seed=0)[0]]
    for _ in range(2):
        right = env.unwrapped.right
        rows.append(env.step(right)[0])
    segment = torch.from_numpy(np.stack(rows))[None].repeat(2, 1, 1)
    heads = policy(segment)[0]
    allowed = unpack_mask(segment, mask_layout(env.emulated)).reshape(6, 8)
    assert torch.equal(torch.cat(heads, -1) > -math.inf, allowed)


def test_cleanrls_policies_mask_too():
    torch.manual_seed(0)
    env = emulate(Picky(choices=2))
    rows = torch.from_numpy(np.stack([env.reset(seed=0)[0]] * 500))
    allowed = unpack_mask(rows, mask_layout(env.emulated)).view(500, 2, 8)
    plain, recurrent = Default(env, 8), LSTMWrapper(env, Default(env, 8), 8, 8)
    for agent in (cleanrl.Policy(plain), cleanrl.RecurrentPolicy(recurrent)):
        action, logprob, entropy, *_ = agent.get_action_and_value(rows)
        assert allowed.gather(2, action[..., None]).all()
        torch.testing.assert_close(agent.get_action_and_value(rows, action=action)[1], logprob)
        assert (entropy <= 2 * math.log(2)).all()


# -- environments that raise at an illegal action ------------------------------------------------


def test_the_conformance_checks_play_by_the_mask():
    check_env(lambda: emulate(Picky(choices=2)))
    check_vecenv(lambda: vector.make(lambda: emulate(Picky()), num_envs=3))


def test_autotune_plays_by_the_mask():
    stands = [ProfileStand(lambda: emulate(Picky(2))), SerialStand(lambda: emulate(Picky(2)), 3)]
    stands[1].start()
    for stand in stands:
        stand.run(0.02)
        stand.close()


@pytest.mark.parametrize(("policy", "greedy"), [(None, False), (Default, False), (Default, True)])
def test_evaluation_plays_by_the_mask(policy, greedy):
    # Episodes of different lengths: those that are done wait for the others.
    creators = [lambda n=n: emulate(Picky(length=n)) for n in (2, 7)]
    with vector.make(creators, num_envs=2) as vecenv:
        module = policy and policy(vecenv.driver_env, 8)
        result = evaluate_policy(vecenv, module, 40, greedy=greedy, seed=1)
    assert result.lengths.count(2) == result.lengths.count(7) == 20


@pytest.mark.slow
@pytest.mark.parametrize("recurrent", [False, True])
@pytest.mark.parametrize("choices", [0, 2])
def test_training_plays_by_the_mask(tmp_path, choices, recurrent):
    vecenv = vector.make(lambda: emulate(Picky(choices, length=5)), num_envs=4, seed=3)
    trainer = start(tmp_path, small(update_epochs=1), recurrent, vecenv)
    losses = update(trainer)
    assert all(math.isfinite(loss) for loss in losses.values())
    assert 0 < losses["entropy"] < max(choices, 1) * math.log(2) + 1e-6
    clean_pufferl.close(trainer)


class Leaving(Lives):
    """One of two agents leaves early; each may only do the action of its place."""

    space = Dict(observation=Box(-1e6, 1e6, (2,), np.float32), action_mask=MultiBinary(5))
    choice = MultiDiscrete([4, 1])

    def __init__(self):
        super().__init__([("ab", "", ""), ("b", "a", ""), ("b", "", ""), ("", "b", "")], "ab")

    def observation_space(self, agent):
        return self.space

    def action_space(self, agent):
        return self.choice

    def observe(self, agents):
        masks = {"a": [1, 0, 0, 0, 1], "b": [0, 1, 0, 0, 1]}
        return {
            agent: {"observation": row, "action_mask": np.array(masks[agent], np.int8)}
            for agent, row in super().observe(agents).items()
        }

    def step(self, actions):
        for agent, action in actions.items():
            assert action.tolist() == [self.possible_agents.index(agent), 0]
        return super().step(actions)


@pytest.mark.parametrize("recurrent", [False, True])
def test_absent_agents_bring_no_nan(tmp_path, recurrent):
    vecenv = vector.make(lambda: emulate(Leaving()), num_envs=4, seed=3)
    trainer = start(tmp_path, small(), recurrent, vecenv)
    losses = update(trainer, 2)
    assert all(math.isfinite(loss) for loss in losses.values())
    assert losses["entropy"] == pytest.approx(0, abs=1e-6)  # there is nothing to choose
    clean_pufferl.close(trainer)


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("choices", "options", "allowed", "remember"),
    [
        pytest.param(0, 12, 3, False, marks=pytest.mark.slow),
        pytest.param(2, 6, 2, True, marks=pytest.mark.slow),
        pytest.param(2, 6, 2, False, marks=pytest.mark.bench),
        pytest.param(0, 12, 3, True, marks=pytest.mark.bench),
    ],
)
def test_learning_where_most_actions_are_illegal(tmp_path, choices, options, allowed, remember):
    def creator():
        return emulate(EpisodeStats(Picky(choices, options, allowed, remember=remember)))

    torch.manual_seed(0)
    vecenv = vector.make(creator, num_envs=32, seed=1)
    policy = Default(vecenv.driver_env, 64)
    if remember:
        policy = LSTMWrapper(vecenv.driver_env, policy, 64, 64)
    config = small(total_timesteps=40_000, learning_rate=5e-3, batch_size=1024, minibatch_size=256)
    trainer = clean_pufferl.create(config, vecenv, policy, run_dir=tmp_path)
    while trainer.progress() < 1:
        update(trainer)
    random = evaluate_policy(vecenv, None, 200, seed=5).mean
    learnt = evaluate_policy(vecenv, policy, 200, greedy=True, seed=5).mean
    clean_pufferl.close(trainer)
    print(f"mean of at most 8: random {random}, learnt {learnt}")
    assert random < 3.2  # a third of 8 steps with one choice of three, a quarter with two of two
    assert learnt > 7.5
