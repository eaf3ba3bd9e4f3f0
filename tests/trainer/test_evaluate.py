"""Evaluation counts without bias, keeps recurrent states apart, and leaves no trace."""

from functools import partial

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium.vector import AutoresetMode
from toys import COMINGS_AND_GOINGS, Lives

from pufferlib import vector
from pufferlib.emulation import GymnasiumPufferEnv, PettingZooPufferEnv
from pufferlib.environment import PufferEnv
from pufferlib.exceptions import APIUsageError
from pufferlib.models import Default, LSTMWrapper
from pufferlib.postprocess import ENDED_PART, EpisodeStats
from pufferlib.trainer.evaluate import bootstrap_interval, evaluate_policy
from pufferlib.trainer.setup import load_config, make_policy, make_vecenv


class Countdown(gymnasium.Env):
    """Episodes of `length` steps; rewards the action; observes how many steps were taken."""

    metadata = {"render_modes": ["ansi"], "render_fps": 7}
    observation_space = gymnasium.spaces.Box(0, 1000, (1,), np.float32)
    action_space = gymnasium.spaces.Discrete(3)
    render_mode = "ansi"

    def __init__(self, length=2, truncate=False):
        self.length, self.truncate, self.time = length, truncate, 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.time = 0
        return np.zeros(1, np.float32), {}

    def step(self, action):
        self.time += 1
        over = self.time == self.length
        observation = np.full(1, self.time, np.float32)
        info = {"score": 10.0 * self.length} if over else {}
        return observation, float(action), over and not self.truncate, over and self.truncate, info

    def render(self):
        return f"\x1b[31m{self.time}\x1b[0m\nx"


class SameStep(PufferEnv):
    """The same in the native contract, resetting in the step that ends an episode."""

    autoreset_mode = AutoresetMode.SAME_STEP

    def __init__(self, length):
        self.single_observation_space = Countdown.observation_space
        self.single_action_space = Countdown.action_space
        self.num_agents = 2
        self.length = length
        super().__init__()

    def reset(self, seed=None, options=None):
        self.time = 0
        self.observations[:] = 0
        self.rewards[:] = 0
        self.terminals[:] = self.truncations[:] = False
        self.masks[:] = True
        return []

    def step(self, actions):
        self.time += 1
        self.rewards[:] = actions
        over = self.time == self.length
        self.terminals[:] = over
        self.time = 0 if over else self.time
        self.observations[:] = self.time
        return []

    def close(self):
        pass


class Always(torch.nn.Module):
    """Prefers action `choice`, nearly or quite surely."""

    def __init__(self, choice, sharpness=1e4):
        super().__init__()
        self.logits = torch.nn.Parameter(torch.zeros(3))
        with torch.no_grad():
            self.logits[choice] = sharpness

    def forward(self, observations):
        rows = len(observations)
        return self.logits.expand(rows, 3), torch.zeros(rows, 1)


class Memory(torch.nn.Module):
    """Counts the rows of its life in the state; acts by the count modulo 3."""

    def __init__(self):
        super().__init__()
        self.anchor = torch.nn.Parameter(torch.zeros(1))
        self.lives = []

    def forward(self, observations, state=None, starts=None):
        rows = len(observations)
        (count,) = state or (torch.zeros(1, rows, 1),)
        count = torch.where(starts[None, :, None], 0.0, count) + 1
        self.lives.append((count[0, :, 0].tolist(), observations[:, 0].tolist()))
        logits = torch.nn.functional.one_hot(count[0, :, 0].long() % 3, 3) * 1e4
        return logits, torch.zeros(rows, 1), (count,)


def make(*lengths, stats=True, truncate=False, **kwargs):
    wrap = EpisodeStats if stats else (lambda env: env)
    creators = [
        lambda length=length: GymnasiumPufferEnv(env=wrap(Countdown(length, truncate)))
        for length in lengths
    ]
    return vector.make(creators, num_envs=len(lengths), **kwargs)


@pytest.mark.parametrize("truncate", [False, True])
@pytest.mark.parametrize("stats", [False, True])
def test_every_environment_plays_the_same_number_of_episodes(stats, truncate):
    with make(1, 2, 50, stats=stats, truncate=truncate) as vecenv:
        result = evaluate_policy(vecenv, Always(2), episodes=5)
    assert sorted(result.lengths) == [1, 1, 2, 2, 50, 50]
    assert sorted(result.returns) == [2.0, 2.0, 4.0, 4.0, 100.0, 100.0]
    assert result.scores == result.returns
    assert result.mean == pytest.approx(np.mean(result.returns))
    assert result.episodes == 6


class TwoLives(gymnasium.Wrapper):
    """Two lives of an episode: an end after its second step, from which it goes on."""

    clock = 0

    def reset(self, *, seed=None, options=None):
        if self.clock == 2:
            return self.env.step(2)[0], {}
        return self.env.reset(seed=seed, options=options)

    def step(self, action):
        observation, reward, terminal, truncation, info = self.env.step(action)
        self.clock = 0 if terminal else self.clock + 1
        if self.clock == 2:
            return observation, reward, True, truncation, {ENDED_PART: "life"}
        return observation, reward, terminal, truncation, info


def test_a_part_of_an_episode_does_not_count():
    def creator(length):
        return GymnasiumPufferEnv(env=TwoLives(EpisodeStats(Countdown(length, False))))

    creators = [partial(creator, length) for length in (4, 6)]
    with vector.make(creators, num_envs=2) as vecenv:
        result = evaluate_policy(vecenv, Always(2), episodes=6)
    assert sorted(result.lengths) == [4, 4, 4, 6, 6, 6]
    assert sorted(result.returns) == [8.0, 8.0, 8.0, 12.0, 12.0, 12.0]


class Logging(Always):
    """Notes how many steps each row that it is asked about has taken."""

    def forward(self, observations):
        self.seen = [*getattr(self, "seen", ()), *observations[:, 0].tolist()]
        return super().forward(observations)


@pytest.mark.parametrize("batch_size", [3, 1])
def test_the_policy_is_asked_about_unfinished_agents_only(batch_size):
    policy = Logging(0)
    with make(1, 2, 50, batch_size=batch_size) as vecenv:
        evaluate_policy(vecenv, policy, episodes=4)
    # Two episodes each: all their rows but the very last.
    expected = [0, 1, 0] + [0, 1, 2, 0, 1] + [*range(51), *range(50)]
    assert sorted(policy.seen) == sorted(expected)


def test_environments_that_reset_in_the_same_step():
    vecenv = vector.make([lambda: SameStep(1), lambda: SameStep(4)], num_envs=2)
    with vecenv:
        result = evaluate_policy(vecenv, Always(1), episodes=8)
    assert sorted(result.lengths) == [1] * 4 + [4] * 4
    assert sorted(result.returns) == [1.0] * 4 + [4.0] * 4


def test_batches_smaller_than_the_pool_keep_states_apart():
    policy = Memory()
    with make(3, 5, 4, 7, batch_size=2) as vecenv:
        result = evaluate_policy(vecenv, policy, episodes=8)
    assert sorted(result.lengths) == [3, 3, 4, 4, 5, 5, 7, 7]
    for counts, observations in policy.lives:
        # The state counts the rows of a life, the observation the steps: always one apart.
        assert counts == [steps + 1 for steps in observations]


class Lengths(Memory):
    """Logs how long each life has been, under the place of its agent."""

    def forward(self, observations, state=None, starts=None):
        places, count = observations[:, 0].tolist(), state
        logits, value, count = super().forward(observations, state, starts)
        self.log = [*getattr(self, "log", []), *zip(places, self.lives[-1][0], strict=True)]
        return torch.cat([logits, logits[:, :1]], dim=-1), value, count


@pytest.mark.parametrize("backend", ["serial", "multiprocessing"])
def test_agents_of_a_game_that_come_and_go_have_memories_and_episodes_of_their_own(backend):
    policy = Lengths()
    creator = partial(PettingZooPufferEnv, env_creator=partial(Lives, COMINGS_AND_GOINGS))
    with vector.make(creator, num_envs=2, backend=backend) as vecenv:
        result = evaluate_policy(vecenv, policy, episodes=12)
    # Two episodes of each agent of both games, paid by the clock: a all four steps, b the first
    # two, c, which comes with the third, the last one.
    assert sorted(zip(result.lengths, result.returns, strict=True)) == sorted(
        [(4, 10.0), (2, 3.0), (1, 4.0)] * 4
    )
    lives = {
        place: sorted({length for at, length in policy.log if at == place})
        for place in (10, 11, 12)
    }
    assert lives == {10: [1, 2, 3, 4, 5], 11: [1, 2, 3], 12: [1, 2]}


def test_score_comes_from_the_episode_record():
    with make(1, 3) as vecenv:
        result = evaluate_policy(vecenv, None, episodes=4, score_key="score")
    assert sorted(result.scores) == [10.0, 10.0, 30.0, 30.0]


def test_unknown_score_names_what_there_is():
    with (
        make(1) as vecenv,
        pytest.raises(APIUsageError, match="no 'points'.*episode_return.*score"),
    ):
        evaluate_policy(vecenv, None, episodes=1, score_key="points")


def test_no_episodes_are_refused():
    with make(1) as vecenv, pytest.raises(APIUsageError, match="at least 1, got 0"):
        evaluate_policy(vecenv, None, episodes=0)


def test_greedy_takes_the_mode_and_sampling_does_not():
    policy = Always(2, sharpness=0.5)
    with make(4) as vecenv:
        greedy = evaluate_policy(vecenv, policy, episodes=20, greedy=True)
        sampled = evaluate_policy(vecenv, policy, episodes=20)
    assert set(greedy.returns) == {8.0}
    assert len(set(sampled.returns)) > 2


def test_seed_decides_everything_and_global_state_stays():
    policy = Always(0, sharpness=0.1).train()
    before = torch.get_rng_state()
    with make(20, 20) as vecenv:
        first, again, other = (
            evaluate_policy(vecenv, policy, episodes=4, seed=seed).returns for seed in (3, 3, 4)
        )
    assert first == again != other
    assert torch.equal(before, torch.get_rng_state())
    assert policy.training


def test_random_actions_are_seeded():
    with make(30) as vecenv:
        first, again, other = (
            evaluate_policy(vecenv, None, episodes=2, seed=seed).returns for seed in (3, 3, 4)
        )
    assert first == again != other


def test_real_recurrent_policy_plays():
    config = load_config("squared")
    with make_vecenv(config, backend="serial", num_envs=4) as vecenv:
        env = vecenv.driver_env
        policy = LSTMWrapper(env, Default(env, hidden_size=16), input_size=16, hidden_size=16)
        result = evaluate_policy(vecenv, policy, episodes=8, score_key="score")
    assert result.lengths == [3] * 8
    assert all(0 <= score <= 1 for score in result.scores)


def test_interval_covers_the_mean_and_shrinks():
    rng = np.random.default_rng(0)
    wide, narrow = (bootstrap_interval(rng.normal(5, 1, size)) for size in (20, 2000))
    assert wide[0] < 5 < wide[1]
    assert narrow[1] - narrow[0] == pytest.approx(2 * 1.96 / np.sqrt(2000), rel=0.2)
    assert bootstrap_interval(np.array([3.0])) == (3.0, 3.0)


def test_continuous_actions_stay_within_bounds():
    config = load_config("pendulum")
    with make_vecenv(config, backend="serial", num_envs=2, max_episode_steps=5) as vecenv:
        policy = make_policy(config, vecenv.driver_env)
        with torch.no_grad():
            policy.action_head.log_std.fill_(5.0)
        result = evaluate_policy(vecenv, policy, episodes=2)
    assert result.lengths == [5, 5]


def test_every_batch_can_be_watched():
    frames = []
    with make(3) as vecenv:
        evaluate_policy(vecenv, None, 2, on_step=lambda: frames.append(vecenv.render()))
    # Each episode's first row and its steps.
    assert [frame[5] for frame in frames] == [*"0123"] * 2
