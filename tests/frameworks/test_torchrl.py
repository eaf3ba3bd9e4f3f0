"""TorchRL plays and trains our vectorized environments and policies."""

import functools
import multiprocessing
import re
from pathlib import Path

import numpy as np
import pytest
import torch
from toys import COMINGS_AND_GOINGS, Echo, Lives, SameStepCounters, emulate

from pufferlib import vector
from pufferlib.environments import classic_control, ocean
from pufferlib.models import Default, LSTMWrapper

pytest.importorskip("torchrl")

from torchrl.collectors import Collector
from torchrl.envs import GymEnv, SerialEnv
from torchrl.envs.utils import check_env_specs
from torchrl.modules import set_recurrent_mode
from torchrl.objectives import ClipPPOLoss
from torchrl.objectives.value import GAE

from pufferlib.frameworks.torchrl import TorchRLEnv, actor_critic

# TorchRL has made spawn the default of the process, and so of all tests in it.
multiprocessing.set_start_method(None, force=True)

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(600),
    pytest.mark.filterwarnings("ignore:total_frames:UserWarning"),
]

LOSSES = ("objective", "critic", "entropy")


def make(creator, num_envs=2, **options):
    return vector.make(vector.SameStep(creator), num_envs=num_envs, **options)


def make_echo(**options):
    return emulate(Echo(**options))


def make_lives():
    return emulate(Lives(COMINGS_AND_GOINGS))


def test_specs_are_what_the_environment_gives():
    for creator in (make_echo, make_lives, ocean.env_creator("spaces"), SameStepCounters):
        env = TorchRLEnv(make(creator))
        check_env_specs(env)
        env.close()
        assert env.is_closed


def test_a_transition_for_every_step_with_the_last_observation_where_it_ends():
    env = TorchRLEnv(make(functools.partial(make_echo, length=2, truncates=True), seed=0))
    data = env.rollout(5, lambda td: td.set("action", torch.full((2,), 3)), auto_reset=True)
    assert data.shape == (2, 2)  # up to the first end
    data = env.rollout(
        5, lambda td: td.set("action", torch.full((2,), 3)), break_when_any_done=False
    )
    assert data["observation"][0, :, 1].tolist() == [-1, 3, -1, 3, -1]
    assert data["next", "observation"][0, :, 1].tolist() == [3] * 5
    assert data["next", "truncated"][0, :, 0].tolist() == [False, True, False, True, False]
    assert torch.equal(data["next", "done"], data["next", "truncated"])
    assert not data["next", "terminated"].any()
    assert data["next", "reward"].unique().tolist() == [1]


def test_absent_agents_are_masked():
    """b dies at step 2, c is born at step 3, all end at step 4."""
    env = TorchRLEnv(make(make_lives, num_envs=1))
    data = env.rollout(4, break_when_any_done=False)
    samples = data["mask"] & data["next", "mask"]
    assert samples.tolist() == [
        [True, True, True, True],
        [True, True, False, False],
        [False, False, False, True],
    ]
    assert data["next", "done"][:, :, 0].int().tolist() == [
        [0, 0, 0, 1],
        [0, 1, 0, 0],
        [0, 0, 0, 1],
    ]


def test_a_seed_decides_the_next_reset():
    env = TorchRLEnv(make(ocean.env_creator("spaces")))
    env.set_seed(5)
    first = env.reset()["observation"]
    assert not torch.equal(env.reset()["observation"], first)
    env.set_seed(5)
    assert torch.equal(env.reset()["observation"], first)


def test_a_recurrent_policy_over_sequences_is_the_one_that_acted():
    with make(functools.partial(make_echo, length=3), num_envs=4) as vecenv:
        policy = LSTMWrapper(vecenv.driver_env, Default(vecenv.driver_env, 8), 8, 8)
        actor, critic = actor_critic(policy, vecenv.single_action_space)
        env = TorchRLEnv(vecenv, policy=actor)
        data = env.rollout(8, actor, break_when_any_done=False)
    assert not data["state_0"][:, [0, 3, 6]].any()  # where episodes begin
    assert data["state_0"][:, [1, 2, 4, 5, 7]].any(-1).all()
    torch.testing.assert_close(data["state_1"][:, 1], data["next", "state_1"][:, 0])
    with set_recurrent_mode(True), torch.no_grad():
        log_prob = actor.get_dist(data.clone()).log_prob(data["action"])
        values = critic(data.clone())["state_value"]
    torch.testing.assert_close(log_prob, data["action_log_prob"])
    torch.testing.assert_close(values, critic(data.clone())["state_value"].detach())


def test_the_example_of_the_page_runs():
    page = Path(__file__).parents[2] / "docs" / "pages" / "learning_libraries.md"
    sources = re.findall(r"```py\n(.*?)```", page.read_text(), re.DOTALL)
    (source,) = (text for text in sources if "frameworks.torchrl" in text)
    names = {}
    exec(source, names)
    assert names["losses"]["loss_objective"].isfinite()


def train(creator, frames, num_envs, horizon, rate, *, wrap=None, entropy=0.01, average=True):
    """Train over our environments; the rewards per episode of each batch."""
    torch.manual_seed(0)
    vecenv = make(creator, num_envs, seed=0)
    policy = Default(vecenv.driver_env)
    policy = policy if wrap is None else wrap(vecenv.driver_env, policy)
    networks = actor_critic(policy, vecenv.single_action_space)
    env = TorchRLEnv(vecenv, **({"policy": networks[0]} if wrap else {}))
    options = {"entropy": entropy, "average": average, "recurrent": wrap is not None}
    return learn(env, *networks, frames, horizon, rate, **options)


def learn(
    env, actor, critic, frames, horizon, rate, *, entropy=0.01, average=True, recurrent=False
):
    """Train as TorchRL's PPO examples do; the rewards per episode of each batch."""
    estimate = GAE(
        gamma=0.99, lmbda=0.95, value_network=critic, deactivate_vmap=True, average_gae=average
    )
    loss = ClipPPOLoss(actor, critic, entropy_coeff=entropy, critic_coeff=0.5)
    optimizer = torch.optim.Adam(loss.parameters(), lr=rate, eps=1e-5)
    (rows,), returns = env.batch_size, []
    batches = Collector(env, actor, frames_per_batch=rows * horizon, total_frames=frames)
    for data in batches:
        with torch.no_grad():
            estimate(data)
        for _ in range(4):
            for part in torch.randperm(rows).chunk(4):
                with set_recurrent_mode(recurrent):
                    losses = loss(data[part])
                optimizer.zero_grad()
                sum(
                    losses[f"loss_{name}"] for name in ("objective", "critic", "entropy")
                ).backward()
                torch.nn.utils.clip_grad_norm_(loss.parameters(), 0.5)
                optimizer.step()
        optimizer.param_groups[0]["lr"] -= rate * rows * horizon / frames
        returns.append(data["next", "reward"].sum() / data["next", "done"].sum())
    batches.shutdown()
    return np.array(returns)


def test_it_trains_on_structured_observations():
    returns = train(ocean.env_creator("spaces"), 12_288, 128, 8, 5e-3)
    assert returns[0] < 0.6
    assert returns[-1] >= 0.9


def make_own(seed):
    env = GymEnv("CartPole-v1", categorical_action_encoding=True)
    env.set_seed(seed)
    return env


@pytest.mark.bench
def test_it_learns_cartpole_as_over_environments_of_its_own():
    vecenv = make(classic_control.env_creator("CartPole-v1"), 16)
    vecenv.reset(list(range(16)))
    own = SerialEnv(16, [functools.partial(make_own, seed) for seed in range(16)])
    own.start()
    weights, returns = [], []
    for env in (own, TorchRLEnv(vecenv)):
        torch.manual_seed(0)
        policy = Default(vecenv.driver_env)
        networks = actor_critic(policy, vecenv.single_action_space)
        returns.append(learn(env, *networks, 102_400, 64, 2.5e-3))
        weights.append(torch.nn.utils.parameters_to_vector(policy.parameters()))
    np.testing.assert_array_equal(*returns)
    assert torch.equal(*weights)
    assert returns[0][-5:].mean() >= 400


@pytest.mark.bench
def test_it_trains_several_agents():
    creator = functools.partial(ocean.env_creator("multiagent"), roles="drawn")
    assert train(creator, 20_480, 64, 8, 5e-3)[-1] >= 0.9


@pytest.mark.bench
def test_it_trains_a_memory():
    creator = ocean.env_creator("memory")
    returns = train(creator, 60_000, 64, 14, 2e-3, wrap=LSTMWrapper, entropy=0.05, average=False)
    assert returns[-5:].mean() >= 0.9
