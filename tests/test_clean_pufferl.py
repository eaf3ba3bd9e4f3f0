"""The whole loop on scripted and on real environments."""

import math
import time
from unittest.mock import Mock

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Dict, Discrete
from pettingzoo.utils.env import ParallelEnv
from torch import nn

import pufferlib.vector
from pufferlib import clean_pufferl
from pufferlib.emulation import GymnasiumPufferEnv, PettingZooPufferEnv
from pufferlib.environment import PufferEnv
from pufferlib.exceptions import APIUsageError, ConfigError, NonFiniteError
from pufferlib.models import Default, LSTMWrapper
from pufferlib.postprocess import EpisodeStats, MultiagentEpisodeStats
from pufferlib.trainer.config import TrainConfig


@pytest.fixture(autouse=True)
def _one_thread():
    """Networks of a few neurons only lose time to a second thread."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


class Clock(gymnasium.Env):
    """Episodes of three steps with reward 1; reward NaN or observation infinite where asked."""

    observation_space = Box(-np.inf, np.inf, (2,), np.float32)
    action_space = Discrete(3)

    def __init__(self, bad_reward_at=None, bad_observation_at=None):
        self.total, self.bad = 0, (bad_reward_at, bad_observation_at)

    def reset(self, seed=None, options=None):
        super().reset(seed=seed)
        self.step_count = 0
        return self._observe(), {}

    def step(self, action):
        self.step_count += 1
        self.total += 1
        reward = math.nan if self.total == self.bad[0] else 1.0
        observation = self._observe()
        if self.total == self.bad[1]:
            observation[1] = np.inf
        return observation, reward, False, self.step_count == 3, {}

    def _observe(self):
        return np.array([self.step_count, self.np_random.normal()], np.float32)


def make_clock(**kwargs):
    return GymnasiumPufferEnv(env=EpisodeStats(Clock(**kwargs)))


def small(**changes):
    defaults = {"device": "cpu", "bptt_horizon": 8, "total_timesteps": 2_000, "update_epochs": 2}
    return TrainConfig(**(defaults | changes))


def start(tmp_path, config=None, recurrent=False, vecenv=None, **make_options):
    torch.manual_seed(0)
    vecenv = vecenv or pufferlib.vector.make(make_clock, num_envs=4, seed=3, **make_options)
    policy = Default(vecenv.driver_env, 16)
    if recurrent:
        policy = LSTMWrapper(vecenv.driver_env, policy, 16, 16)
    return clean_pufferl.create(config or small(), vecenv, policy, run_dir=tmp_path)


def weights(trainer):
    return torch.cat([p.detach().flatten().clone() for p in trainer.policy.parameters()])


def update(trainer):
    clean_pufferl.evaluate(trainer)
    return clean_pufferl.train(trainer)


@pytest.mark.parametrize("recurrent", [False, True])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"backend": "multiprocessing", "num_workers": 2},
        {"backend": "multiprocessing", "num_workers": 2, "batch_size": 2, "zero_copy": False},
    ],
)
def test_the_loop_runs_on_every_backend(tmp_path, recurrent, options):
    trainer = start(tmp_path, recurrent=recurrent, **options)
    before = weights(trainer)
    for epoch in range(1, 4):
        losses = update(trainer)
        assert trainer.epoch == epoch
        assert all(math.isfinite(value) for value in losses.values())
    assert set(losses) >= {
        "policy_loss",
        "value_loss",
        "entropy",
        "approx_kl",
        "clipfrac",
        "grad_norm",
    }
    assert trainer.stats["episode_return"] == trainer.stats["episode_length"] == 3.0
    # three of four transitions of an agent count: the fourth is the reset
    assert trainer.global_step == pytest.approx(3 * 32 * 3 / 4, abs=12)
    assert not torch.equal(weights(trainer), before)
    assert trainer.losses is losses
    assert sum(trainer.timings.values()) == pytest.approx(time.time() - trainer.started, rel=0.2)
    clean_pufferl.close(trainer)
    clean_pufferl.close(trainer)


@pytest.mark.smoke
def test_statistics_are_exact(tmp_path):
    trainer = start(tmp_path)
    stats = clean_pufferl.evaluate(trainer)
    # nine rows each: 0 f, 1 n, 2 n, 3 end, 4 f, …, 7 end, 8 f
    assert stats == {"episode_return": 3.0, "episode_length": 3.0}
    assert stats.counts == {"episode_return": 8, "episode_length": 8}
    assert trainer.global_step == 4 * 6
    clean_pufferl.close(trainer)


def test_a_batch_in_which_no_episode_ends_has_no_statistics(tmp_path):
    trainer = start(tmp_path, small(bptt_horizon=2))
    assert clean_pufferl.evaluate(trainer) == {}
    clean_pufferl.close(trainer)


def test_train_needs_a_batch(tmp_path):
    trainer = start(tmp_path)
    with pytest.raises(APIUsageError, match=r"call evaluate\(\) first"):
        clean_pufferl.train(trainer)
    update(trainer)
    with pytest.raises(APIUsageError, match=r"call evaluate\(\) first"):
        clean_pufferl.train(trainer)
    clean_pufferl.close(trainer)


def test_the_same_seed_gives_the_same_run(tmp_path):
    runs = []
    for _ in range(2):
        trainer = start(tmp_path)
        losses = [update(trainer) for _ in range(3)]
        runs.append((losses, weights(trainer)))
        clean_pufferl.close(trainer)
    assert runs[0][0] == runs[1][0]
    assert torch.equal(runs[0][1], runs[1][1])


def test_the_learning_rate_falls_linearly_and_never_below_zero(tmp_path):
    trainer = start(tmp_path, small(total_timesteps=60, learning_rate=0.1))
    rates, steps = [], [0]
    for _ in range(5):
        update(trainer)
        rates.append(trainer.learning_rate)
        steps.append(trainer.global_step)
    assert steps[:4] == [0, 24, 48, 72]
    assert rates == pytest.approx([0.1, 0.1 * 36 / 60, 0.1 * 12 / 60, 0.0, 0.0])
    clean_pufferl.close(trainer)


def test_target_kl_ends_the_update_after_an_epoch(tmp_path, monkeypatch):
    counts = []
    for target in (None, 1e-9):
        trainer = start(tmp_path, small(update_epochs=5, target_kl=target, learning_rate=0.01))
        steps = Mock(wraps=trainer.optimizer.step)
        monkeypatch.setattr(trainer.optimizer, "step", steps)
        update(trainer)
        counts.append(steps.call_count)
        clean_pufferl.close(trainer)
    assert counts == [5 * 3, 3]  # 24 valid samples in parts of up to 8


def test_losses_are_means_over_all_minibatches(tmp_path):
    config = small(update_epochs=4, learning_rate=1e-12, anneal_lr=False)
    trainer = start(tmp_path, config)
    # The weights do not move, so every epoch reports the same entropy: that of 3 equal choices.
    assert update(trainer)["entropy"] == pytest.approx(math.log(3), abs=1e-3)
    clean_pufferl.close(trainer)


class Tensors(nn.Module):
    """A user's policy whose values are `(B,)`."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(2, 4)

    def forward(self, x):
        out = self.layer(x)
        return out[:, :3], out[:, 3]


def test_values_may_be_flat(tmp_path):
    vecenv = pufferlib.vector.make(make_clock, num_envs=2)
    trainer = clean_pufferl.create(small(), vecenv, Tensors(), run_dir=tmp_path)
    assert update(trainer)["value_loss"] > 0
    clean_pufferl.close(trainer)


def test_a_run_directory_is_made_when_none_is_given(tmp_path):
    vecenv = pufferlib.vector.make(make_clock, num_envs=2)
    config = small(data_dir=str(tmp_path))
    trainer = clean_pufferl.create(config, vecenv, Tensors(), record={"env_name": "clock"})
    assert trainer.run_dir.parent == tmp_path
    assert trainer.run_dir.name.startswith("clock-")
    clean_pufferl.close(trainer)


# -- numbers that are none -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"bad_reward_at": 10}, r"rewards: .*got nan for agent 2 \(environment 2\) at step 13"),
        (
            {"bad_observation_at": 4},
            r"observations: .*got inf for agent 2 \(environment 2\) at step 5",
        ),
    ],
)
def test_what_is_not_finite_is_named(tmp_path, kwargs, message):
    creators = [make_clock] * 4
    env_kwargs = [{}, {}, kwargs, {}]
    vecenv = pufferlib.vector.make(creators, [()] * 4, env_kwargs, num_envs=4)
    trainer = start(tmp_path, small(bptt_horizon=16), vecenv=vecenv)
    clean_pufferl.evaluate(trainer)
    before = weights(trainer)
    with pytest.raises(NonFiniteError, match=message):
        clean_pufferl.train(trainer)
    assert torch.equal(weights(trainer), before)
    clean_pufferl.close(trainer)


class Exploding(Tensors):
    """Finite outputs, but a gradient that is not."""

    def forward(self, x):
        logits, value = super().forward(x)
        return logits, value + torch.sqrt(value - value.detach())


def test_a_gradient_that_is_not_finite_never_reaches_the_weights(tmp_path):
    vecenv = pufferlib.vector.make(make_clock, num_envs=2)
    trainer = clean_pufferl.create(small(), vecenv, Exploding(), run_dir=tmp_path)
    before = weights(trainer)
    clean_pufferl.evaluate(trainer)
    with pytest.raises(NonFiniteError, match=r"gradient.*Lower train.learning_rate"):
        clean_pufferl.train(trainer)
    assert torch.equal(weights(trainer), before)
    clean_pufferl.close(trainer)


def test_a_policy_that_computes_nan_is_named(tmp_path):
    vecenv = pufferlib.vector.make(make_clock, num_envs=2)
    policy = Tensors()
    trainer = clean_pufferl.create(small(), vecenv, policy, run_dir=tmp_path)
    with torch.no_grad():
        policy.layer.bias[0] = math.nan
    clean_pufferl.evaluate(trainer)
    with pytest.raises(NonFiniteError, match="logprobs: .*the policy computed it"):
        clean_pufferl.train(trainer)
    clean_pufferl.close(trainer)


class Inventory(gymnasium.Env):
    """Structured observations and actions; `hp` becomes infinite in step 5."""

    observation_space = Dict(
        {
            "map": Box(0, 255, (3, 3), np.uint8),
            "self": Dict({"hp": Box(-9e9, np.inf, (2,), np.float64)}),
        }
    )
    action_space = Dict({"go": Discrete(4, start=1), "how": Box(-0.1, 0.1, (2,), np.float32)})

    def __init__(self, breaks):
        self.breaks = breaks

    def reset(self, seed=None, options=None):
        super().reset(seed=seed)
        self.time = 0
        return self._observe(), {}

    def step(self, action):
        assert self.action_space.contains(action), action
        self.time += 1
        return self._observe(), 1.0, False, False, {"go": action["go"], "where": "cave"}

    def _observe(self):
        hp = np.array([np.inf if self.breaks and self.time == 5 else 1.0, 2.0])
        return {"map": self.np_random.integers(0, 255, (3, 3), np.uint8), "self": {"hp": hp}}


@pytest.mark.parametrize("recurrent", [False, True])
def test_structured_spaces_are_trained_on(tmp_path, recurrent):
    vecenv = pufferlib.vector.make(
        lambda: GymnasiumPufferEnv(env=Inventory(breaks=False)), num_envs=3
    )
    trainer = start(tmp_path, recurrent=recurrent, vecenv=vecenv)
    assert update(trainer)["grad_norm"] > 0
    assert trainer.stats.keys() == {"go"}
    assert 1 <= trainer.stats["go"] <= 4
    assert trainer.stats.counts["go"] == trainer.global_step == 3 * 8
    assert trainer.stats.other == {"where": "cave"}
    clean_pufferl.close(trainer)


def test_a_leaf_that_is_not_finite_is_named(tmp_path):
    vecenv = pufferlib.vector.make(
        lambda: GymnasiumPufferEnv(env=Inventory(breaks=True)), num_envs=3
    )
    trainer = start(tmp_path, vecenv=vecenv)
    with pytest.raises(NonFiniteError, match=r"observations\['self'\]\['hp'\].*got inf.*at step 5"):
        clean_pufferl.evaluate(trainer)  # a continuous action would be NaN
    clean_pufferl.close(trainer)


# -- agents that are not there ---------------------------------------------------------------


class Crowd(PufferEnv):
    """`slots` agents of which only the first lives; the others hold 1e6 in every row."""

    def __init__(self, slots):
        self.single_observation_space = Box(-np.inf, np.inf, (2,), np.float32)
        self.single_action_space = Discrete(3)
        self.num_agents = slots
        super().__init__()

    def _fill(self, time, reward):
        self.time = time
        self.observations[:] = 1e6
        self.rewards[:] = 1e6
        self.masks[:] = False
        self.observations[0] = self.rng.normal(size=2)
        self.rewards[0], self.masks[0] = reward, True
        self.terminals[:] = False
        self.truncations[:] = False
        self.terminals[0] = time == 5

    def reset(self, seed=None, options=None):
        self.rng = np.random.default_rng(11)
        self._fill(0, 0.0)
        return []

    def step(self, actions):
        if self.terminals[0]:
            self._fill(0, 0.0)
        else:
            self._fill(self.time + 1, float(self.rng.normal()))
        return []


class Fixed(nn.Module):
    """Logits that leave no choice, so that acting does not depend on how many rows there are."""

    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, x):
        logits, value = self.inner(x)
        return logits + torch.tensor([60.0, 0.0, 0.0]), value


class FixedRecurrent(Fixed):
    def forward(self, x, state=None, starts=None):
        logits, value, state = self.inner(x, state, starts)
        return logits + torch.tensor([60.0, 0.0, 0.0]), value, state


def crowd_run(tmp_path, slots, recurrent, minibatches):
    torch.manual_seed(0)
    vecenv = pufferlib.vector.make(lambda: Crowd(slots), num_envs=1)
    policy = Default(vecenv.driver_env, 8)
    policy = (
        FixedRecurrent(LSTMWrapper(vecenv.driver_env, policy, 8, 8)) if recurrent else Fixed(policy)
    )
    config = small(batch_size=32 * slots, minibatch_size=32 // minibatches, update_epochs=3)
    trainer = clean_pufferl.create(config, vecenv, policy, run_dir=tmp_path)
    losses = []
    for epoch in range(3):
        clean_pufferl.evaluate(trainer)
        torch.manual_seed(100 + epoch)
        losses.append(clean_pufferl.train(trainer))
    clean_pufferl.close(trainer)
    return trainer.global_step, losses, weights(trainer)


@pytest.mark.parametrize("recurrent", [False, True])
@pytest.mark.parametrize("minibatches", [1, 4])
def test_dead_slots_change_nothing(tmp_path, recurrent, minibatches):
    alone = crowd_run(tmp_path, 1, recurrent, minibatches)
    crowd = crowd_run(tmp_path, 8, recurrent, minibatches)
    assert crowd[0] == alone[0] == 3 * 27 - 1  # episodes of 5: one row in 6 is a reset
    for ours, theirs in zip(crowd[1], alone[1], strict=True):
        assert ours == pytest.approx(theirs, rel=1e-5, abs=1e-6)
    torch.testing.assert_close(crowd[2], alone[2])


class Relay(ParallelEnv):
    """`a` plays steps 0 to 4; `b` steps 0 to 2, then dies; `c` joins at step 3."""

    possible_agents = ["a", "b", "c"]
    metadata = {"name": "relay"}
    render_mode = None

    def observation_space(self, agent):
        return Box(-1, 9, (2,), np.float32)

    def action_space(self, agent):
        return Discrete(2)

    def reset(self, seed=None, options=None):
        self.time, self.agents = 0, ["a", "b"]
        return self._observations(), {agent: {} for agent in self.agents}

    def step(self, actions):
        assert sorted(actions) == self.agents
        self.time += 1
        ending = {2: ["b"], 4: ["a", "c"]}.get(self.time, [])
        if self.time == 3:
            self.agents = ["a", "c"]
        results = (
            self._observations(),
            dict.fromkeys(self.agents, 1.0),
            {agent: agent in ending for agent in self.agents},
            dict.fromkeys(self.agents, False),
            {agent: {} for agent in self.agents},
        )
        self.agents = [agent for agent in self.agents if agent not in ending]
        return results

    def _observations(self):
        return {agent: np.array([self.time, 0], np.float32) for agent in self.agents}


@pytest.mark.parametrize("recurrent", [False, True])
def test_agents_that_die_and_join(tmp_path, recurrent):
    vecenv = pufferlib.vector.make(
        lambda: PettingZooPufferEnv(env=MultiagentEpisodeStats(Relay())), num_envs=2
    )
    trainer = start(tmp_path, small(bptt_horizon=10), recurrent=recurrent, vecenv=vecenv)
    assert math.isfinite(update(trainer)["grad_norm"])
    # Two episodes of five rows, then the first row of a third: `a` acts 4 times in each,
    # `b` twice, `c` once.
    assert trainer.global_step == 2 * 2 * (4 + 2 + 1)
    assert trainer.stats.counts["episode_return"] == 2 * 2 * 3
    clean_pufferl.close(trainer)


def test_a_batch_without_a_valid_sample_teaches_nothing(scripted_dead, tmp_path):
    vecenv, policy = scripted_dead
    trainer = clean_pufferl.create(small(), vecenv, policy, run_dir=tmp_path)
    before = weights(trainer)
    assert clean_pufferl.evaluate(trainer) == {}
    assert clean_pufferl.train(trainer) == {}
    assert (trainer.global_step, trainer.epoch) == (0, 1)
    assert torch.equal(weights(trainer), before)
    clean_pufferl.close(trainer)


class Deserted(Crowd):
    def _fill(self, time, reward):
        super()._fill(time, reward)
        self.masks[:] = False
        self.terminals[:] = False


@pytest.fixture
def scripted_dead():
    vecenv = pufferlib.vector.make(lambda: Deserted(2), num_envs=1)
    return vecenv, Default(vecenv.driver_env, 8)


# -- settings --------------------------------------------------------------------------------


def test_sizes_that_do_not_fit_are_refused(tmp_path):
    with pytest.raises(ConfigError, match=r"batch_size \(30\).*nearest: 24 or 32"):
        start(tmp_path, small(batch_size=30))


def test_a_device_that_does_not_exist_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="train.device: expected 'auto'.*'abacus'"):
        start(tmp_path, small(device="abacus"))


def test_a_batch_may_be_larger_than_one_segment_per_agent(tmp_path):
    trainer = start(tmp_path, small(batch_size=3 * 4 * 8))
    update(trainer)
    assert trainer.global_step == 4 * 18
    clean_pufferl.close(trainer)


def test_a_compiled_policy_trains_the_plain_one(tmp_path, monkeypatch):
    compile_module = torch.compile
    monkeypatch.setattr(
        torch, "compile", lambda module, mode: compile_module(module, backend="eager")
    )
    plain = start(tmp_path)
    compiled = start(tmp_path, small(compile=True))
    assert compiled.model is not compiled.policy
    for _ in range(2):
        for trainer in (plain, compiled):
            torch.manual_seed(7)
            update(trainer)
    torch.testing.assert_close(weights(compiled), weights(plain))
    for trainer in (plain, compiled):
        clean_pufferl.close(trainer)
