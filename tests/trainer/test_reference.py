"""The trainer against a second PPO: slow, obvious, and sharing no code with the first.

The reference reads the rows that the environment delivered and the actions that it was sent. It
walks over them row by row in pure Python, and works out samples, advantages, losses and gradients
from their definitions.
"""

import copy
import math

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Discrete, MultiDiscrete
from gymnasium.vector import AutoresetMode

from pufferlib import clean_pufferl
from pufferlib.models import Default, LSTMWrapper
from pufferlib.spaces import Mixed
from pufferlib.trainer.batch import Batch
from pufferlib.trainer.learn import ppo_loss

HORIZON = 8
LIVES = [  # two segments and one row; see `rows_from_lives`
    "fnntfnnnnufnnnnnn",
    "fnnnnnnnnnnnnnnnn",
    "----fnnnt---fnnnn",
    "fnnufntfnufnnnnnt",
    "-----------------",
    "fnnn---fnn----fnn",
]
SAMPLES = 14 + 16 + 8 + 13 + 0 + 7  # counted by hand


def make_trainer(scripted, tmp_path, rows, config, recurrent=False, **options):
    torch.manual_seed(5)
    vecenv = scripted.VecEnv(rows, len(rows[0]["agents"]), **options)
    policy = Default(vecenv.driver_env, hidden_size=16)
    if recurrent:
        policy = LSTMWrapper(vecenv.driver_env, policy, 16, 16)
    # Larger weights than usual, so that policy and values differ visibly from row to row.
    with torch.no_grad():
        for parameter in policy.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return clean_pufferl.create(config, vecenv, policy, run_dir=tmp_path)


class Reference:
    """PPO from its definition, agent by agent and row by row.

    Args:
        rows: what the environment delivered, one dict per step, agents in step.
        actions: what it was sent, one array per step but the last.
        policy: a copy of the initial policy.
        config: the hyperparameters.
        same_step: the environments reset in the step that ends an episode.
    """

    def __init__(self, rows, actions, policy, config, recurrent, same_step=False):
        self.rows, self.actions, self.policy, self.config = rows, actions, policy, config
        self.recurrent, self.same_step = recurrent, same_step
        self.num_agents = len(rows[0]["agents"])

    def column(self, name, agent):
        return [row[name][agent] for row in self.rows]

    def forward(self, agent, anchors=None):
        """Log-probability, entropy, value of each row; values of final observations; states.

        With `anchors`, the states before each row of the policy that acted, every segment begins
        from its anchor: gradients do not reach further back.
        """
        masks = self.column("masks", agent)
        dones = [row["terminals"][agent] or row["truncations"][agent] for row in self.rows]
        state, outputs, finals, states = None, [], [], []
        for time, observation in enumerate(self.column("observations", agent)):
            if anchors is not None and time % HORIZON == 0:
                state = anchors[time]
            states.append(state)
            final = None
            if self.same_step and self.rows[time]["truncations"][agent]:
                final = self.value(self.rows[time]["final_observations"][agent], state)
            finals.append(final)
            was_done = dones[time] if self.same_step else (time > 0 and dones[time - 1])
            was_absent = time > 0 and not masks[time - 1]
            if was_done or was_absent:
                state = None
            x = torch.tensor(np.array(observation))[None]
            if self.recurrent:
                logits, value, state = self.policy(x, state)
            else:
                logits, value = self.policy(x)
            action = self.actions[time][agent] if time < len(self.actions) else None
            outputs.append((*self.log_prob_and_entropy(logits, action), value[0, 0]))
        return outputs, finals, states

    def value(self, observation, state):
        x = torch.tensor(np.array(observation))[None]
        return (self.policy(x, state) if self.recurrent else self.policy(x))[1][0, 0]

    def log_prob_and_entropy(self, logits, action):
        if action is None:
            return None, None
        if isinstance(logits, torch.Tensor):
            return categorical(logits[0], int(action))
        parts = [
            categorical(head[0], int(choice)) for head, choice in zip(logits, action, strict=True)
        ]
        return sum(part[0] for part in parts), sum(part[1] for part in parts)

    def samples(self):
        """One dict per valid sample, in order; advantages by the definition of GAE."""
        with torch.no_grad():
            self.old = [self.forward(agent) for agent in range(self.num_agents)]
        return [
            sample
            for agent in range(self.num_agents)
            for begin in range(0, len(self.rows) - 1, HORIZON)
            for sample in self.segment(agent, begin, *self.old[agent][:2])
        ]

    def add_new(self, samples):
        """Put what the policy says now into the samples."""
        new = [self.forward(agent, self.old[agent][2])[0] for agent in range(self.num_agents)]
        for sample in samples:
            outputs = new[sample["agent"]][sample["time"]]
            sample["logprob"], sample["entropy"], sample["value"] = outputs

    def segment(self, agent, begin, old, finals):
        gamma, lam = self.config.gamma, self.config.gae_lambda
        reward, mask = self.column("rewards", agent), self.column("masks", agent)
        terminal, truncated = self.column("terminals", agent), self.column("truncations", agent)

        def is_sample(time):
            acted = self.same_step or not (terminal[time] or truncated[time])
            return bool(mask[time] and mask[time + 1] and acted)

        def advantage(time):
            if time == begin + HORIZON or not is_sample(time):
                return 0.0
            led_to = (
                old[time + 1][2].item() if finals[time + 1] is None else finals[time + 1].item()
            )
            if terminal[time + 1]:
                led_to = 0.0
            delta = float(reward[time + 1]) + gamma * led_to - old[time][2].item()
            if terminal[time + 1] or truncated[time + 1]:
                return delta
            return delta + gamma * lam * advantage(time + 1)

        return [
            {
                "agent": agent,
                "time": time,
                "advantage": advantage(time),
                "return": advantage(time) + old[time][2].item(),
                "old_logprob": old[time][0].item(),
                "old_value": old[time][2].item(),
            }
            for time in range(begin, begin + HORIZON)
            if is_sample(time)
        ]

    def loss(self, samples):
        config, n = self.config, len(samples)
        advantages = [sample["advantage"] for sample in samples]
        if config.norm_adv:
            mean = sum(advantages) / n
            std = math.sqrt(sum((a - mean) ** 2 for a in advantages) / n)
            advantages = [(a - mean) / (std + 1e-8) for a in advantages]
        total = torch.zeros(())
        for sample, a in zip(samples, advantages, strict=True):
            ratio = torch.exp(sample["logprob"] - sample["old_logprob"])
            clipped = torch.clamp(ratio, 1 - config.clip_coef, 1 + config.clip_coef)
            policy_loss = -torch.minimum(a * ratio, a * clipped)
            error = (sample["value"] - sample["return"]) ** 2
            if config.clip_vloss:
                step = torch.clamp(
                    sample["value"] - sample["old_value"], -config.vf_clip_coef, config.vf_clip_coef
                )
                error = torch.maximum(error, (sample["old_value"] + step - sample["return"]) ** 2)
            total = total + policy_loss - config.ent_coef * sample["entropy"]
            total = total + config.vf_coef * 0.5 * error
        return total / n


def categorical(logits, choice):
    """Log-probability of `choice` and entropy, from the definition of the softmax."""
    exponentials = [torch.exp(z) for z in logits]
    normalizer = sum(exponentials)
    probabilities = [e / normalizer for e in exponentials]
    entropy = -sum(p * torch.log(p) for p in probabilities)
    return torch.log(probabilities[choice]), entropy


def disturb(policies):
    """The same change to the weights of each, so that ratios leave 1 and the clips bite."""
    for policy in policies:
        generator = torch.Generator().manual_seed(9)
        with torch.no_grad():
            for parameter in policy.parameters():
                parameter.add_(0.05 * torch.randn(parameter.shape, generator=generator))


def compare(trainer, rows, recurrent, same_step=False, samples=None):
    """Collect with the trainer, recompute with the reference, compare everything."""
    config = trainer.config
    initial = copy.deepcopy(trainer.policy)
    clean_pufferl.evaluate(trainer)
    reference = Reference(rows, trainer.vecenv.actions, initial, config, recurrent, same_step)
    expected = reference.samples()
    segments = trainer.experience.collect(config.gamma, config.gae_lambda)

    assert trainer.global_step == len(expected)
    if samples is not None:
        assert len(expected) == samples
    keys = [(sample["agent"], sample["time"]) for sample in expected]
    stored = [
        (int(segments.agents[i]), int(segments.first_steps[i] + t), i, t)
        for i, t in np.argwhere(segments.valid)
    ]
    assert sorted(key[:2] for key in stored) == sorted(keys)
    by_key = {key[:2]: key[2:] for key in stored}
    for key, sample in zip(keys, expected, strict=True):
        assert segments.advantages[by_key[key]] == pytest.approx(sample["advantage"], abs=1e-5)
        assert segments.values[by_key[key]] == pytest.approx(sample["old_value"], abs=1e-5)
        assert segments.logprobs[by_key[key]] == pytest.approx(sample["old_logprob"], abs=1e-5)

    for moved in (False, True):
        if moved:
            disturb([trainer.policy, initial])
        reference.add_new(expected)
        expected_loss = reference.loss(expected)
        initial.zero_grad()
        expected_loss.backward()
        state = trainer.states.at(segments.slots) if trainer.states else None
        (minibatch,) = Batch(segments, trainer.device, state).minibatches(10**6)
        loss, _ = ppo_loss(trainer, minibatch)
        trainer.policy.zero_grad()
        loss.backward()
        torch.testing.assert_close(loss, expected_loss, atol=1e-5, rtol=1e-5)
        others = dict(initial.named_parameters())
        for name, own in trainer.policy.named_parameters():
            torch.testing.assert_close(own.grad, others[name].grad, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("recurrent", [False, True])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {
            "clip_vloss": False,
            "norm_adv": False,
            "gamma": 0.9,
            "gae_lambda": 0.7,
            "clip_coef": 0.02,
        },
    ],
)
def test_loss_gradients_and_advantages(scripted, tmp_path, recurrent, options):
    rows = scripted.rows_from_lives(LIVES)
    config = scripted.config(batch_size=2 * HORIZON * len(LIVES), **options)
    trainer = make_trainer(scripted, tmp_path, rows, config, recurrent)
    compare(trainer, rows, recurrent, samples=SAMPLES)


@pytest.mark.parametrize("recurrent", [False, True])
def test_environments_that_reset_in_the_same_step(scripted, tmp_path, recurrent):
    # A flag is on the row that begins the next episode, beside the last observation.
    lives = ["fnntnnnnnunnnnnnu", "fnnnuunnnnttnnnnt", "---fnnnt---fnunnn"]
    rows = scripted.rows_from_lives(lives)
    rng = np.random.default_rng(4)
    for row in rows:
        row["final_observations"] = rng.normal(size=(3, 3)).astype(np.float32)
    config = scripted.config(batch_size=2 * HORIZON * 3)
    trainer = make_trainer(
        scripted, tmp_path, rows, config, recurrent, autoreset_mode=AutoresetMode.SAME_STEP
    )
    # 16, 16, and of the third 3..6, and 11..15
    compare(trainer, rows, recurrent, same_step=True, samples=16 + 16 + 4 + 5)


def test_several_choices_at_once(scripted, tmp_path):
    rows = scripted.rows_from_lives(LIVES)
    config = scripted.config(batch_size=2 * HORIZON * len(LIVES))
    space = MultiDiscrete([3, 2, 4])
    trainer = make_trainer(scripted, tmp_path, rows, config, action_space=space)
    compare(trainer, rows, recurrent=False, samples=SAMPLES)


@pytest.mark.parametrize("space", [Box(-0.1, 0.1, (2,), np.float32), Mixed([3], [-0.1], [0.1])])
def test_continuous_actions_are_stored_as_sampled_and_sent_clipped(scripted, tmp_path, space):
    rows = scripted.rows_from_lives(["fnnnnnnnn"] * 2)
    config = scripted.config()
    trainer = make_trainer(scripted, tmp_path, rows, config, action_space=space)
    clean_pufferl.evaluate(trainer)
    stored = trainer.experience.actions
    sent = np.stack(trainer.vecenv.actions, axis=1)
    assert (np.abs(stored[..., 1:]) > 0.1).mean() > 0.5
    np.testing.assert_array_equal(sent, np.clip(stored, space.low, space.high))
    segments = trainer.experience.collect(0.99, 0.95)
    (minibatch,) = Batch(segments, trainer.device).minibatches(10**6)
    _, metrics = ppo_loss(trainer, minibatch)
    assert metrics["approx_kl"].item() == pytest.approx(0, abs=1e-9)
    assert clean_pufferl.train(trainer)["grad_norm"] > 0


def test_actions_of_a_choice_are_sent_as_they_are(scripted, tmp_path):
    rows = scripted.rows_from_lives(["fnnnnnnnn"] * 2)
    trainer = make_trainer(scripted, tmp_path, rows, scripted.config(), action_space=Discrete(5))
    clean_pufferl.evaluate(trainer)
    sent = np.stack(trainer.vecenv.actions, axis=1)
    np.testing.assert_array_equal(sent, trainer.experience.actions)
    assert sent.dtype == np.int64
